import { spawn } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { bytesOfActions } from './bytes.mjs';
import { checksums, checksumsOfLookUps, checksumsOfRelays, checksumsOverHttp } from './checksums.mjs';
import { commandLine, wrongUsage } from './command-line.mjs';
import { batches, boot, checks, duringRebuild, duringReplay, keyOf, overHttp, tracing } from './http.mjs';
import {
  besideUnary,
  clusterChecks,
  lag,
  lookUps,
  overload,
  projecting,
  reads,
  rebuilds,
  relays,
  withCluster,
} from './cluster.mjs';
import { deliveries, idleStreams, startDelivering } from './delivery.mjs';
import { floods } from './floods.mjs';
import { appends, appendsBesideUnary } from './eventstoredb.mjs';
import { ingestionRate } from './ingestion.mjs';
import { ageOfCheckpoints, inclusionProofs } from './log-tree.mjs';
import { append, rebuildAll } from './log.mjs';
import { lookUp, modelReads } from './look-up.mjs';
import { ROOT, count, inTemporaryFolder } from './measure.mjs';
import { importAtServer } from './owner.mjs';
import { partsOfRequests, tableOfParts } from './parts.mjs';
import { fillLog } from './population.mjs';
import { proofVerification } from './proofs.mjs';
import { replaceTable, report, tableOf } from './report.mjs';
import { refreshes, signInsPerCore } from './sign-in.mjs';
import { affectedDecisions } from './withdrawals.mjs';

const USAGE = `npm run bench -- [options]: every figure with its peer, medians of interleaved rounds, as a table.
  --profile cluster        the figures of that profile, on new servers or those in EVENTSTORE_URL, REDIS_URL and
                           CREDENCE_DATABASE_URL
  --only append,rebuild    some of them; an unknown name lists the known ones
  --quick                  one round with few identities, to see that everything works: not for figures
  --rounds 5
  --identities 1000000     how many the memory and look-up rows use (five actions each)
  --only parts             what the parts of a request cost, each by leaving it out: a separate table
  --out docs/benchmarks.md put the measured rows into that document, replacing its earlier ones`;
const { values: options } = commandLine(USAGE, {
  profile: { type: 'string', default: 'embedded' },
  only: { type: 'string' },
  quick: { type: 'boolean', default: false },
  rounds: { type: 'string' },
  identities: { type: 'string' },
  out: { type: 'string' },
});

const rounds = Number(options.rounds ?? (options.quick ? 1 : 5));
const identities = Number(options.identities ?? (options.quick ? 20_000 : 1_000_000));
const rows = [];
const add = (...row) => {
  rows.push(row);
  console.error(row.join(' | '));
};
const ratio = (ours, peer) => `${(ours / peer).toFixed(2)}×`;
const rates = (what, { ours, peer }, against, wanted) =>
  add(what, `${count(ours)}/s`, `${against}: ${count(peer)}/s`, ratio(ours, peer), wanted);
/** Processor time of the server for each request, and that of its peer. */
const costs = (what, { ours, peer }, against) =>
  add(what, `${count(ours)} µs`, `${against}: ${count(peer)} µs`, ratio(ours, peer), '–');

const delivered = ({ webhook, stream, rate }) => {
  const against = `relayed: ${count(rate)}/s`;
  add('webhook p99 from the answer at 500 relays/s', `${count(webhook)} ms`, against, '–', '< 1 s');
  add('stream of changes p99 from the answer at 500 relays/s', `${count(stream)} ms`, against, '–', '< 300 ms');
};

