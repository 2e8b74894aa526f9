import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts';
import { ROOT, inTemporaryFolder, interleave, load, median, startServer } from './measure.mjs';

/** Sign-in with a wallet, and the refresh of its session, over HTTP against the built service. */

const SERVER = join(ROOT, 'dist/src/main.js');
const MESSAGES = 500;
const IN_FLIGHT = 32;
const SESSIONS = 256;
const SECONDS = 3;
const account = privateKeyToAccount(generatePrivateKey());

async function post(url, path, body) {
  const headers = { 'content-type': 'application/json' };
  const response = await fetch(`${url}${path}`, { method: 'POST', headers, body: JSON.stringify(body) });
  if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
  return response.json();
}

/** Runs `work` on all items, some at a time. */
async function each(items, work) {
  const results = [];
  const queue = items.entries();
  await Promise.all(
    Array.from({ length: IN_FLIGHT }, async () => {
      for (const [i, item] of queue) results[i] = await work(item);
    }),
  );
  return results;
}

const signedMessages = (url, count) =>
  each(Array.from({ length: count }), async () => {
    const { message } = await post(url, '/v1/tris/auth/siwe/start', { address: account.address, chain_id: 1 });
    return { message, signature: await account.signMessage({ message }) };
  });
const verify = (url, messages) => each(messages, (message) => post(url, '/v1/tris/auth/siwe/verify', message));

/** Seconds of processor time a process has used, of all its threads (proc(5): utime and stime in 1/100 s). */
function cpuSeconds(pid) {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1].split(' ');
  return (Number(fields[11]) + Number(fields[12])) / 100;
}

/** Sign-ins that one second of one core is enough for: by processor time, so that other load does not count. */
export function signInsPerCore(rounds) {
  return inTemporaryFolder(async (data) => {
    const server = await startServer(SERVER, { CREDENCE_DATA: data });
    try {
      await verify(server.url, await signedMessages(server.url, MESSAGES)); // warms up
      const rates = [];
      for (let round = 0; round < rounds; round++) {
        const messages = await signedMessages(server.url, MESSAGES);
        const before = cpuSeconds(server.pid);
        await verify(server.url, messages);
        rates.push(MESSAGES / (cpuSeconds(server.pid) - before));
      }
      return median(rates);
    } finally {
      await server.stop();
    }
  });
}

/** Refreshes per second of 256 sessions, each with the token of its answer before, ours and bare. */
export function refreshes(rounds) {
  return inTemporaryFolder(async (data) => {
    const ours = await startServer(SERVER, { CREDENCE_DATA: data });
    const [sample] = await verify(ours.url, await signedMessages(ours.url, 1));
    const answer = JSON.stringify(sample);
    const bare = await startServer(join(import.meta.dirname, 'bare-fastify.mjs'), {
      GET_BODY: answer,
      POST_BODY: answer,
    });
    const rate = async (url, path, sessions) => {
      const tokens = sessions.map(({ refresh_token }) => refresh_token);
      const request = { method: 'POST', headers: { 'content-type': 'application/json' } };
      const setupClient = (client) => {
        const use = (refresh_token) => client.setBody(JSON.stringify({ refresh_token }));
        use(tokens.pop());
        client.on('body', (body) => use(JSON.parse(body).refresh_token));
      };
      const options = { url: `${url}${path}`, connections: SESSIONS, seconds: SECONDS, setupClient, ...request };
      return (await load(options)).rate;
    };
    try {
      return await interleave(rounds, {
        ours: async () => {
          const sessions = await verify(ours.url, await signedMessages(ours.url, SESSIONS));
          return rate(ours.url, '/v1/tris/token/refresh', sessions);
        },
        peer: () =>
          rate(
            bare.url,
            '/api/decision-relay',
            Array.from({ length: SESSIONS }, () => sample),
          ),
      });
    } finally {
      await Promise.all([ours.stop(), bare.stop()]);
    }
  });
}
