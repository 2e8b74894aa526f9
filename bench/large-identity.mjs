import { randomUUID } from 'node:crypto';
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { commandLine, wrongUsage } from './command-line.mjs';
import { keyOf } from './http.mjs';
import { ROOT, count, inTemporaryFolder, median, rssAnon, startServer } from './measure.mjs';
import { chart } from './chart.mjs';
import { replaceTable } from './report.mjs';

const USAGE = `npm run bench:identity -- [--max 1000000 | 100 1000 10000] [--shapes 'wide,one day' | all] [--tries 100]
  [--figures <file>] [--svg <file>] [--out <file>] [--beside <folder of another build> [--beside-until <actions>]]
What one identity costs by the number of its actions and by how they lie.

Of each request: median and p99 of the processor time that the server used for it, in all its threads, and how long a
second client waited at most meanwhile, in ms. Processor time, unlike time, does not grow with what else the machine
does. Of a relay and of a withdrawal: the mean, with what the projector used to apply it.

--svg shows the medians of the first shape, --out puts them into the table of a document. --figures keeps what was
measured: a run that was ended goes on after the last complete size.`;

const TRIS = 'tris:large';
const DAY_MS = 86_400_000;
const IN_FLIGHT = 2_000;

/** A number without visible order for each n, so that metrics, days and platforms of an action are independent. */
function mixed(n, salt) {
  let hash = Math.imul(n + salt, 0x9e3779b1);
  hash = Math.imul(hash ^ (hash >>> 15), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}

/** Of action n of so many: how long before now it occurred, ms. */
const SHAPES = {
  wide: { metrics: 5_000, ago: (n) => (mixed(n, 1) % 1_000) * DAY_MS },
  'one day': { metrics: 17, ago: (n) => 40 * DAY_MS + (mixed(n, 1) % DAY_MS) },
  'ten years': { metrics: 17, ago: (n) => (mixed(n, 1) % 3_650) * DAY_MS },
  'one time': { metrics: 17, ago: () => 40 * DAY_MS },
  'a year late': { metrics: 17, ago: (n, all) => 365 * DAY_MS + (all - n) * 1_000 },
  'newest first': { metrics: 17, ago: (n, all) => Math.floor((n / all) * 3_650 * DAY_MS) },
  '10000 metrics': { metrics: 10_000, ago: (n) => (mixed(n, 1) % 1_000) * DAY_MS },
};

/** Each build writes its own log, since it need not be able to read that of a later one. */
async function fill(root, data, actions, shape) {
  const load = (path) => import(join(root, 'dist/src', path));
  const { internalActor } = await load('commands/context.js');
  const { Writer } = await load('commands/writer.js');
  const { decide } = await load('features/relay/domain/relay.js');
  const { CRITICALITIES, MODEL } = await load('scoring/model.js');
  const { closeStores, openStores } = await load('stores/open.js');
  const stores = await openStores(data, Date.now);
  const writer = new Writer(stores.eventStore, Date.now);
  const now = Date.now();
  const actionOf = (n) => {
    const metric = mixed(n, 2) % shape.metrics;
    return {
      tris_id: TRIS,
      action_type: metric % 20 === 19 ? `kind_${metric}_flags` : `kind_${metric}`,
      category: MODEL.categories[metric % MODEL.categories.length],
      criticality: CRITICALITIES[n % CRITICALITIES.length],
      platform_id: `platform-${mixed(n, 3) % 20}`,
      occurred_at: now - shape.ago(n, actions),
      external_id: null,
      evidence_uri: null,
    };
  };
  for (let from = 0; from < actions; from += IN_FLIGHT) {
    const slice = Array.from({ length: Math.min(IN_FLIGHT, actions - from) }, (_, i) => actionOf(from + i));
    await Promise.all(
      slice.map((each) => {
        const actor = internalActor('cli');
        const context = { actor, correlation_id: 'bench', idempotency: null, body_hash: randomUUID() };
        return writer.create(`action-${randomUUID()}`, decide(each, null, 'vouched'), context);
      }),
    );
  }
  await closeStores(stores);
}

/** Requests by name, once the position is known that is in the middle of the log. */
function requests(url, key, middle, pastTime) {
  const limited = () => ({ signal: AbortSignal.timeout(GIVEN_UP_MS) });
  const get = (path) => () => fetch(url + path, { headers: { 'x-api-key': key }, ...limited() });
  const past = new Date(pastTime).toISOString();
  const post = (path, body) =>
    fetch(url + path, {
      ...limited(),
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-api-key': key },
      body: JSON.stringify(body),
    });
  /** Actions of this identity that can be withdrawn. */
  const relayed = [];
  const relay = (tris_id) =>
    post('/api/decision-relay', {
      tris_id,
      action_type: 'loan_repayment',
      category: 'finance',
      criticality: 'high',
      platform_id: 'lender',
    });
  return {
    score: get(`/v1/disc/score/${TRIS}`),
    'score as_of': get(`/v1/disc/score/${TRIS}?as_of=${past}`),
    'score known_at': get(`/v1/disc/score/${TRIS}?known_at=${new Date().toISOString()}`),
    'score as_of_position': get(`/v1/disc/score/${TRIS}?as_of_position=${middle}`),
    explain: get(`/v1/disc/score/${TRIS}/explain`),
    'explain as_of_position': get(`/v1/disc/score/${TRIS}/explain?as_of_position=${middle}`),
    report: get(`/v1/disc/report/${TRIS}?window=12`),
    'history page as_of': get(`/v1/disc/score/${TRIS}/history?as_of=${past}`),
    relay: async () => {
      const response = await relay(TRIS);
      if (response.ok) relayed.push((await response.clone().json()).action_id);
      return response;
    },
    'relay to a new one': () => relay(`tris:${randomUUID()}`),
    withdrawal: () => post(`/v1/actions/${relayed.pop()}/withdraw`, { reason: 'mistake' }),
    changes: get('/v1/disc/changes'),
  };
}

async function answered(request) {
  const response = await request();
  await response.text();
  if (!response.ok) throw new Error(`${response.url} answers ${response.status}`);
  return response;
}

/** Processor time of all threads of a process so far, ms. */
function processorTime(pid) {
  const threads = readdirSync(`/proc/${pid}/task`);
  const spent = (thread) => Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'utf8').split(' ')[0]);
  return threads.reduce((sum, thread) => sum + spent(thread), 0) / 1e6;
}

