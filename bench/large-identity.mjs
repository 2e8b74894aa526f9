import { randomUUID } from 'node:crypto';
import { cp, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { internalActor } from '../dist/src/commands/context.js';
import { Writer } from '../dist/src/commands/writer.js';
import { decide } from '../dist/src/features/relay/domain/relay.js';
import { CRITICALITIES, MODEL } from '../dist/src/scoring/model.js';
import { closeStores, openStores } from '../dist/src/stores/open.js';
import { keyOf } from './http.mjs';
import { ROOT, inTemporaryFolder, median, startServer } from './measure.mjs';

/**
 * What one identity costs by the number of its actions and by how they lie:
 *
 * `npm run bench:identity -- 100 1000 10000 [--shapes 'wide,one day' | all] [--tries 100] [--beside <folder of another build>]
 * [--svg <file>]`.
 *
 * Of each request: median and p99 of its time, and how long a second client waited at most meanwhile, in ms; then the
 * ratio of a relay to the identity and one to a new identity. The file shows the medians of the first shape.
 */

const TRIS = 'tris:large';
const DAY_MS = 86_400_000;
const IN_FLIGHT = 2_000;

/** Of action n of so many: which metric, and how long before now it occurred, ms. */
const SHAPES = {
  wide: { metrics: 5_000, ago: (n) => ((n * 104_729) % 1_000) * DAY_MS },
  'one day': { metrics: 17, ago: (n) => 40 * DAY_MS + ((n * 104_729) % DAY_MS) },
  'ten years': { metrics: 17, ago: (n) => ((n * 104_729) % 3_650) * DAY_MS },
  'one time': { metrics: 17, ago: () => 40 * DAY_MS },
  'a year late': { metrics: 17, ago: (n, all) => 365 * DAY_MS + (all - n) * 1_000 },
  'newest first': { metrics: 17, ago: (n, all) => Math.floor((n / all) * 3_650 * DAY_MS) },
  '10000 metrics': { metrics: 10_000, ago: (n) => ((n * 104_729) % 1_000) * DAY_MS },
};

async function fill(data, actions, shape) {
  const stores = await openStores(data, Date.now);
  const writer = new Writer(stores.eventStore, Date.now);
  const now = Date.now();
  for (let from = 0; from < actions; from += IN_FLIGHT) {
    const slice = Array.from({ length: Math.min(IN_FLIGHT, actions - from) }, (_, i) =>
      action(from + i, actions, shape, now),
    );
    await Promise.all(
      slice.map((each) => {
        const actor = internalActor('cli');
        const context = { actor, correlation_id: 'bench', idempotency: null, body_hash: randomUUID() };
        return writer.create(`action-${randomUUID()}`, decide(each, null), context);
      }),
    );
  }
  await closeStores(stores);
}

function action(n, all, { metrics, ago }, now) {
  const metric = (n * 7_919) % metrics;
  return {
    tris_id: TRIS,
    action_type: metric % 20 === 19 ? `kind_${metric}_flags` : `kind_${metric}`,
    category: MODEL.categories[metric % MODEL.categories.length],
    criticality: CRITICALITIES[n % CRITICALITIES.length],
    platform_id: `platform-${n % 20}`,
    occurred_at: now - ago(n, all),
    external_id: null,
    evidence_uri: null,
  };
}

/** Requests by name, once the position is known that is in the middle of the log. */
function requests(url, key, middle, pastTime) {
  const get = (path) => () => fetch(url + path, { headers: { 'x-api-key': key } });
  const past = new Date(pastTime).toISOString();
  const relay = (idOf) => () =>
    fetch(`${url}/api/decision-relay`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-api-key': key },
      body: JSON.stringify({
        tris_id: idOf(),
        action_type: 'loan_repayment',
        category: 'finance',
        criticality: 'high',
        platform_id: 'lender',
      }),
    });
  return {
    score: get(`/v1/disc/score/${TRIS}`),
    'score as_of': get(`/v1/disc/score/${TRIS}?as_of=${past}`),
    'score known_at': get(`/v1/disc/score/${TRIS}?known_at=${new Date().toISOString()}`),
    'score as_of_position': get(`/v1/disc/score/${TRIS}?as_of_position=${middle}`),
    explain: get(`/v1/disc/score/${TRIS}/explain`),
    report: get(`/v1/disc/report/${TRIS}?window=12`),
    'history page as_of': get(`/v1/disc/score/${TRIS}/history?as_of=${past}`),
    changes: get('/v1/disc/changes'),
    relay: relay(() => TRIS),
    'relay to a new one': relay(() => `tris:${randomUUID()}`),
  };
}

