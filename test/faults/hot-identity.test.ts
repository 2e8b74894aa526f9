import { randomUUID } from 'node:crypto';
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Action } from '../../src/features/relay/domain/relay.js';
import { CRITICALITIES, MODEL } from '../../src/scoring/model.js';
import type { OpenApiDocument, Operation } from '../e2e/openapi.js';
import { type Answer, Server } from '../e2e/server.js';
import { credenceWith, limit, long } from './faults.js';
import { fill } from './fill.js';
import { MOST_MS, startTimed } from './timed-server.js';

/**
 * No request about a large identity keeps the server from anything else: whatever is asked, no turn of its event loop
 * uses the processor for long. The requests come from the OpenAPI document: a route that is added to it is asked from
 * then on, or has to be named here.
 */

const ACTIONS = long ? 200_000 : 20_000;
/** What runs over all metrics must yield, too. In the long form as many as one organization can relay. */
const METRICS = long ? 20_000 : 5_000;
const DAY = 86_400_000;
const HOT = 'tris:hot';
const OTHER = 'tris:other';
const TRIES = 5;
const ROUNDS = 3;

let server: Server;
let longestTurn: () => Promise<number>;
let document: OpenApiDocument;
/** Values of parameters and members by name. */
const values: Record<string, unknown[]> = {};

const now = Date.now();
const busyTime = now - 40 * DAY;
const iso = (ms: number) => new Date(ms).toISOString();

beforeAll(async () => {
  const data = await mkdtemp(join(tmpdir(), 'credence-hot-'));
  // So that there is a generation to rebuild, which takes longer than a start may.
  await (await Server.start({ data })).stop();
  await fill(data, ACTIONS, actionOf);
  // In a process of its own, which takes half the time.
  const { code, stderr } = await credenceWith({}, data, 'rebuild', 'all', '--swap');
  expect([code, code === 0 ? '' : stderr]).toEqual([0, '']);
  ({ server, longestTurn } = await startTimed(data));
  const head = await server.head();
  const post = async (path: string, body: unknown): Promise<Answer> => {
    const answer = await server.post(path, body);
    expect([path, answer.status, answer.text]).toEqual([path, expect.any(Number), expect.any(String)]);
    if (answer.status >= 300) throw new Error(`${path}: ${answer.text}`);
    return answer;
  };
  await post('/v1/organizations', { tris_org: HOT, platform_ids: ['own'] });
  await post(`/v1/organizations/${HOT}/vet`, undefined);
  const policy = await post('/v1/policies/vp', POLICY);
  await post('/v1/policies/ap', { policy_id: 'AP_HOT_V1', rules: RULES, vp: 'VP_HOT_V1' });
  const replay = await post('/v1/policies/vp/VP_HOT_V1/replay', { scope: 'platform' });
  const check = await post('/v1/policies/ap/check', { policy_id: 'AP_HOT_V1', subject_tris: HOT });
  const last = await post(`/v1/identities/${HOT}/bad-status`, { level: 5, reason_code: 'fraud' });
  const applied = await server.getAfter(last, `/v1/disc/score/${HOT}`);
  const log = String(applied.json.position).split('.')[0];
  const { entries } = (await server.get(`/v1/disc/score/${HOT}/history?limit=1`)).json;
  Object.assign(values, {
    tris_id: [HOT],
    tris_ids: [HOT],
    action_id: [entries[0].event_id],
    vp: ['VP_HOT_V1'],
    model: ['disc-2'],
    policy_id: ['VP_HOT_V1', 'AP_HOT_V1'],
    replay_id: [replay.json.replay_id],
    as_of: [iso(busyTime), iso(now - 200 * DAY)],
    known_at: [iso(now), iso(Date.now() - 2_000)],
    as_of_position: [`${log}.${head}`, `${log}.${Math.floor(head / 2)}`],
    limit: [1_000],
    prefix: ['t'],
    window: [12],
    depth: ['analysis'],
    metrics: [[1, 2, 3].map(metricOf).join(','), 'financial_none_such'],
    status: ['approved'],
    state: ['open'],
    open: [true, false],
    tris_org: [HOT],
    subject_tris: [HOT],
    token: [check.json.eligibility_token ?? 'none'],
    job_id: [randomUUID(), replay.json.replay_id],
    key_id: ['operator'],
    subject: [HOT],
    from: [iso(now - 200 * DAY), head],
    to: [iso(now), 1_000],
    position: [`${log}.${head}`],
    event_id: [entries[0].event_id],
    size: [1_000],
    granted: ['true', 'false'],
    jti: [randomUUID()],
    scheme: ['none'],
    issuer_id: ['none'],
    record_id: ['a'.repeat(64)],
    webhook_id: [randomUUID()],
    for: ['reads', 'writes'],
  });
  expect(policy.status).toBe(201);
  document = (await server.send('GET', '/openapi.json')).json;
}, 600_000);
afterAll(async () => {
  await server?.end();
});

