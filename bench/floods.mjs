import { spawn } from 'node:child_process';
import http from 'node:http';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { keyOf } from './http.mjs';
import { ROOT, inTemporaryFolder, startServer } from './measure.mjs';

/** What a client waits while another one floods the service, beside the quiet service. */

const SERVER = join(ROOT, 'dist/src/main.js');
const POLICY = 'AP_FLOOD_V1';
const LARGE = 'tris:large';
const ACTIONS_OF_LARGE = 20_000;
const SCOPES = ['reads', 'relay:write', 'access:check'];
/** ms between two requests of the client, which waits for each answer. */
const PAUSE_MS = 5;
const WARM_UP_MS = 1_500;

const actionOf = (tris_id, n, platform_id = 'flood') => ({
  tris_id,
  action_type: `loan_${n % 7}`,
  category: 'finance',
  criticality: 'High',
  platform_id,
});
const relayOf = (tris_id, platform_id) => ['POST', '/api/decision-relay', actionOf(tris_id, 0, platform_id)];
const checkOf = (subject_tris) => ['POST', '/v1/policies/ap/check', { policy_id: POLICY, subject_tris }];
const batch = { actions: Array.from({ length: 1_000 }, (_, n) => actionOf(`tris:flooded-${n}`, n)) };

/** What the client asks for. */
const ASKED = {
  relay: relayOf('tris:client', 'client'),
  check: checkOf('tris:client'),
  score: ['GET', '/v1/disc/score/tris:client'],
  explanation: ['GET', '/v1/disc/score/tris:client/explain'],
};
/** Who floods: by which keys, with how many connections, and with what. */
const FLOODS = {
  'relays by one key': [['flood-0'], 64, relayOf('tris:flooded')],
  'relays by twenty keys of one organization': [
    Array.from({ length: 20 }, (_, n) => `flood-${n}`),
    64,
    relayOf('tris:flooded'),
  ],
  'batches of 1,000 relays by one key': [['flood-0'], 16, ['POST', '/v1/decision-relay/batch', batch]],
  'checks by one key': [['flood-0'], 64, checkOf('tris:flooded')],
  'explanations of an identity of 20,000 actions by one key': [
    ['flood-0'],
    16,
    ['GET', `/v1/disc/score/${LARGE}/explain`],
  ],
  'scores, without a key': [[], 64, ['GET', '/v1/disc/score/tris:flooded']],
};

const agent = new http.Agent({ keepAlive: true });
const send = (url, key, [method, path, body]) =>
  new Promise((resolve, reject) => {
    const headers = { 'content-type': 'application/json', 'x-api-key': key };
    const request = http.request(url + path, { agent, method, headers }, (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (part) => (text += part));
      response.on('end', () =>
        response.statusCode < 300
          ? resolve(text)
          : reject(new Error(`${path} answers ${response.statusCode}: ${text}`)),
      );
    });
    request.on('error', reject).end(body && JSON.stringify(body));
  });

const p99 = (values) => values.sort((a, b) => a - b)[Math.floor(values.length * 0.99)];

/** @returns {Promise<Record<string, number>>} p99 of each kind of request, ms */
async function waited(url, key, seconds) {
  const times = Object.fromEntries(Object.keys(ASKED).map((kind) => [kind, []]));
  for (const until = performance.now() + seconds * 1_000; performance.now() < until;) {
    for (const [kind, request] of Object.entries(ASKED)) {
      await sleep(PAUSE_MS);
      const sent = performance.now();
      await send(url, key, request);
      times[kind].push(performance.now() - sent);
    }
  }
  return Object.fromEntries(Object.entries(times).map(([kind, of]) => [kind, p99(of)]));
}

/**
 * @param seconds of each flood, and of the quiet time before it
 * @param tell called with the name of a flood, what is asked for, and the p99 under the flood and without it, ms
 */
export function floods(seconds, tell) {
  return inTemporaryFolder(async (data) => {
    const server = await startServer(SERVER, {
      CREDENCE_DATA: data,
      CREDENCE_ORG_BYTES_PER_DAY: '0',
      CREDENCE_ORG_ACTIONS_PER_DAY: '0',
    });
    try {
      const { url } = server;
      const own = keyOf(data);
      const keys = new Map();
      const names = [...new Set(Object.values(FLOODS).flatMap(([ids]) => ids))];
      for (const name of ['client', 'flood']) {
        const registered = { tris_org: `tris:org-${name}`, platform_ids: [name] };
        await send(url, own, ['POST', '/v1/organizations', registered]);
      }
      for (const id of [...names, 'client']) {
        const organization = `tris:org-${id === 'client' ? id : 'flood'}`;
        const asked = { key_id: id, scopes: SCOPES, organization };
        const { key } = JSON.parse(await send(url, own, ['POST', '/v1/ops/keys', asked]));
        keys.set(id, key);
      }
      await send(url, own, ['POST', '/v1/policies/ap', { policy_id: POLICY, rules: { tct_min: 1 } }]);
      for (let n = 0; n < ACTIONS_OF_LARGE; n += 1_000) {
        const actions = Array.from({ length: 1_000 }, (_, i) => actionOf(LARGE, n + i));
        await send(url, own, ['POST', '/v1/decision-relay/batch', { actions }]);
      }
      for (const id of ['tris:client', 'tris:flooded']) await send(url, own, relayOf(id));
      await waited(url, keys.get('client'), 2); // warms up
      for (const [name, [ids, connections, [method, path, body]]] of Object.entries(FLOODS)) {
        const quiet = await waited(url, keys.get('client'), seconds);
        const options = { url: url + path, method, connections, ...(body && { body: JSON.stringify(body) }) };
        const senders = ids.length === 0 ? [''] : ids.map((id) => keys.get(id));
        const flood = spawn(process.execPath, [join(ROOT, 'bench/flood.mjs')], {
          stdio: ['pipe', 'ignore', 'inherit'],
        });
        flood.stdin.end(JSON.stringify({ options, keys: senders }));
        try {
          await sleep(WARM_UP_MS);
          const under = await waited(url, keys.get('client'), seconds);
          for (const kind of Object.keys(ASKED)) tell(name, kind, under[kind], quiet[kind]);
        } finally {
          flood.kill();
        }
      }
    } finally {
      agent.destroy();
      await server.stop();
    }
  });
}