const embedded = {
  append: async () => {
    const { ours, peer, indexed } = await append(rounds, options.quick ? 40_000 : 200_000);
    rates('durable append, one event each, 256 in flight', { ours, peer }, 'raw lmdb, same events', '≥ 0.5×');
    rates('durable append with its index of streams', { ours, peer: indexed }, 'raw lmdb, the same', '–');
  },
  checksums: async () => {
    const { append, look } = await checksums(rounds);
    const cost = (what, { ours, peer }) => {
      const times = [`${ours.toFixed(1)} µs`, `without: ${peer.toFixed(1)} µs`];
      add(what, ...times, ratio(ours, peer), '≤ 1.03×');
    };
    cost('checksums: processor time of an append at the store', append);
    const { relay, checksums: ofRelay } = await checksumsOfRelays();
    const times = [`${ofRelay.toFixed(1)} µs`, `all of it: ${relay.toFixed(1)} µs`];
    add('checksums: main thread of a server, for a relay', ...times, ratio(ofRelay, relay), '≤ 0.03×');
    cost('checksums: processor time of reading one event', look);
    cost('checksums: processor time of a score, uncached, as the query answers it', await checksumsOfLookUps(rounds));
    cost('checksums: processor time of a score, uncached, over HTTP', await checksumsOverHttp(rounds));
  },
  rebuild: async () => {
    for (const population of options.quick ? [10_000] : [10_000, 100_000]) {
      const { events, rates: measured, cpu } = await rebuildAll(rounds, population);
      const what = `full rebuild of all views, ${count(events)} events`;
      rates(what, measured, 'scan + decode', '≥ 0.25×');
      const times = [`${cpu.ours.toFixed(1)} µs`, `scan + decode: ${cpu.peer.toFixed(1)} µs`];
      add(`${what}: processor time of an event`, ...times, ratio(cpu.ours, cpu.peer), '–');
    }
  },
  import: () =>
    inTemporaryFolder(async (folder) => {
      const figures = join(folder, 'figures.json');
      await run('growth.mjs', ['import', '--max', '100000', '--figures', figures]);
      const [first, last] = JSON.parse(await readFile(figures, 'utf8'));
      const both = { ours: last.ours.rate, peer: last['raw lmdb'].rate };
      rates('import of actions, lines after 50,000 others', both, 'raw lmdb, same events', '–');
      rates(
        'import of actions, the same',
        { ours: last.ours.rate, peer: first.ours.rate },
        'the first 50,000',
        '≥ 0.9×',
      );
    }),
  owner: async () => {
    const { rates: lines, p99 } = await importAtServer(rounds, options.quick ? 5_000 : 50_000);
    rates('import of actions by a running server', { ours: lines.served, peer: lines.alone }, 'alone', '≥ 0.8×');
    const times = [`${p99.importing} ms`, `in quiet: ${p99.quiet} ms`];
    add('GET p99 meanwhile, 400/s', ...times, ratio(p99.importing, p99.quiet), '≤ 2×');
  },
  floods: () =>
    floods(options.quick ? 1 : 10, (flood, kind, ours, least) => {
      const [time, before] = ours.map((each) => `${each.toFixed(1)} ms`);
      const peer = least ? `; least server: ${ratio(...least)}` : '';
      const what = `p99 of ${kind} of another client under ${flood}`;
      add(what, time, `in quiet: ${before}${peer}`, ratio(...ours), '≤ 2×');
    }),
  withdrawals: async () => {
    const [decisions, actions] = options.quick ? [500, 2_000] : [10_000, 100_000];
    const { ofSmall, ofLarge, held, waited } = await affectedDecisions(decisions, actions);
    const row = (what, seconds, wanted) => add(what, `${seconds.toFixed(1)} s`, '–', '–', wanted);
    row(`${count(decisions)} decisions about as many identities, each without an action`, ofSmall, '< 5 s');
    row(`${count(decisions)} decisions about one identity with ${count(actions)} actions`, ofLarge, '< 60 s');
    const turn = (share) => `${held[Math.floor((held.length - 1) * share)].toFixed(1)} ms`;
    const turns = [`median ${turn(0.5)}, 95 % ${turn(0.95)}`, `longest: ${turn(1)}`];
    add('the longest turn in every 50 ms of it, processor time', ...turns, '–', '< 10 ms');
    add('GET of another client meanwhile, at most', `${waited.toFixed(0)} ms`, '–', '–', '–');
  },
  tree: async () => {
    const { ours, peer, events } = await inclusionProofs(options.quick ? 20_000 : 1_000_000);
    const times = [`${ours.toFixed(1)} ms`, `GET /health/live: ${peer.toFixed(1)} ms`];
    add(`inclusion proof in a log of ${count(events)} events, p99`, ...times, ratio(ours, peer), '< 10 ms');
    const { age, rate } = await ageOfCheckpoints();
    const what = 'time until events are in a signed checkpoint, at most';
    add(what, `${(age / 1_000).toFixed(1)} s`, `relayed: ${count(rate)}/s`, '–', '< 3 s');
  },
  http: async () => {
    const { gets, posts } = await overHttp(rounds);
    const get = 'GET /api/disc-score of 100,000 identities (Zipf), 64 connections';
    const post = 'POST /api/decision-relay, 256 connections, durable';
    rates(get, gets.rates, 'bare Fastify', '≥ 0.55×');
    costs(`${get}: processor time, ${count(100 * gets.hits)} % from the cache`, gets.costs, 'bare Fastify');
    rates(post, posts.rates, 'bare Fastify, no storage', '≥ 0.35×');
    costs(`${post}: processor time`, posts.costs, 'bare Fastify, no storage');
    const { ours, emmett } = posts.rates;
    if (emmett) {
      rates('POST /api/decision-relay, durable', { ours, peer: emmett }, 'emmett + SQLite', '≥ 10×');
    } else add('POST /api/decision-relay, durable', '–', 'emmett + SQLite: not installed (bench/emmett)', '–', '≥ 10×');
  },
  batch: async () => {
    const { rates: actions, costs } = await batches(rounds);
    rates('actions relayed in batches of 1,000, 4 connections, durable', actions, 'singly, 256 connections', '≥ 5×');
    const [ours, peer] = [costs.ours, costs.peer].map((cost) => `${count(cost)} µs`);
    add('processor time of the server for each', ours, `singly: ${peer}`, ratio(costs.ours, costs.peer), '–');
  },
  tracing: async () => {
    const { costs, rates: relays, mains } = await tracing(rounds);
    rates('relays, tracing on, none traced', { ours: relays.none, peer: relays.off }, 'without tracing', '≥ 0.9×');
    for (const [traced, part] of Object.entries({ 'every tenth traced': 'tenth', 'all traced': 'all' })) {
      const [ours, peer] = [costs[part], costs.off].map((cost) => `${count(cost)} µs`);
      rates(`relays, ${traced}`, { ours: relays[part], peer: relays.none }, 'none traced, same server', '≥ 0.9×');
      add(`processor time of a relay, ${traced}`, ours, `without tracing: ${peer}`, ratio(costs[part], costs.off), '–');
    }
    const main = 'processor time of a relay in the main thread, all traced';
    add(main, `${count(mains.all)} µs`, `none traced: ${count(mains.none)} µs`, ratio(mains.all, mains.none), '≤ 1.1×');
  },
  delivery: () =>
    inTemporaryFolder(async (data) => {
      const server = await startDelivering({ CREDENCE_DATA: data });
      try {
        delivered(await deliveries(server.url, keyOf(data)));
        const megabytes = await idleStreams(server, keyOf(data), 9_900);
        add('memory of 9,900 idle streams', `${count(megabytes)} MB`, '–', '–', '< 200 MB');
      } finally {
        await server.stop();
      }
    }),
  bytes: async () => {
    const { ours, text } = await bytesOfActions(Math.min(identities, 20_000));
    const bytes = [`${count(ours)} B`, `events as JSON text: ${count(text)} B`];
    add('bytes on disk of an action: log and read models', ...bytes, ratio(ours, text), '≤ 0.7×');
  },
  check: async () => {
    const what = 'POST /v1/policies/ap/check, 256 connections, recorded and signed';
    const measured = await checks(rounds);
    rates(what, measured.rates, 'bare Fastify, no storage', '≥ 0.35×');
    costs(`${what}: processor time`, measured.costs, 'bare Fastify, no storage');
  },
  parts: async () => {
    const routes = [];
    const tell = (...route) => {
      routes.push(route);
      console.error(tableOfParts([route]).join('\n'));
    };
    await partsOfRequests(rounds, tell, options.quick);
    const about = `the least of ${rounds} interleaved rounds`;
    if (options.out) await replaceTable(options.out, '## Parts of a request', tableOfParts(routes), about);
  },
  replay: async () => {
    const population = Math.min(identities, 300_000);
    const { delay, p99, rate } = await duringReplay(population);
    const what = `replay of ${count(population)} identities and 10 access policies in a server with 4 clients`;
    add(what, `${count(rate)}/s`, '–', '–', '–');
    add('longest delay of its event loop', `${count(delay)} ms`, `p99 of look-ups: ${p99} ms`, '–', '< 50 ms');
  },
  p99: async () => {
    const { ours, peer } = await duringRebuild(rounds);
    add('GET p99 while a rebuild runs', `${ours} ms`, `without: ${peer} ms`, ratio(ours, peer), '< 3×');
  },
  'sign-in': async () => {
    add(
      'sign-in verified (wallet with a key), per core',
      `${count(await signInsPerCore(rounds))}/s`,
      '–',
      '–',
      '≥ 400/s',
    );
    rates('POST /v1/tris/token/refresh, 256 sessions', await refreshes(rounds), 'bare Fastify, no storage', '≥ 0.25×');
  },
  proofs: async () => {
    const { verifying, idle, rate } = await proofVerification(rounds);
    const against = `idle: ${idle.toFixed(1)} ms`;
    add('loop delay p99 at 10 proofs/s', `${verifying.toFixed(1)} ms`, against, ratio(verifying, idle), '< 20 ms');
    add('proofs verified, 8 in flight', `${rate.toFixed(1)}/s`, '–', '–', '≥ 10/s');
  },
  ingestion: async () => {
    const { rate, logs } = await ingestionRate(rounds);
    add(`ingestion of a wallet's history, ${count(logs)} logs from anvil`, `${count(rate)}/s`, '–', '–', '≥ 5,000/s');
  },
  'look-up': async () => {
    const { ours, peer } = await lookUp(rounds, identities);
    const against = `among 1,000: ${peer.toFixed(1)} µs`;
    add(
      `look-up among ${count(identities)} identities`,
      `${ours.toFixed(1)} µs`,
      against,
      ratio(ours, peer),
      '0.75–1.25×',
    );
  },
  models: async () => {
    for (const actions of [30, 1_000]) {
      const { ours, peer } = await modelReads(rounds, actions);
      const times = [`${ours.toFixed(1)} µs`, `by disc-1: ${peer.toFixed(1)} µs`];
      add(`score by disc-2, ${count(actions)} actions`, ...times, ratio(ours, peer), '≤ 1.15×');
    }
  },
  boot: async () => {
    await inTemporaryFolder(async (data) =>
      add('boot to ready, empty', `${count(await boot(rounds, data))} ms`, '–', '–', '< 2 s'),
    );
    await inTemporaryFolder(async (data) => {
      const events = await fillLog(data, Math.min(identities, 100_000), 5);
      await boot(1, data);
      add(`boot to ready, ${count(events)} events`, `${count(await boot(rounds, data))} ms`, '–', '–', '< 3 s');
    });
  },
  memory: () =>
    inTemporaryFolder(async (data) => {
      await fillLog(data, identities, 5);
      const megabytes = await run('memory.mjs', [data]);
      add(
        `RssAnon after a rebuild, ${count(identities)} identities × 5`,
        `${count(Number(megabytes))} MB`,
        '–',
        '–',
        '< 400 MB',
      );
    }),
};