/** Processor time of each of some requests. A request that takes long is made fewer times. */
async function timesOf(request, { pid }) {
  for (let n = 0; n < WARM_UP; n++) await answered(request);
  const times = [];
  for (const began = performance.now(); times.length < tries && performance.now() - began < GIVEN_UP_MS;) {
    const before = processorTime(pid);
    await answered(request);
    times.push(processorTime(pid) - before);
  }
  return times;
}

/** Mean processor time of relays and withdrawals, with what the projector used to apply them. In turn, in a warm process. */
async function timesOfRelays(relays, { pid, url }, key) {
  const sums = relays.map(() => 0);
  for (let round = -1; round < ROUNDS; round++) {
    for (const [i, relay] of relays.entries()) {
      const before = processorTime(pid);
      let position;
      for (let n = 0; n < tries; n++) position = (await answered(relay)).headers.get('credence-position');
      const headers = { 'x-api-key': key, 'credence-min-position': position };
      await answered(() => fetch(`${url}/api/disc-score/${TRIS}`, { headers }));
      if (round >= 0) sums[i] += (processorTime(pid) - before) / tries / ROUNDS;
    }
  }
  return sums;
}

/** The longest that another client waits for an answer while a request is made a few times. */
async function waitDuring(request, { url }) {
  let busy = true;
  let longest = 0;
  const other = (async () => {
    while (busy) {
      const began = performance.now();
      await (await fetch(`${url}/health/live`)).text();
      longest = Math.max(longest, performance.now() - began);
      await sleep(1);
    }
  })();
  for (let n = 0; n < WARM_UP; n++) await answered(request);
  busy = false;
  await other;
  return longest;
}

