import { spawn } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  ROOT,
  inTemporaryFolder,
  interleave,
  load,
  median,
  mainThreadTime,
  processorTime,
  startServer,
} from './measure.mjs';
import { BoundedMap } from '../dist/src/kernel/bounded-map.js';
import { fillLog } from './population.mjs';

/** The built service over HTTP and bare Fastify as its peer, each in a separate process. */

const SERVER = join(ROOT, 'dist/src/main.js');
export const TRIS = 'tris:identity-1';
const ACTION = {
  tris_id: TRIS,
  action_type: 'loan_repayment',
  category: 'finance',
  criticality: 'high',
  platform_id: 'lender',
};
const SECONDS = 3;

export function keyOf(data) {
  return readFileSync(join(data, 'dev-api-key'), 'utf8').trim();
}

export function relayOptions(url, key) {
  return {
    url: `${url}/api/decision-relay`,
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-api-key': key },
    setupClient: (client) => {
      // A different identity in each request, as platforms would send them.
      let n = Math.floor(Math.random() * 1e9);
      const next = () => client.setBody(JSON.stringify({ ...ACTION, tris_id: `tris:identity-${n++ % 100_000}` }));
      next();
      client.on('response', next);
    },
  };
}

/** The same in batches of 1,000 actions. */
export function batchOptions(url, key) {
  const setupClient = (client) => {
    let n = Math.floor(Math.random() * 1e9);
    const next = () => {
      const actionOf = () => ({ ...ACTION, tris_id: `tris:identity-${n++ % 100_000}` });
      client.setBody(JSON.stringify({ actions: Array.from({ length: ACTIONS_OF_A_BATCH }, actionOf) }));
    };
    next();
    client.on('response', next);
  };
  return { ...relayOptions(url, key), url: `${url}/v1/decision-relay/batch`, setupClient };
}

/** Runs a load on a server. @returns its rate; adds the processor time of the server for each request, in µs, to `costs` */
async function costed(server, options, costs) {
  const before = await processorTime(server.pid);
  const { rate, requests } = await load(options);
  costs.push((((await processorTime(server.pid)) - before) * 1e6) / requests);
  return rate;
}

/** Runs a load on a server. @returns the processor time of the server for each request, µs */
export async function costOf(pid, options) {
  const costs = [];
  await costed({ pid }, options, costs);
  return costs[0];
}

const IDENTITIES = 100_000;
/** The answers that the service keeps: KEPT in src/features/disc/score.ts. */
const KEPT_ANSWERS = 4_000;

/** Identities to look up, of which the n-th is looked up 1/n as often as the first (Zipf). */
export function zipf(identities, count = 200_000) {
  const sums = new Float64Array(identities);
  let sum = 0;
  for (let n = 0; n < identities; n++) sums[n] = sum += 1 / (n + 1);
  return Array.from({ length: count }, () => {
    const wanted = Math.random() * sum;
    let [low, high] = [0, identities - 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (sums[middle] < wanted) low = middle + 1;
      else high = middle;
    }
    // Neighbours in rank are not neighbours in the store.
    return `tris:identity-${(low * 7_919) % identities}`;
  });
}

export function lookUpOptions(url, lookUps) {
  let next = 0;
  const setupRequest = (request) => ({ ...request, path: `/api/disc-score/${lookUps[next++ % lookUps.length]}` });
  return { url, requests: [{ setupRequest }] };
}

/** The share of look-ups whose answer is still kept from an earlier one. */
function hitRate(lookUps) {
  const kept = new BoundedMap(KEPT_ANSWERS);
  let hits = 0;
  for (const tris of lookUps) {
    if (kept.get(tris)) hits++;
    else kept.set(tris, true);
  }
  return hits / lookUps.length;
}

/**
 * GET of the scores of 100,000 identities with 64 connections, and durable POST of an action with 256, ours and bare:
 * requests per second, processor time of the server for each in µs, and the share of look-ups that a cache answers.
 */