/** Each on new, empty servers. */
const cluster = {
  rebuild: async () => {
    for (const population of options.quick ? [20_000] : [20_000, 200_000]) {
      await withCluster(async (env, _, servers) => {
        const { events, rates: measured, cpu } = await rebuilds(env, rounds, servers, population);
        const what = `full rebuild of all views, ${count(events)} events`;
        rates(what, measured, 'readAll, empty handler', '≥ 0.7×');
        const time = `${what}: processor time of an event in`;
        costs(`${time} the worker`, { ours: cpu.own.ours, peer: cpu.own.peer }, 'readAll');
        if (servers.postgres) add(`${time} PostgreSQL`, `${cpu.postgres.ours.toFixed(1)} µs`, '–', '–', '–');
        if (servers.eventStored) costs(`${time} EventStoreDB`, cpu.eventStored, 'readAll');
      });
    }
  },
  projector: () =>
    withCluster(async (env) => {
      const { events, rates: measured, bytes } = await projecting(env, rounds, Math.min(identities, 10_000));
      rates(`one projector, batch by batch, ${count(events)} events`, measured, 'embedded', '≥ 18,000/s');
      const against = `loaded: ${count(bytes.peer)} B`;
      const what = 'bytes on the disk of PostgreSQL of an event after live batches';
      add(what, `${count(bytes.ours)} B`, against, ratio(bytes.ours, bytes.peer), '< 600 B');
    }),
  check: () =>
    withCluster(async (env, key) => {
      const what = 'POST /v1/policies/ap/check, 64 connections, recorded and signed';
      rates(what, await clusterChecks(env, key, rounds), 'embedded', '–');
    }),
  append: () =>
    withCluster(async ({ EVENTSTORE_URL }) =>
      rates(
        'append, two events each, 64 in flight',
        await appends(EVENTSTORE_URL, rounds),
        'appendToStream',
        '≥ 0.75×',
      ),
    ),
  unary: async () => {
    const peer = 'unary call of the client';
    const tell = (what, where, { rates: measured, own, server }) => {
      rates(what, measured, peer, '> 1.25×');
      costs(`${what}: processor time of ${where}`, own, peer);
      if (server) costs(`${what}: processor time of EventStoreDB`, server, peer);
    };
    const amounts = [256, 1_500];
    await withCluster(async ({ EVENTSTORE_URL }, _, { eventStored }) => {
      for (const many of amounts) {
        const what = `append, two events each, ${count(many)} in flight`;
        tell(what, 'the process that appends', await appendsBesideUnary(EVENTSTORE_URL, eventStored, rounds, many));
      }
    });
    await withCluster((env, key, { eventStored }) =>
      besideUnary(env, key, eventStored, rounds, async (relaysOver) => {
        for (const many of amounts) {
          tell(`relays without a worker, ${count(many)} connections`, 'the API process', await relaysOver(many));
        }
      }),
    );
  },
  'look-up': () =>
    withCluster(async (env) =>
      rates('look-up from PostgreSQL, 64 in flight', await lookUps(env, rounds), 'embedded', '≥ 0.5×'),
    ),
  http: () =>
    withCluster(async (env) => rates('GET /api/disc-score, 64 connections', await reads(env, rounds), 'embedded', '–')),
  overload: async () => {
    for (const [what, bytesPerSecond] of [
      ['fast', Infinity],
      ['slow', 400_000],
    ]) {
      await withCluster(async (env, key) =>
        rates(
          `relays recorded, 1,500 connections, ${what} EventStoreDB`,
          await overload(env, key, rounds, bytesPerSecond),
          '256 connections',
          '≥ 0.8×',
        ),
      );
    }
  },
  delivery: () =>
    withCluster(async (env, key) => {
      const [api, worker] = await Promise.all(
        ['api', 'worker'].map((CREDENCE_ROLES) => startDelivering({ ...env, CREDENCE_ROLES })),
      );
      try {
        delivered(await deliveries(api.url, key));
      } finally {
        await Promise.all([api.stop(), worker.stop()]);
      }
    }),
  relay: () =>
    withCluster(async (env, key) => {
      const { rates: measured, cpu } = await relays(env, key, rounds);
      const what = 'POST /api/decision-relay, 256 connections';
      rates(what, measured, 'appendToStream, 256 in flight', '–');
      costs(`${what}: processor time of the API process`, cpu, 'appendToStream');
    }),
  lag: async () => {
    for (const retained of [false, true]) {
      await withCluster(async (env, key) => {
        const { p99, rate } = await lag(env, key, rounds, { retained });
        const what = `projection lag p99 at 1,000 relays/s${retained ? ', with a retained generation' : ''}`;
        add(what, `${count(p99)} ms`, `acknowledged: ${count(rate)}/s`, '–', '< 250 ms');
      });
    }
  },
};
const SHARED = {
  embedded: '',
  cluster:
    ' The processors were shared by EventStoreDB (in memory), redis-server, PostgreSQL, the bench with its load generator, and the API process and worker, if the row has them.',
};