/** By request: the median and p99 of its processor time, and how long others waited. Without those that fail. */
async function measureBuild(root, data, pastTime) {
  const server = await startServer(join(root, 'dist/src/main.js'), { CREDENCE_DATA: data });
  try {
    const key = keyOf(data);
    let ready;
    do {
      await sleep(100);
      ready = await fetch(`${server.url}/v1/disc/score/${TRIS}`, { headers: { 'x-api-key': key } });
      if (!ready.ok) await ready.text();
    } while (!ready.ok);
    const { position } = await ready.json();
    const [log, last] = position.split('.');
    const figures = {};
    const all = requests(server.url, key, `${log}.${Math.floor(last / 2)}`, pastTime);
    const relays = await timesOfRelays(
      RELAYS.map((name) => all[name]),
      server,
      key,
    );
    for (const [name, request] of Object.entries(all)) {
      try {
        const relay = RELAYS.indexOf(name);
        const sorted = relay < 0 ? (await timesOf(request, server)).sort((a, b) => a - b) : [relays[relay]];
        const p99 = sorted[Math.ceil(sorted.length * 0.99) - 1];
        figures[name] = { time: median(sorted), p99, wait: await waitDuring(request, server) };
      } catch (error) {
        console.log(`${name}: ${error.message}`);
      }
    }
    return { figures, memory: await rssAnon(server.pid) };
  } finally {
    await server.stop();
  }
}

/** A request that takes longer is left out. */
const GIVEN_UP_MS = 20_000;
const WARM_UP = 5;
const ROUNDS = 3;
const RELAYS = ['relay', 'relay to a new one', 'withdrawal'];
const [LEAST_MS, MOST_MS] = [0.5, 20_000];

/** Medians by the number of actions; dashed: another build. @param points {build, name, actions, time}[] */
function drawing(points, sizes) {
  const note = points.some(({ build }) => build === 'other') ? '; dashed: before' : '';
  const names = [...new Set(points.map(({ name }) => name))];
  const of = (name, build) => {
    return points
      .filter((each) => each.name === name && each.build === build)
      .map(({ actions, time }) => [actions, time]);
  };
  return chart({
    title: `One identity: processor time in ms by its number of actions (medians)${note}`,
    x: { isLog: true, from: sizes[0], to: sizes.at(-1), marks: sizes },
    y: { isLog: true, from: LEAST_MS, to: MOST_MS, marks: [1, 10, 100, 1_000, 10_000] },
    lines: names.map((name) => ({ name, points: of(name, 'ours'), dashed: of(name, 'other') })),
  });
}

/** The rows of the table: by name, what is measured. */
const ROWS = {
  score: 'score',
  'score as_of': 'as of a time',
  'score known_at': 'as known at a time',
  'score as_of_position': 'as of a position',
  explain: 'explanation',
  'explain as_of_position': 'explanation as of a position',
  report: 'report, 12 months',
  'history page as_of': 'history, as of',
  changes: 'change feed',
  relay: 'relay',
  'relay to a new one': 'relay to a new one',
  withdrawal: 'withdrawal of an action',
};

/** A table of medians and p99 in ms, by build and size. @param measured of one shape */
function tableOf(measured) {
  const columns = measured.toSorted((a, b) => a.build.localeCompare(b.build) || a.actions - b.actions);
  const titles = columns.map(({ build, actions }) => (build === 'other' ? 'before, ' : '') + count(actions));
  const short = (ms) => (ms < 9.95 ? ms.toFixed(1) : ms.toFixed(0));
  const cell = (figure) => {
    if (!figure) return '–';
    return figure.p99 === figure.time ? short(figure.time) : `${short(figure.time)} (${short(figure.p99)})`;
  };
  const ratio = ({ figures }, ours, peer) =>
    figures[ours] ? `${(figures[ours].time / figures[peer].time).toFixed(2)}×` : '–';
  const rows = Object.entries(ROWS).map(([name, told]) => [told, ...columns.map(({ figures }) => cell(figures[name]))]);
  rows.push(['ratio of the two relays', ...columns.map((column) => ratio(column, 'relay', 'relay to a new one'))]);
  rows.push(['ratio of a withdrawal to a relay', ...columns.map((column) => ratio(column, 'withdrawal', 'relay'))]);
  rows.push(['anonymous memory, MB', ...columns.map(({ memory }) => memory.toFixed(0))]);
  const line = (cells) => `| ${cells.join(' | ')} |`;
  return [['what', ...titles], ['what', ...titles].map(() => '---'), ...rows].map(line);
}