export function overHttp(rounds) {
  return inTemporaryFolder(async (data) => {
    await fillLog(data, IDENTITIES, 2);
    const ours = await startServer(SERVER, { CREDENCE_DATA: data });
    const key = keyOf(data);
    const get = await (await fetchReady(`${ours.url}/api/disc-score/${TRIS}`)).text();
    const post = JSON.stringify({
      status: 'received',
      message: 'Action received for scoring.',
      action_id: crypto.randomUUID(),
    });
    const bare = await startServer(join(import.meta.dirname, 'bare-fastify.mjs'), { GET_BODY: get, POST_BODY: post });
    const lookUps = zipf(IDENTITIES);
    const looking = { ours: lookUpOptions(ours.url, lookUps), peer: lookUpOptions(bare.url, lookUps) };
    const costs = { gets: { ours: [], peer: [] }, posts: { ours: [], peer: [] } };
    const getting = (who, server) => () =>
      costed(server, { ...looking[who], connections: 64, seconds: SECONDS }, costs.gets[who]);
    const posting = (who, server, refusals) => () =>
      costed(
        server,
        { ...relayOptions(server.url, key), connections: 256, seconds: SECONDS, refusals },
        costs.posts[who],
      );
    // A new server each round: otherwise work left in its queue would run during the next contestant's turn.
    const emmett = async () => {
      const server = await startServer(join(import.meta.dirname, 'emmett/server.mjs'));
      // SQLite may be busy, and then refuses.
      return (
        await load({ ...relayOptions(server.url, key), connections: 256, seconds: SECONDS, refusals: 10 }).finally(
          server.stop,
        )
      ).rate;
    };
    try {
      const gets = await interleave(rounds, { ours: getting('ours', ours), peer: getting('peer', bare) });
      const posts = await interleave(rounds, {
        ours: posting('ours', ours),
        peer: posting('peer', bare),
        ...(existsSync(join(import.meta.dirname, 'emmett/node_modules')) && { emmett }),
      });
      const medians = ({ ours, peer }) => ({ ours: median(ours), peer: median(peer) });
      return {
        gets: { rates: gets, costs: medians(costs.gets), hits: hitRate(lookUps) },
        posts: { rates: posts, costs: medians(costs.posts) },
      };
    } finally {
      await Promise.all([ours.stop(), bare.stop()]);
    }
  });
}

/** Relays a second that are sent where processor times are compared: fewer than are possible. */
const RELAY_RATE = 1_000;
export const ACTIONS_OF_A_BATCH = 1_000;

/**
 * Actions relayed in batches of 1,000 over 4 connections beside single ones over 256: actions per second, and processor
 * time of the server for each, in µs. The projector, in the same process, works while the log grows.
 */
export function batches(rounds) {
  return inTemporaryFolder(async (data) => {
    const server = await startServer(SERVER, { CREDENCE_DATA: data });
    const single = relayOptions(server.url, keyOf(data));
    await fetchReady(`${server.url}/health/ready`);
    const batch = batchOptions(server.url, keyOf(data));
    const costs = { ours: [], peer: [] };
    const posting = (who, options, actions) => async () => {
      const before = await processorTime(server.pid);
      const started = performance.now();
      const { rate } = await load({ ...options, seconds: SECONDS });
      const seconds = (performance.now() - started) / 1_000;
      costs[who].push((((await processorTime(server.pid)) - before) * 1e6) / (rate * actions * seconds));
      return rate * actions;
    };
    try {
      const rates = await interleave(rounds, {
        ours: posting('ours', { ...batch, connections: 4 }, ACTIONS_OF_A_BATCH),
        peer: posting('peer', { ...single, connections: 256 }, 1),
      });
      return { rates, costs: { ours: median(costs.ours), peer: median(costs.peer) } };
    } finally {
      await server.stop();
    }
  });
}

/** Relays of a client that records a share of its traces and says so in `traceparent`: the server records the same ones. */
function tracedOptions(url, key, share) {
  const relays = relayOptions(url, key);
  const setupClient = (client) => {
    relays.setupClient(client);
    let n = Math.floor(Math.random() * 1e9);
    const next = () => {
      const id = (++n).toString(16).padStart(16, '0');
      const flags = (n * share) % 1 < share ? '01' : '00';
      client.setHeaders({ ...relays.headers, traceparent: `00-${id}${id}-${id}-${flags}` });
    };
    next();
    client.on('response', next);
  };
  return { ...relays, setupClient };
}

/**
 * Processor time of a relay, µs, of servers that trace none, a tenth and all of them, in turn, at the same rate. And
 * relays a second, and processor time of the main thread for each, as many as it takes, of one that is told with each relay whether to record it, beside one without
 * tracing: at the highest rate, two servers without tracing may differ by a seventh. All run all the time and have
 * relayed for a while before: a server that has just started compiles its code, and one that traces has more of it.
 */