const metricOf = (n: number) => `${MODEL.categories[n % MODEL.categories.length]!}_${kindOf(n)}`;
const kindOf = (n: number) => (n % 20 === 19 ? `kind_${n}_flags` : `kind_${n}`);
const POLICY = {
  policy_id: 'VP_HOT_V1',
  tris_org: HOT,
  inputs: [0, 7, 14, 1, 2, 3, 4].map((n) => ({ metric: metricOf(n), criticality: 'Critical', weight: 0.14 })),
  metadata: { total_weight: 1, visibility: 'public', version: 'v1.0' },
};
const RULES = { disc_min: 10, metrics: { financial: 0.1, social: 0.1 }, verification: ['BAD Status validation'] };

/** Actions on a thousand days, a quarter of them within an hour of one of those. */
function actionOf(n: number): Action {
  const metric = (n * 7_919) % METRICS;
  return {
    tris_id: HOT,
    action_type: kindOf(metric),
    category: MODEL.categories[metric % MODEL.categories.length]!,
    criticality: CRITICALITIES[n % CRITICALITIES.length]!,
    platform_id: `platform-${n % 20}`,
    occurred_at: n % 4 === 0 ? busyTime - ((n * 7) % 3_600_000) : now - (1 + ((n * 104_729) % 999)) * DAY,
    external_id: null,
    evidence_uri: null,
  };
}

interface Asked {
  name: string;
  method: string;
  path: string;
  body?: unknown;
}

/** Bodies of the requests that read although they are no GET. */
const many = [HOT, OTHER];
const READS: Record<string, unknown[]> = {
  'POST /v1/disc/score/batch': [{ tris_ids: many }, { tris_ids: [HOT], as_of: iso(busyTime), vp: 'VP_HOT_V1' }],
  'POST /v1/disc/metrics/batch': [{ tris_ids: many, metrics: [metricOf(1), 'social'] }],
  'POST /v1/disc/report/batch': [{ tris_ids: many, window: 12, depth: 'analysis' }],
  'POST /v1/policies/ap/check': [{ policy_id: 'AP_HOT_V1', subject_tris: HOT }],
  'POST /v1/policies/ap/check/batch': [
    { policy_id: 'AP_HOT_V1', subject_tris: many },
    { policy_ids: ['AP_HOT_V1'], subject_tris: HOT },
  ],
  'POST /v1/policies/ap/evaluate': [{ rules: { disc_min: 7.5, verification: ['zk-KYH'] }, subjects: many }],
  'POST /v1/policies/ap/replay': [{ policy_id: 'AP_HOT_V1', from: iso(now - 200 * DAY), to: iso(now + DAY) }],
  'POST /v1/policies/vp/evaluate': [
    { policy_id: 'VP_HOT_V1', subjects: [HOT] },
    { policy: POLICY, subjects: [HOT], access_policies: ['AP_HOT_V1'] },
    { policy_id: 'VP_HOT_V1' },
  ],
  'POST /v1/eligibility/verify': [{ token: 'none' }],
};
/** What else is not a GET: it changes something. */
const WRITES =
  /^(?:DELETE |PATCH |POST \/(?:api\/(?:decision-relay|link-account)|v1\/(?:actions|disputes|decision-relay|models|organizations|platforms|identities|issuers|dead-letters|ops|tris|trove|trove-issuers|wallets|webhooks|verification-schemes|eligibility\/revoke|policies\/(?:names|vp|ap)(?:$|\/\{policy_id\}\/))))/;

/** Every request that reads, with each value of each parameter. */
function requests(): Asked[] {
  const all: Asked[] = [];
  for (const [pattern, operations] of Object.entries(document.paths)) {
    for (const [verb, operation] of Object.entries(operations)) {
      const method = verb.toUpperCase();
      const name = `${method} ${pattern}`;
      if (method === 'GET') all.push(...gets(name, pattern, operation));
      else if (READS[name]) for (const body of READS[name]) all.push({ name, method, path: pattern, body });
      else if (!WRITES.test(name)) throw new Error(`${name}: say above whether it reads, and what`);
    }
  }
  return all;
}