const benches = { embedded, cluster }[options.profile];
if (!benches) wrongUsage(`There is no profile ${options.profile}; there are embedded and cluster.`);
/** Runs only if it is named, since it takes as long as all the others. */
const names = options.only?.split(',') ?? Object.keys(benches).filter((name) => name !== 'parts');
for (const name of names) {
  if (!benches[name]) wrongUsage(`There is no benchmark ${name}; there are ${Object.keys(benches).join(', ')}.`);
}
for (const name of names) {
  console.error(`${name} …`);
  const started = performance.now();
  try {
    await benches[name]();
    console.error(`${name}: ${count((performance.now() - started) / 1000)} s`);
  } catch (error) {
    // A failure does not stop the others.
    console.error(error);
    add(name, 'failed', error.message.split('\n')[0], '–', '–');
    process.exitCode = 1;
  }
}

if (rows.length > 0) {
  console.log(tableOf(rows));
  const about = `medians of ${rounds} interleaved rounds.${SHARED[options.profile]}`;
  console.log(about);
  const heading = options.profile === 'cluster' ? '## The cluster profile' : '# Benchmarks';
  const measured = rows.filter(([, ours]) => ours !== 'failed');
  if (options.out) await report(options.out, measured, about, heading);
}

/** A script in a separate process, so that only its memory is measured. */
function run(script, args) {
  const child = spawn(process.execPath, [join(ROOT, 'bench', script), ...args], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  return new Promise((resolve, reject) => {
    let output = '';
    child.stdout.on('data', (chunk) => (output += chunk));
    child.once('exit', (code) => (code === 0 ? resolve(output) : reject(new Error(`ended with ${code}`))));
  });
}
