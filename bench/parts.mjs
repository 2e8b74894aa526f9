import { cp } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import {
  ACTIONS_OF_A_BATCH,
  TRIS,
  batchOptions,
  checkOptions,
  costOf,
  createPolicy,
  fetchReady,
  keyOf,
  lookUpOptions,
  relayOptions,
  zipf,
} from './http.mjs';
import { ROOT, inTemporaryFolder, load, startServer } from './measure.mjs';
import { fillLog } from './population.mjs';

/** What the parts of a request cost, each by leaving it out (leave-out.mjs): processor time of the server, µs. */

const SERVER = join(ROOT, 'dist/src/main.js');
const PRELOAD = pathToFileURL(join(ROOT, 'bench/leave-out.mjs'));
/** Requests of a round: equally many for all, since code that has run more often is faster. */
const AMOUNT = 8_000;
const QUICK = 512;
/** So many times as many are sent first. */
const WARM_UP = 3;

const CONVENTIONS = ['request id, ETag and other headers', 'metrics of requests'];
const OF_COMMANDS = [...CONVENTIONS, 'key of the request', 'checks of the body', 'digests of body and event ids'];
const LOG = ['checks and encoding of events', 'sync to the disk', 'log: encoding, index, transaction, sync'];
const PROJECTOR = 'projector: folding and writing rows';

/**
 * `needed` are the parts without which the route does not do what it is for, and parts of those. `each`: actions of a
 * request, by which its processor time is divided.
 */
const ROUTES = [
  {
    name: 'GET /api/disc-score',
    identities: 100_000,
    actions: 2,
    connections: 64,
    parts: [
      'rate limit and its headers',
      ...CONVENTIONS,
      'scoring and JSON of the answer',
      'rows: manifest, look-up, checksum, parsing',
      'snapshot of the identity, with its rows',
    ],
    needed: [
      'scoring and JSON of the answer',
      'rows: manifest, look-up, checksum, parsing',
      'snapshot of the identity, with its rows',
    ],
    options: (url, _key, identities) => lookUpOptions(url, zipf(identities)),
  },
  {
    name: 'POST /api/decision-relay',
    identities: 1_000,
    actions: 5,
    connections: 256,
    parts: [...OF_COMMANDS, 'owner of the platform', 'limit of metrics, with its two rows', ...LOG, PROJECTOR],
    needed: [...LOG, PROJECTOR],
    options: (url, key) => relayOptions(url, key),
  },
  {
    name: 'POST /v1/decision-relay/batch, each action',
    identities: 1_000,
    actions: 5,
    connections: 4,
    each: ACTIONS_OF_A_BATCH,
    parts: [
      'checks of the body',
      'digests of body and event ids',
      'owner of the platform',
      'limit of metrics, with its two rows',
      ...LOG,
      PROJECTOR,
    ],
    needed: [...LOG, PROJECTOR],
    options: (url, key) => batchOptions(url, key),
  },
  {
    name: 'POST /v1/policies/ap/check',
    identities: 1_000,
    actions: 5,
    connections: 256,
    parts: [
      ...OF_COMMANDS,
      'facts of the subject, with its rows',
      'rules and how to pass',
      'token: its claims and signature',
      ...LOG,
      PROJECTOR,
    ],
    needed: ['facts of the subject, with its rows', 'token: its claims and signature', ...LOG, PROJECTOR],
    options: (url, key) => checkOptions(url, key),
  },
];

/**
 * For each route: the µs of a whole request, without each part, without all that are not needed, of a server that does
 * only what is needed (least-server.mjs), and of bare Fastify.
 * @param {(route: string, figures: [what: string, cost: number][]) => void} tell called for each route
 */