function gets(name: string, pattern: string, { parameters = [] }: Operation): Asked[] {
  const valuesOf = (parameter: string): unknown[] => {
    if (!values[parameter]) throw new Error(`${name}: give the parameter ${parameter} a value above`);
    return values[parameter];
  };
  const paths = [...pattern.matchAll(/\{([^}]+)\}/g)].reduce(
    (made, [place, parameter]) =>
      made.flatMap((path) =>
        valuesOf(parameter!).map((value) => path.replace(place, encodeURIComponent(String(value)))),
      ),
    [pattern],
  );
  const queries = parameters
    .filter((parameter) => parameter.in === 'query' && parameter.name !== 'cursor')
    .flatMap((parameter) =>
      valuesOf(parameter.name).map((value) => `?${parameter.name}=${encodeURIComponent(String(value))}`),
    );
  const isOf = (name: string) => parameters.some((parameter) => parameter.in === 'query' && parameter.name === name);
  const together = isOf('as_of') && isOf('vp') ? combined() : [];
  return paths.flatMap((path) =>
    ['', ...queries, ...together].map((query) => ({ name: `${name}${query}`, method: 'GET', path: path + query })),
  );
}

/** All coordinates together, as they can be. */
function combined(): string[] {
  const known = ['known_at', 'as_of_position'].map(
    (name) => `&${name}=${encodeURIComponent(String(values[name]![1]))}`,
  );
  return ['&vp=VP_HOT_V1', '&model=disc-2'].flatMap((lens) =>
    ['', ...known].map((until) => `?as_of=${iso(busyTime)}${until}${lens}`),
  );
}

/** Asks, follows the pages of the answer, and resolves with the longest turn meanwhile. */
async function ask({ method, path, body }: Asked): Promise<{ held: number; status: number }> {
  await longestTurn();
  let status = 0;
  let cursor: string | null | undefined;
  for (let page = 0; page < 3; page++) {
    const next = cursor ? `${path}${path.includes('?') ? '&' : '?'}cursor=${encodeURIComponent(cursor)}` : path;
    const answer = await server.send(method, next, { body });
    status = answer.status;
    cursor = answer.json?.next_cursor;
    if (method !== 'GET' || !cursor) break;
  }
  return { held: await longestTurn(), status };
}

test(
  `no read of an identity with ${ACTIONS} actions holds the event loop`,
  async () => {
    const asked = requests();
    expect(asked.length).toBeGreaterThan(50);
    const failed = new Set<string>();
    const statuses = new Set<number>();
    const least = new Map<Asked, number>();
    // Those that took longest are asked again after all others.
    for (let round = 0; round < ROUNDS; round++) {
      for (const request of asked) {
        for (let n = 0; n < TRIES && (least.get(request) ?? Infinity) > MOST_MS; n++) {
          const { held, status } = await ask(request);
          least.set(request, Math.min(least.get(request) ?? Infinity, held));
          statuses.add(status);
          if (process.env['SHOW']) process.stderr.write(`${held.toFixed(1).padStart(7)} ${status} ${request.name}\n`);
          if (status >= 500) failed.add(`${request.name} is answered with ${status}`);
        }
      }
    }
    const held = [...least].filter(([, ms]) => ms > MOST_MS);
    const found = [...failed, ...held.map(([{ name }, ms]) => `${name} holds the loop for ${ms.toFixed(0)} ms`)];
    expect(found).toEqual([]);
    expect(statuses).toContain(200);
  },
  limit(600_000),
);

/** @returns the longest turn of every 50 ms while the operation runs, ms, ascending */
async function turnsDuring(operation: string): Promise<number[]> {
  const { job_id } = (await server.post(`/v1/ops/${operation}`, {})).json;
  const held: number[] = [];
  let job: Answer['json'];
  await longestTurn();
  do {
    await sleep(50);
    held.push(await longestTurn());
    job = (await server.send('GET', `/v1/jobs/${job_id}`)).json;
  } while (job.finished_at === null);
  if (process.env['SHOW']) process.stderr.write(`${operation}: ${held.map((ms) => ms.toFixed(1)).join(' ')}\n`);
  expect(job).toMatchObject({ status: 'completed' });
  return held.sort((a, b) => a - b);
}

test.each(['rebuild', 'verify'])(
  `the operation %s over ${ACTIONS} actions does not hold the event loop of the server`,
  async (operation) => {
    // Each is the longest of many turns, and some turns collect garbage: what holds the loop does so every time.
    let held: number[] = [];
    for (let n = 0; n < TRIES && (n === 0 || held.at(-1)! > 5 * MOST_MS); n++) held = await turnsDuring(operation);
    expect(held[Math.floor(held.length / 2)]).toBeLessThan(MOST_MS);
    expect(held.at(-1)).toBeLessThan(5 * MOST_MS);
  },
  limit(600_000),
);
