import { spawn } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT, inTemporaryFolder, interleave, load, median, startServer } from './measure.mjs';
import { fillLog } from './population.mjs';

/** The built service over HTTP beside bare Fastify, each in a process of its own. */

const SERVER = join(ROOT, 'dist/src/main.js');
const TRIS = 'tris:identity-1';
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

function relayOptions(url, key) {
  return {
    url: `${url}/api/decision-relay`,
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-api-key': key },
    setupClient: (client) => {
      // Each request another identity, as platforms would send them.
      let n = Math.floor(Math.random() * 1e9);
      const next = () => client.setBody(JSON.stringify({ ...ACTION, tris_id: `tris:identity-${n++ % 100_000}` }));
      next();
      client.on('response', next);
    },
  };
}

/** GET of a score with 64 connections and durable POST of an action with 256: requests per second, ours and bare. */
export function overHttp(rounds) {
  return inTemporaryFolder(async (data) => {
    await fillLog(data, 1_000, 5);
    const ours = await startServer(SERVER, { CREDENCE_DATA: data });
    const key = keyOf(data);
    const get = await (await fetchReady(`${ours.url}/api/disc-score/${TRIS}`)).text();
    const post = JSON.stringify({
      status: 'received',
      message: 'Action received for scoring.',
      action_id: crypto.randomUUID(),
    });
    const bare = await startServer(join(import.meta.dirname, 'bare-fastify.mjs'), { GET_BODY: get, POST_BODY: post });
    const emmett = existsSync(join(import.meta.dirname, 'emmett/node_modules'))
      ? await startServer(join(import.meta.dirname, 'emmett/server.mjs'))
      : null;
    const getting = (url) => async () =>
      (await load({ url: `${url}/api/disc-score/${TRIS}`, connections: 64, seconds: SECONDS })).rate;
    const posting = (url) => async () =>
      (await load({ ...relayOptions(url, key), connections: 256, seconds: SECONDS })).rate;
    try {
      const gets = await interleave(rounds, { ours: getting(ours.url), peer: getting(bare.url) });
      const posts = await interleave(rounds, {
        ours: posting(ours.url),
        peer: posting(bare.url),
        ...(emmett && { emmett: posting(emmett.url) }),
      });
      return { gets, posts };
    } finally {
      await Promise.all([ours.stop(), bare.stop(), emmett?.stop()]);
    }
  });
}

async function fetchReady(url) {
  for (;;) {
    const response = await fetch(url);
    if (response.ok) return response;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
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