export function tracing(rounds) {
  return inTemporaryFolder(async (folder) => {
    const collector = await startServer(join(import.meta.dirname, 'collector.mjs'));
    const tracing = { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, OTEL_TRACES_SAMPLER: 'parentbased_traceidratio' };
    const environments = {
      off: {},
      tenth: { ...tracing, OTEL_TRACES_SAMPLER_ARG: '0.1' },
      all: { ...tracing, OTEL_TRACES_SAMPLER_ARG: '1' },
    };
    const started = [collector];
    const costs = {};
    const rates = {};
    const mains = {};
    try {
      for (const [name, env] of Object.entries(environments)) {
        const data = join(folder, name);
        const server = await startServer(SERVER, { CREDENCE_DATA: data, ...env });
        started.push(server);
        await fetchReady(`${server.url}/health/ready`);
        const key = keyOf(data);
        const paced = {
          ...relayOptions(server.url, key),
          seconds: 2 * SECONDS,
          connections: 64,
          overallRate: RELAY_RATE,
        };
        await load({ ...paced, seconds: 4 * SECONDS });
        costs[name] = () => costOf(server.pid, paced);
        const of = (kind, share) => async () => {
          const before = await mainThreadTime(server.pid);
          const options = { ...tracedOptions(server.url, key, share), connections: 256, seconds: SECONDS };
          const { rate, requests } = await load(options);
          (mains[kind] ??= []).push((((await mainThreadTime(server.pid)) - before) * 1e6) / requests);
          return rate;
        };
        if (name === 'off') rates.off = of('off', 0);
        if (name === 'all') Object.assign(rates, { none: of('none', 0), tenth: of('tenth', 0.1), all: of('all', 1) });
      }
      const measured = { costs: await interleave(rounds, costs), rates: await interleave(3 * rounds, rates) };
      return { ...measured, mains: { none: median(mains.none), all: median(mains.all) } };
    } finally {
      await Promise.all(started.map(({ stop }) => stop()));
    }
  });
}

