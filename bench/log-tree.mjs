import { spawnSync } from 'node:child_process';
import { Agent, request } from 'node:http';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { keyOf } from './http.mjs';
import { ROOT, inTemporaryFolder, startServer } from './measure.mjs';
import { fillLog } from './population.mjs';

/** What the tree of the log gives: the time of an inclusion proof, and how far checkpoints are behind the log. */

const PROOFS = 3_000;
const RATE = 1_000;
const SECONDS = 15;
const WARM_UP_SECONDS = 3;
const TICK_MS = 10;

const p99 = (values) => [...values].sort((a, b) => a - b)[Math.floor(values.length * 0.99)];

async function send(agent, url, { method = 'GET', headers = {}, body } = {}) {
  const incoming = await new Promise((resolve, reject) => {
    request(url, { method, headers, agent }, resolve).once('error', reject).end(body);
  });
  const answer = { status: incoming.statusCode, headers: incoming.headers, body: await text(incoming) };
  if (answer.status >= 300 && answer.status !== 404) throw new Error(`${url}: ${answer.status} ${answer.body}`);
  return answer;
}

async function ready(agent, url) {
  while ((await fetch(`${url}/health/ready`)).status !== 200) await sleep(100);
}

/** The p99 of proofs of random events of a log, one after the other, and of requests that read nothing, in ms. */
export function inclusionProofs(events) {
  return inTemporaryFolder(async (data) => {
    const written = await fillLog(data, events / 5, 5);
    const server = await startServer(join(ROOT, 'dist/src/main.js'), { CREDENCE_DATA: data });
    const agent = new Agent({ keepAlive: true });
    try {
      await ready(agent, server.url);
      const headers = { 'x-api-key': keyOf(data) };
      const relayed = await send(agent, `${server.url}/api/decision-relay`, {
        method: 'POST',
        headers: { ...headers, 'content-type': 'application/json' },
        body: JSON.stringify({
          tris_id: 'tris:last',
          category: 'finance',
          action_type: 'loan',
          criticality: 'high',
          platform_id: 'bench',
        }),
      });
      const [logId] = relayed.headers['credence-position'].split('.');
      const timed = async (path) => {
        const asked = performance.now();
        await send(agent, server.url + path, { headers });
        return performance.now() - asked;
      };
      const [proofs, empty] = [[], []];
      for (let n = 0; n < PROOFS; n++) {
        const position = 1 + ((n * 7919 + 13) % written);
        proofs.push(await timed(`/v1/audit/inclusion?position=${logId}.${position}`));
        empty.push(await timed('/health/live'));
      }
      return { ours: p99(proofs), peer: p99(empty), events: written };
    } finally {
      agent.destroy();
      await server.stop();
    }
  });
}

/**
 * How old the newest signed checkpoint is under a steady rate of relays, at most: the time since the log had no more
 * events than it, in ms.
 */
export function ageOfCheckpoints() {
  return inTemporaryFolder(async (data) => {
    const env = { CREDENCE_DATA: data, CREDENCE_LOG_KEY: join(data, 'log-key.json') };
    const made = spawnSync(process.execPath, [join(ROOT, 'dist/src/cli.js'), 'signing-keys', 'create', '--log'], {
      env: { PATH: process.env.PATH, ...env },
    });
    if (made.status !== 0) throw new Error(String(made.stderr));
    const server = await startServer(join(ROOT, 'dist/src/main.js'), env);
    const agent = new Agent({ keepAlive: true, maxSockets: 64 });
    try {
      await ready(agent, server.url);
      const headers = { 'x-api-key': keyOf(data), 'content-type': 'application/json' };
      const action = { category: 'finance', action_type: 'loan', criticality: 'high', platform_id: 'bench' };
      const relay = (n) =>
        send(agent, `${server.url}/api/decision-relay`, {
          method: 'POST',
          headers,
          body: JSON.stringify({ ...action, tris_id: `tris:${n % 500}` }),
        });
      /** When so many actions had been acknowledged: at least as many events were in the log. */
      const times = [];
      let oldest = 0;
      const began = performance.now();
      const watching = setInterval(async () => {
        const { status, body } = await send(agent, `${server.url}/log/checkpoint`);
        const now = performance.now();
        if (status !== 200 || now - began < WARM_UP_SECONDS * 1_000) return;
        const size = Number(body.split('\n')[1]);
        // The first action that the checkpoint lacks.
        const since = times[size] ?? now;
        oldest = Math.max(oldest, now - since);
      }, 50);
      const sent = [];
      for (let n = 0; performance.now() - began < SECONDS * 1_000;) {
        const due = ((performance.now() - began) * RATE) / 1_000;
        for (; n < due; n++) sent.push(relay(n).then(() => times.push(performance.now())));
        await sleep(TICK_MS);
      }
      await Promise.all(sent);
      clearInterval(watching);
      return { age: oldest, rate: times.length / SECONDS };
    } finally {
      agent.destroy();
      await server.stop();
    }
  });
}