/** Times of one request, and the longest that another client waited for an answer meanwhile. */
async function measure(tries, names, requests, url) {
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
  const times = Object.fromEntries(names.map((name) => [name, []]));
  for (let n = 0; n < tries; n++) {
    // In turn, so that what disturbs the machine disturbs all of them.
    for (const name of names) {
      const began = performance.now();
      const response = await requests[name]();
      await response.text();
      if (!response.ok) throw new Error(`${response.url} answers ${response.status}`);
      times[name].push(performance.now() - began);
    }
  }
  busy = false;
  await other;
  return names.map((name) => {
    const sorted = times[name].sort((a, b) => a - b);
    const p99 = sorted[Math.ceil(sorted.length * 0.99) - 1];
    return [name, { time: median(sorted), p99, wait: longest }];
  });
}

async function measureBuild(root, data, pastTime) {
  const server = await startServer(join(root, 'dist/src/main.js'), { CREDENCE_DATA: data });
  try {
    let ready;
    do {
      await sleep(100);
      ready = await fetch(`${server.url}/v1/disc/score/${TRIS}`);
      if (!ready.ok) await ready.text();
    } while (!ready.ok);
    const { position } = await ready.json();
    const [log, last] = position.split('.');
    // The projector is at the head before anything is measured.
    await fetch(`${server.url}/v1/disc/score/${TRIS}`, { headers: { 'credence-min-position': position } });
    const all = requests(server.url, keyOf(data), `${log}.${Math.floor(last / 2)}`, pastTime);
    const figures = {};
    const groups = [
      ...Object.keys(all)
        .filter((name) => !name.startsWith('relay'))
        .map((name) => [name]),
      RELAYS,
    ];
    for (const names of groups)
      Object.assign(figures, Object.fromEntries(await measure(tries, names, all, server.url)));
    return figures;
  } finally {
    await server.stop();
  }
}

const RELAYS = ['relay', 'relay to a new one'];
const COLORS = [
  '#1b6ca8',
  '#d1495b',
  '#3c8d53',
  '#8a4fbf',
  '#c77d0a',
  '#008b8b',
  '#6b6b6b',
  '#b5179e',
  '#222222',
  '#9aa5b1',
];
const [LEFT, TOP, WIDTH, HEIGHT, LEGEND] = [56, 40, 520, 380, 200];
const [LEAST_MS, MOST_MS] = [0.5, 5_000];