export async function partsOfRequests(rounds, tell, isQuick) {
  for (const route of ROUTES) {
    await inTemporaryFolder(async (folder) => {
      const prepared = join(folder, 'prepared');
      const identities = isQuick ? 1_000 : route.identities;
      await fillLog(prepared, identities, route.actions);
      const bodies = await builtBy(prepared);
      const options = (url, key) => ({
        ...route.options(url, key, identities),
        connections: route.connections,
        seconds: 1,
        timeout: 60,
        amount: amountOf(route, isQuick),
      });
      tell(route.name, await measured({ ...route, options }, rounds, folder, prepared, bodies));
    });
  }
}

const amountOf = ({ each }, isQuick) => (each ? (isQuick ? 8 : 40) : isQuick ? QUICK : AMOUNT);

/** Lets the service build its read models. @returns answers of each route, for the peers */
async function builtBy(data) {
  const server = await startServer(SERVER, { CREDENCE_DATA: data });
  try {
    await fetchReady(`${server.url}/health/ready`);
    const get = await (await fetchReady(`${server.url}/api/disc-score/${TRIS}`)).text();
    const check = await createPolicy(server.url, keyOf(data));
    const post = { status: 'received', message: 'Action received for scoring.', action_id: crypto.randomUUID() };
    return { GET_BODY: get, POST_BODY: JSON.stringify(post), CHECK_BODY: check };
  } finally {
    await server.stop();
  }
}

async function measured(route, rounds, folder, prepared, bodies) {
  const key = keyOf(prepared);
  const optional = route.parts.filter((part) => !route.needed.includes(part));
  const contestants = [
    ['the whole request', []],
    ...route.parts.map((part) => [`without ${part}`, [part]]),
    ['without all parts that the route could do without', optional],
  ];
  const servers = [];
  try {
    for (const [name, parts] of contestants) {
      const data = join(folder, `data-${servers.length}`);
      await cp(prepared, data, { recursive: true });
      const env = { CREDENCE_DATA: data };
      if (parts.length > 0) Object.assign(env, { LEAVE_OUT: parts.join(';'), NODE_OPTIONS: `--import=${PRELOAD}` });
      servers.push([name, await startServer(SERVER, env)]);
    }
    // Bare Fastify is compared with single requests.
    if (!route.each) {
      const least = { CREDENCE_DATA: prepared, LEAST_DATA: join(folder, 'least'), ...bodies };
      servers.push(['bare Fastify with what must be done', await startServer(at('least-server.mjs'), least)]);
      servers.push(['bare Fastify', await startServer(at('bare-fastify.mjs'), bodies)]);
    }
    const costs = new Map(servers.map(([name]) => [name, []]));
    // The first round only warms the servers up. The others begin with another server each.
    for (let round = -1; round < rounds; round++) {
      for (let n = 0; n < servers.length; n++) {
        const [name, { url, pid }] = servers[(n + 5 * (round + 1)) % servers.length];
        const options = route.options(url, key);
        if (round < 0) await load({ ...options, amount: WARM_UP * options.amount });
        else costs.get(name).push(await costOf(pid, options));
      }
    }
    // Noise only adds to processor time, and the parts are small beside it.
    return [...costs].map(([name, each]) => [name, Math.min(...each) / (route.each ?? 1)]);
  } finally {
    await Promise.all(servers.map(([, server]) => server.stop()));
  }
}

const at = (script) => join(import.meta.dirname, script);

/** The figures of all routes as the lines of a table. */
export function tableOfParts(routes) {
  const cell = (value) => value.toFixed(0);
  return [
    '| what | µs | saved, µs | beside bare Fastify |',
    '|---|---|---|---|',
    ...routes.flatMap(([route, figures]) => {
      const [, whole] = figures[0];
      const bare = figures.find(([what]) => what === 'bare Fastify')?.[1];
      return figures.map(
        ([what, cost], n) =>
          `| ${n === 0 ? `**${route}**: ${what}` : what} | ${cell(cost)} | ${n === 0 ? '–' : cell(whole - cost)} | ${bare === undefined ? '–' : `${(bare / cost).toFixed(2)}×`} |`,
      );
    }),
  ];
}
