import { Agent, createServer, request } from 'node:http';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { ROOT, processorTime, rssAnon, startServer } from './measure.mjs';

/** The time from a relay to its webhook and to its change in a stream, and the memory of idle streams. */

const SERVER = join(ROOT, 'dist/src/main.js');
/** Relays a second. */
const RATE = 500;
const WARM_UP_SECONDS = 3;
const SECONDS = 10;
/** How long the last messages may take, s. */
const PATIENCE = 30;

const p99 = (values) => [...values].sort((a, b) => a - b)[Math.floor(values.length * 0.99)];

/** @returns {Promise<{ status: number, headers: object, body: string }>} */
function send(url, path, { method = 'GET', headers, body, agent }) {
  return new Promise((resolve, reject) => {
    const outgoing = request(new URL(path, url), { method, headers, agent }, (incoming) => {
      let text = '';
      incoming.setEncoding('utf8').on('data', (chunk) => (text += chunk));
      incoming.once('end', () => resolve({ status: incoming.statusCode, headers: incoming.headers, body: text }));
    });
    outgoing.once('error', reject);
    outgoing.end(body);
  });
}

/** A receiver of webhooks that notes when each identity's message arrived. */
async function receiver(arrivals) {
  const server = createServer((incoming, response) => {
    let text = '';
    incoming.setEncoding('utf8').on('data', (chunk) => (text += chunk));
    incoming.once('end', () => {
      const { tris_id } = JSON.parse(text).data;
      if (!arrivals.has(tris_id)) arrivals.set(tris_id, performance.now());
      response.writeHead(204).end();
    });
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { url: `http://127.0.0.1:${server.address().port}/`, stop: () => server.close() };
}

/** A stream of changes that notes when each identity's change arrived. Resolves once it has begun. */
function stream(url, key, arrivals) {
  return new Promise((resolve, reject) => {
    const headers = { 'x-api-key': key };
    const outgoing = request(new URL('/v1/disc/changes/stream', url), { headers, agent: false }, (incoming) => {
      let text = '';
      incoming.setEncoding('utf8').on('data', (chunk) => {
        const now = performance.now();
        const lines = (text + chunk).split('\n');
        text = lines.pop();
        for (const line of lines) {
          if (!line.startsWith('data: ')) continue;
          const { tris_id } = JSON.parse(line.slice('data: '.length));
          if (tris_id !== undefined && !arrivals.has(tris_id)) arrivals.set(tris_id, now);
        }
        resolve(() => outgoing.destroy());
      });
    });
    outgoing.on('error', reject);
    outgoing.end();
  });
}

/**
 * Relays at a steady rate, each of a new identity, whose first action crosses the score that a webhook waits for.
 * @param {string} url of a service that allows webhooks to this machine
 * @returns the p99 of the times from an answer to its webhook and to its change in the stream, in ms, and the rate
 */
export async function deliveries(url, key) {
  while ((await send(url, '/health/ready', {})).status !== 200) await sleep(50);
  const [delivered, streamed, acknowledged] = [new Map(), new Map(), new Map()];
  const hooks = await receiver(delivered);
  const agent = new Agent({ keepAlive: true, maxSockets: 64 });
  const headers = { 'content-type': 'application/json', 'x-api-key': key };
  const post = (path, body) => send(url, path, { method: 'POST', headers, agent, body: JSON.stringify(body) });
  const hook = { url: hooks.url, events: ['score.crossed'], filter: { score_above: 7.5 } };
  const created = await post('/v1/webhooks', hook);
  if (created.status !== 201) throw new Error(created.body);
  const end = await stream(url, key, streamed);
  const run = `${Date.now()}`;
  const relay = async (n) => {
    const tris_id = `tris:delivered-${run}-${n}`;
    const action = { tris_id, action_type: 'loan_repayment', category: 'finance', criticality: 'critical' };
    const { status, body } = await post('/api/decision-relay', { ...action, platform_id: 'lender' });
    if (status !== 202) throw new Error(body);
    if (n >= RATE * WARM_UP_SECONDS) acknowledged.set(tris_id, performance.now());
  };
  try {
    const started = performance.now();
    const relays = [];
    for (let n = 0; n < RATE * (WARM_UP_SECONDS + SECONDS); n++) {
      const wait = started + (n / RATE) * 1_000 - performance.now();
      if (wait > 1) await sleep(wait);
      relays.push(relay(n));
    }
    await Promise.all(relays);
    const rate = relays.length / ((performance.now() - started) / 1_000);
    const deadline = performance.now() + PATIENCE * 1_000;
    const missing = (arrivals) => [...acknowledged.keys()].filter((tris_id) => !arrivals.has(tris_id)).length;
    while (missing(delivered) + missing(streamed) > 0) {
      if (performance.now() > deadline) {
        throw new Error(`${missing(delivered)} webhooks and ${missing(streamed)} changes have not arrived`);
      }
      await sleep(100);
    }
    // A message that arrives before its answer counts as 0 ms.
    const times = (arrivals) => [...acknowledged].map(([tris_id, at]) => Math.max(0, arrivals.get(tris_id) - at));
    return { webhook: p99(times(delivered)), stream: p99(times(streamed)), rate };
  } finally {
    end();
    hooks.stop();
    agent.destroy();
  }
}

/** A service on this machine that may deliver to it. */
export const startDelivering = (env) => startServer(SERVER, { CREDENCE_WEBHOOK_LOOPBACK: 'on', ...env });

/** @returns how much more anonymous memory the service takes with so many idle streams, in MB, when it is at rest */
export async function idleStreams(server, key, count) {
  await atRest(server.pid);
  const before = await rssAnon(server.pid);
  const ends = [];
  const nothing = new Map();
  for (let n = 0; n < count; n += 100) {
    ends.push(...(await Promise.all(Array.from({ length: 100 }, () => stream(server.url, key, nothing)))));
  }
  await atRest(server.pid);
  const after = await rssAnon(server.pid);
  for (const end of ends) end();
  return after - before;
}

/** Waits until the process uses less than a tenth of a second of processor time in a second. */
async function atRest(pid) {
  for (let last = await processorTime(pid), now; ; last = now) {
    await sleep(1_000);
    now = await processorTime(pid);
    if (now - last < 0.1) return;
  }
}