/** Medians by the number of actions, both logarithmic; dashed: another build. @param points {build, name, actions, time}[] */
function drawing(points, sizes) {
  const [low, high] = [Math.log10(sizes[0]), Math.log10(sizes.at(-1))];
  const x = (actions) => LEFT + (WIDTH * (Math.log10(actions) - low)) / Math.max(high - low, 1e-9);
  const scale = Math.log10(MOST_MS / LEAST_MS);
  const y = (ms) => TOP + HEIGHT * (1 - Math.log10(Math.max(ms, LEAST_MS) / LEAST_MS) / scale);
  const names = [...new Set(points.map(({ name }) => name))];
  const parts = [`<text x="${LEFT}" y="22" font-weight="bold">One identity: ms by number of actions (medians)</text>`];
  for (const ms of [1, 10, 100, 1_000]) {
    parts.push(
      `<line x1="${LEFT}" x2="${LEFT + WIDTH}" y1="${y(ms)}" y2="${y(ms)}" stroke="#ddd"/>`,
      `<text x="${LEFT - 8}" y="${y(ms) + 4}" text-anchor="end">${ms.toLocaleString('en')}</text>`,
    );
  }
  for (const size of sizes) {
    parts.push(
      `<text x="${x(size)}" y="${TOP + HEIGHT + 20}" text-anchor="middle">${size.toLocaleString('en')}</text>`,
    );
  }
  for (const [i, name] of names.entries()) {
    const color = COLORS[i % COLORS.length];
    for (const build of ['ours', 'other']) {
      const line = points.filter((point) => point.name === name && point.build === build);
      const at = line.map(({ actions, time }) => `${x(actions).toFixed(1)},${y(time).toFixed(1)}`).join(' ');
      const dash = build === 'other' ? ' stroke-dasharray="5 4"' : '';
      if (at) parts.push(`<polyline points="${at}" fill="none" stroke="${color}" stroke-width="2"${dash}/>`);
    }
    const line = TOP + 14 + i * 20;
    parts.push(
      `<line x1="${LEFT + WIDTH + 16}" x2="${LEFT + WIDTH + 40}" y1="${line - 4}" y2="${line - 4}" stroke="${color}" stroke-width="2"/>`,
      `<text x="${LEFT + WIDTH + 46}" y="${line}">${name}</text>`,
    );
  }
  const size = `viewBox="0 0 ${LEFT + WIDTH + LEGEND} ${TOP + HEIGHT + 36}"`;
  const frame = `<rect width="100%" height="100%" fill="#fff"/>`;
  return `<svg xmlns="http://www.w3.org/2000/svg" ${size} font-family="sans-serif" font-size="12" fill="#222">\n${[frame, ...parts].join('\n')}\n</svg>\n`;
}

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    beside: { type: 'string' },
    shapes: { type: 'string', default: 'wide' },
    tries: { type: 'string', default: '100' },
    svg: { type: 'string' },
  },
});
const tries = Number(values.tries);
const sizes = positionals.length > 0 ? positionals.map(Number) : [100, 1_000, 10_000, 100_000, 1_000_000];
const shapes = values.shapes === 'all' ? Object.keys(SHAPES) : values.shapes.split(',');
const builds = { ours: ROOT, ...(values.beside && { other: resolve(values.beside) }) };
const points = [];
for (const shape of shapes) {
  for (const actions of sizes) {
    await inTemporaryFolder(async (folder) => {
      await fill(join(folder, 'log'), actions, SHAPES[shape]);
      const pastTime = Date.now() - SHAPES[shape].ago(Math.floor(actions / 2), actions);
      for (const [build, root] of Object.entries(builds)) {
        const data = join(folder, build);
        await cp(join(folder, 'log'), data, { recursive: true });
        const figures = await measureBuild(root, data, pastTime);
        const told = `${shape.padEnd(14)} ${String(actions).padStart(8)}  ${build.padEnd(6)}`;
        for (const [name, { time, p99, wait }] of Object.entries(figures)) {
          const ms = `${time.toFixed(1).padStart(9)} ms  p99 ${p99.toFixed(1).padStart(9)} ms`;
          console.log(`${told} ${name.padEnd(22)} ${ms}  others waited ${wait.toFixed(1)} ms`);
          if (shape === shapes[0]) points.push({ build, name, actions, time });
        }
        const [large, fresh] = RELAYS.map((name) => figures[name].time);
        console.log(`${told} relay ratio ${(large / fresh).toFixed(2)}`);
      }
    });
    if (values.svg) await writeFile(values.svg, drawing(points, sizes));
  }
}