const options = {
  beside: { type: 'string' },
  'beside-until': { type: 'string', default: '10000' },
  figures: { type: 'string' },
  max: { type: 'string', default: '100000' },
  out: { type: 'string' },
  shapes: { type: 'string', default: 'wide' },
  tries: { type: 'string', default: '100' },
  svg: { type: 'string' },
};
const { values, positionals } = commandLine(USAGE, options, true);
const tries = Number(values.tries);
const upToMax = [];
for (let size = 100; size <= Number(values.max); size *= 10) upToMax.push(size);
const sizes = positionals.length > 0 ? positionals.map(Number) : upToMax;
const shapes = values.shapes === 'all' ? Object.keys(SHAPES) : values.shapes.split(',');
for (const shape of shapes) {
  if (!SHAPES[shape]) wrongUsage(`There is no shape ${shape}; there are ${Object.keys(SHAPES).join(', ')}.`);
}
const builds = { ours: ROOT, ...(values.beside && { other: resolve(values.beside) }) };
/** By shape, size and build: { shape, actions, build, figures, memory } */
const measured = values.figures && existsSync(values.figures) ? JSON.parse(await readFile(values.figures, 'utf8')) : [];
const isMeasured = (shape, actions, build) =>
  measured.some((each) => each.shape === shape && each.actions === actions && each.build === build);

for (const shape of shapes) {
  for (const actions of sizes) {
    for (const [build, root] of Object.entries(builds)) {
      if (build === 'other' && actions > Number(values['beside-until'])) continue;
      if (isMeasured(shape, actions, build)) continue;
      const pastTime = Date.now() - SHAPES[shape].ago(Math.floor(actions / 2), actions);
      const { figures, memory } = await inTemporaryFolder(async (data) => {
        await fill(root, data, actions, SHAPES[shape]);
        return measureBuild(root, data, pastTime);
      });
      measured.push({ shape, actions, build, figures, memory });
      const told = `${shape.padEnd(14)} ${String(actions).padStart(8)}  ${build.padEnd(6)}`;
      for (const [name, { time, p99, wait }] of Object.entries(figures)) {
        const ms = `${time.toFixed(1).padStart(9)} ms  p99 ${p99.toFixed(1).padStart(9)} ms`;
        console.log(`${told} ${name.padEnd(22)} ${ms}  others waited ${wait.toFixed(1)} ms`);
      }
      const [large, fresh, withdrawal] = RELAYS.map((name) => figures[name]?.time);
      console.log(
        `${told} relay ratio ${(large / fresh).toFixed(2)}, withdrawal ${(withdrawal / large).toFixed(2)}, memory ${memory.toFixed(0)} MB`,
      );
      if (values.figures) await writeFile(values.figures, JSON.stringify(measured));
    }
  }
}
const first = measured.filter(({ shape }) => shape === shapes[0]);
if (values.svg) {
  const points = first.flatMap(({ build, actions, figures }) =>
    Object.entries(figures).map(([name, { time }]) => ({ build, name, actions, time })),
  );
  await writeFile(
    values.svg,
    drawing(
      points,
      [...new Set(first.map(({ actions }) => actions))].toSorted((a, b) => a - b),
    ),
  );
}
if (values.out) {
  await replaceTable(values.out, '## One large identity', tableOf(first), `up to ${tries} of each request`);
}
