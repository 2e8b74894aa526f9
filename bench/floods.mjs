import { spawn } from 'node:child_process';
import http from 'node:http';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { keyOf } from './http.mjs';
import { ROOT, inTemporaryFolder, startServer } from './measure.mjs';

/**
 * What a client waits while another one floods the service, beside the quiet service; and what it waits at a server that
 * does only what such requests cannot do without (least-server.mjs), where the same three processes share the processors.
 */

const SERVER = join(ROOT, 'dist/src/main.js');
const LEAST = join(ROOT, 'bench/least-server.mjs');
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
  score: ['GET', '/api/disc-score/tris:client'],
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
  'scores, without a key': [[], 64, ['GET', '/api/disc-score/tris:flooded']],
};

/** What the least server answers, too: its explanation would be none. */
const OF_LEAST = ['relays by one key', 'checks by one key', 'scores, without a key'];

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
async function waited(url, key, seconds, asked = ASKED) {
  const times = Object.fromEntries(Object.keys(asked).map((kind) => [kind, []]));
  for (const until = performance.now() + seconds * 1_000; performance.now() < until;) {
    for (const [kind, request] of Object.entries(asked)) {
      await sleep(PAUSE_MS);
      const sent = performance.now();
      await send(url, key, request);
      times[kind].push(performance.now() - sent);
    }
  }
  return Object.fromEntries(Object.entries(times).map(([kind, of]) => [kind, p99(of)]));
}

/**
 * @param names of the floods
 * @param keys the key of the client, and that of each sender of a flood by its id
 * @param tell called with the name of a flood, and the p99 of each kind of request under it and before it, ms
 */
async function under(url, seconds, names, asked, keys, tell) {
  await waited(url, keys.get('client'), 2, asked); // warms up
  for (const name of names) {
    const [ids, connections, [method, path, body]] = FLOODS[name];
    const quiet = await waited(url, keys.get('client'), seconds, asked);
    const options = { url: url + path, method, connections, ...(body && { body: JSON.stringify(body) }) };
    const senders = ids.length === 0 ? [''] : ids.map((id) => keys.get(id));
    // Of low priority, so that the client need not wait for a processor.
    const flood = spawn('nice', ['-n', '15', process.execPath, join(ROOT, 'bench/flood.mjs')], {
      stdio: ['pipe', 'ignore', 'inherit'],
    });
    flood.stdin.end(JSON.stringify({ options, keys: senders }));
    try {
      await sleep(WARM_UP_MS);
      tell(name, await waited(url, keys.get('client'), seconds, asked), quiet);
    } finally {
      flood.kill();
    }
  }
}

/**
 * @param seconds of each flood, and of the quiet time before it
 * @param tell called with the name of a flood, what is asked for, and the p99 under the flood and without it, ms: of the
 * service, and of the least server or undefined
 */
export function floods(seconds, tell) {
  return inTemporaryFolder(async (folder) => {
    const data = join(folder, 'data');
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
      let relayed = '';
      for (const id of ['tris:client', 'tris:flooded']) relayed = await send(url, own, relayOf(id));
      const checked = await send(url, own, checkOf('tris:client'));
      const ours = new Map();
      await under(url, seconds, Object.keys(FLOODS), ASKED, keys, (name, ...times) => ours.set(name, times));
      await server.stop();
      const { explanation: _, ...asked } = ASKED;
      const env = { CREDENCE_DATA: data, LEAST_DATA: join(folder, 'least'), POST_BODY: relayed, CHECK_BODY: checked };
      const least = await startServer(LEAST, env);
      const peers = new Map();
      try {
        await under(least.url, seconds, OF_LEAST, asked, keys, (name, ...times) => peers.set(name, times));
      } finally {
        await least.stop();
      }
      for (const [name, [flooded, quiet]] of ours) {
        const [leastFlooded, leastQuiet] = peers.get(name) ?? [];
        for (const kind of Object.keys(ASKED)) {
          tell(
            name,
            kind,
            [flooded[kind], quiet[kind]],
            leastFlooded?.[kind] && [leastFlooded[kind], leastQuiet[kind]],
          );
        }
      }
    } finally {
      agent.destroy();
      await server.stop();
    }
  });
}