export async function fetchReady(url) {
  for (;;) {
    const response = await fetch(url);
    if (response.ok) return response;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

const POLICY = 'AP_BENCH_V1';
const checkOfNth = (n) => ({ policy_id: POLICY, subject_tris: `tris:identity-${7 * (n % 140)}` });
const keyed = (key) => ({ 'content-type': 'application/json', 'x-api-key': key });

/** Creates the policy of the checks. @returns the answer to a check, which must grant */
export async function createPolicy(url, key) {
  const post = (path, body) =>
    fetch(`${url}${path}`, { method: 'POST', headers: keyed(key), body: JSON.stringify(body) }).then((answer) =>
      answer.text(),
    );
  const rules = { disc_min: 1, metrics: { financial: 0 }, reliability_min: 0 };
  await post('/v1/policies/ap', { policy_id: POLICY, rules });
  const answer = await post('/v1/policies/ap/check', checkOfNth(1));
  if (!JSON.parse(answer).granted) throw new Error(`the bench needs a check that grants: ${answer}`);
  return answer;
}

export function checkOptions(url, key, path = '/v1/policies/ap/check') {
  const setupClient = (client) => {
    let n = Math.floor(Math.random() * 1e6);
    const next = () => client.setBody(JSON.stringify(checkOfNth(n++)));
    next();
    client.on('response', next);
  };
  return { url: `${url}${path}`, method: 'POST', headers: keyed(key), setupClient };
}

/** Access checks that grant, 256 connections, recorded and signed, as `overHttp` measures: ours and bare. */
export function checks(rounds) {
  return inTemporaryFolder(async (data) => {
    await fillLog(data, 1_000, 5);
    const ours = await startServer(SERVER, { CREDENCE_DATA: data });
    const key = keyOf(data);
    await fetchReady(`${ours.url}/api/disc-score/${TRIS}`);
    const answer = await createPolicy(ours.url, key);
    const bare = await startServer(join(import.meta.dirname, 'bare-fastify.mjs'), {
      GET_BODY: answer,
      POST_BODY: answer,
    });
    const costs = { ours: [], peer: [] };
    const checking = (who, server, path) => async () => {
      const request = checkOptions(server.url, key, path);
      return costed(server, { ...request, connections: 256, seconds: SECONDS }, costs[who]);
    };
    try {
      const rates = await interleave(rounds, {
        ours: checking('ours', ours, '/v1/policies/ap/check'),
        peer: checking('peer', bare, '/api/decision-relay'),
      });
      return { rates, costs: { ours: median(costs.ours), peer: median(costs.peer) } };
    } finally {
      await Promise.all([ours.stop(), bare.stop()]);
    }
  });
}

/**
 * The event loop of a server that replays its population, ten access policies included, while it answers look-ups: the
 * longest delay in ms, and identities per second.
 */
export function duringReplay(identities) {
  return inTemporaryFolder(async (data) => {
    await fillLog(data, identities, 2);
    const server = await startServer(SERVER, { CREDENCE_DATA: data });
    const headers = { 'content-type': 'application/json', 'x-api-key': keyOf(data) };
    const call = (method, path, body) => {
      const request = { method, headers, ...(body && { body: JSON.stringify(body) }) };
      return fetch(`${server.url}${path}`, request).then((answer) => answer.json());
    };
    /** Longest delay since the last call. */
    const delay = async () => {
      const text = await (await fetch(`${server.url}/metrics`)).text();
      return 1_000 * Number(/^nodejs_eventloop_lag_max_seconds (\S+)/m.exec(text)[1]);
    };
    try {
      await fetchReady(`${server.url}/health/ready`);
      const inputs = [{ metric: 'financial_loan_repayment', criticality: 'Critical', weight: 0.14 }];
      const metadata = { total_weight: 1, visibility: 'public', version: 'v1.0' };
      await call('POST', '/v1/policies/vp', { policy_id: 'VP_BENCH_V1', tris_org: 'tris:bench', inputs, metadata });
      for (let i = 0; i < 10; i++) {
        const rules = { disc_min: 7 + i / 10, metrics: { financial: 0.05 * i, security: 0.02 * i } };
        await call('POST', '/v1/policies/ap', { policy_id: `AP_${i}_V1`, rules });
      }
      const access_policies = Array.from({ length: 10 }, (_, i) => `AP_${i}_V1`);
      await load({ url: `${server.url}/api/disc-score/${TRIS}`, connections: 4, seconds: 1 });
      await delay();
      const started = performance.now();
      const { replay_id } = await call('POST', '/v1/policies/vp/VP_BENCH_V1/replay', { access_policies });
      let seconds = 0;
      const watching = (async () => {
        for (;;) {
          const { status, error } = await call('GET', `/v1/replays/${replay_id}`);
          if (status === 'failed') throw new Error(error);
          seconds = (performance.now() - started) / 1_000;
          if (status === 'completed') return;
          await new Promise((resolve) => setTimeout(resolve, 100));
        }
      })();
      let p99 = 0;
      let done = false;
      void watching.finally(() => (done = true));
      while (!done) {
        const figures = await load({ url: `${server.url}/api/disc-score/${TRIS}`, connections: 4, seconds: 1 });
        p99 = Math.max(p99, figures.p99);
      }
      await watching;
      return { delay: await delay(), p99, rate: identities / seconds };
    } finally {
      await server.stop();
    }
  });
}

/** p99 of the look-up in ms, without and with a rebuild of all views beside it. */
export function duringRebuild(rounds, identities = 30_000) {
  return inTemporaryFolder(async (data) => {
    await fillLog(data, identities, 5);
    const server = await startServer(SERVER, { CREDENCE_DATA: data });
    try {
      await fetchReady(`${server.url}/api/disc-score/${TRIS}`);
      const p99 = async () =>
        (await load({ url: `${server.url}/api/disc-score/${TRIS}`, connections: 16, seconds: SECONDS })).p99;
      return await interleave(rounds, {
        peer: p99,
        ours: async () => {
          const rebuild = spawn(process.execPath, [join(ROOT, 'dist/src/cli.js'), '--data', data, 'rebuild', 'all'], {
            stdio: 'ignore',
          });
          const ended = new Promise((resolve) => rebuild.once('exit', resolve));
          const figure = await p99();
          rebuild.kill('SIGINT');
          await ended;
          return figure;
        },
      });
    } finally {
      await server.stop();
    }
  });
}

/** Milliseconds from the start of the process to /health/ready. */
export async function boot(rounds, data) {
  const times = [];
  for (let round = 0; round < rounds; round++) {
    const started = performance.now();
    const server = await startServer(SERVER, { CREDENCE_DATA: data });
    await fetchReady(`${server.url}/health/ready`);
    times.push(performance.now() - started);
    await server.stop();
  }
  return median(times);
}
