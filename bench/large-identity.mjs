import { randomUUID } from 'node:crypto';
import { cp } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { internalActor } from '../dist/src/commands/context.js';
import { Writer } from '../dist/src/commands/writer.js';
import { decide } from '../dist/src/features/relay/domain/relay.js';
import { CRITICALITIES, MODEL } from '../dist/src/scoring/model.js';
import { closeStores, openStores } from '../dist/src/stores/open.js';
import { keyOf } from './http.mjs';
import { ROOT, inTemporaryFolder, median, startServer } from './measure.mjs';

/**
 * What one identity costs by the number of its actions, which are spread over up to 5,000 metrics and 1,000 days:
 * `npm run bench:identity -- 100 1000 10000 [--beside <folder of another build>]`.
 *
 * Of each request: the median of its time, and how long a second client waited at most meanwhile, in ms.
 */

const TRIS = 'tris:large';
const DAY_MS = 86_400_000;
const IN_FLIGHT = 2_000;
const TRIES = 5;

async function fill(data, actions) {
  const stores = await openStores(data, Date.now);
  const writer = new Writer(stores.eventStore, Date.now);
  const now = Date.now();
  for (let from = 0; from < actions; from += IN_FLIGHT) {
    const slice = Array.from({ length: Math.min(IN_FLIGHT, actions - from) }, (_, i) => action(from + i, now));
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

function action(n, now) {
  const metric = (n * 7919) % 5_000;
  return {
    tris_id: TRIS,
    action_type: metric % 20 === 19 ? `kind_${metric}_flags` : `kind_${metric}`,
    category: MODEL.categories[metric % MODEL.categories.length],
    criticality: CRITICALITIES[n % CRITICALITIES.length],
    platform_id: `platform-${n % 20}`,
    occurred_at: now - ((n * 104_729) % 1_000) * DAY_MS,
    external_id: null,
    evidence_uri: null,
  };
}

/** Requests by name, once the position is known that is in the middle of the log. */
function requests(url, key, middle) {
  const get = (path) => () => fetch(url + path);
  const past = new Date(Date.now() - 400 * DAY_MS).toISOString();
  const relay = (tris_id) => () =>
    fetch(`${url}/api/decision-relay`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-api-key': key },
      body: JSON.stringify({
        tris_id,
        action_type: 'loan_repayment',
        category: 'finance',
        criticality: 'high',
        platform_id: 'lender',
      }),
    });
  return {
    score: get(`/v1/disc/score/${TRIS}`),
    'score as_of': get(`/v1/disc/score/${TRIS}?as_of=${past}`),
    'score as_of_position': get(`/v1/disc/score/${TRIS}?as_of_position=${middle}`),
    explain: get(`/v1/disc/score/${TRIS}/explain`),
    report: get(`/v1/disc/report/${TRIS}?window=12`),
    'history page as_of': get(`/v1/disc/score/${TRIS}/history?as_of=${past}`),
    changes: get('/v1/disc/changes'),
    relay: relay(TRIS),
    'relay to another': relay(`tris:${randomUUID()}`),
  };
}

/** Median time of a request, and the longest that another client waited for an answer meanwhile. */
async function measure(request, url) {
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
  const times = [];
  for (let n = 0; n < TRIES; n++) {
    const began = performance.now();
    const response = await request();
    await response.text();
    if (!response.ok) throw new Error(`${response.url} answers ${response.status}`);
    times.push(performance.now() - began);
  }
  busy = false;
  await other;
  return { time: median(times), wait: longest };
}

async function measureBuild(root, data) {
  const server = await startServer(join(root, 'dist/src/main.js'), { CREDENCE_DATA: data });
  try {
    let ready;
    do {
      await sleep(100);
      ready = await fetch(`${server.url}/v1/disc/score/${TRIS}`);
    } while (!ready.ok);
    const { position } = await ready.json();
    const [log, last] = position.split('.');
    // The projector is at the head before anything is measured.
    await fetch(`${server.url}/v1/disc/score/${TRIS}`, { headers: { 'credence-min-position': position } });
    const figures = {};
    for (const [name, request] of Object.entries(requests(server.url, keyOf(data), `${log}.${Math.floor(last / 2)}`))) {
      figures[name] = await measure(request, server.url);
    }
    return figures;
  } finally {
    await server.stop();
  }
}

const args = process.argv.slice(2);
const at = args.indexOf('--beside');
const other = at < 0 ? undefined : resolve(args[at + 1]);
const sizes = args.filter((arg) => /^\d+$/.test(arg)).map(Number);
const builds = { ours: ROOT, ...(other && { other }) };
for (const actions of sizes.length > 0 ? sizes : [100, 1_000, 10_000, 100_000]) {
  await inTemporaryFolder(async (folder) => {
    await fill(join(folder, 'log'), actions);
    for (const [name, root] of Object.entries(builds)) {
      const data = join(folder, name);
      await cp(join(folder, 'log'), data, { recursive: true });
      const figures = await measureBuild(root, data);
      for (const [request, { time, wait }] of Object.entries(figures)) {
        console.log(
          `${String(actions).padStart(8)}  ${name.padEnd(6)} ${request.padEnd(22)} ${time.toFixed(1).padStart(9)} ms  others waited ${wait.toFixed(1)} ms`,
        );
      }
    }
  });
}
