import { UNATTRIBUTED } from '../../projections/dead-letters.js';
import type { Config } from '../../src/kernel/config.js';
import { decorated } from '../../src/kernel/decorated.js';
import { openStores } from '../../src/stores/open.js';
import type { ReadModels, RowQuery } from '../../src/stores/ports/read-models.js';
import { eventually } from '../contracts/harness.js';
import { type Service, as, relay, seen, startService, startServiceWithKeys } from './service.fixture.js';

/** An access policy, evaluated for all identities as a job. */

const LENDER = 'tris:lender';
const KEYS = [
  { id: 'operator', scopes: ['ops', 'relay:write', 'policies:write', 'access:check', 'identity:write'] },
  { id: 'writer', scopes: ['policies:write'] },
  { id: 'lender', scopes: ['policies:write'], organization: LENDER },
  { id: 'other', scopes: ['policies:write'], organization: 'tris:other' },
];
/** More than one part of a stored result. */
const IDENTITIES = 1_100;
const DEED = { metric: 'social_deed', criticality: 'High', weight: 0.1 };
const METADATA = { total_weight: 1, visibility: 'public', version: 'v1.0' };
const RULES = { any: [{ disc_min: 7.5 }, { verification: ['zk-KYH'] }] };

let service: Service;
/** ms that the service's clock is ahead. */
let ahead = 0;
beforeAll(async () => {
  service = await startServiceWithKeys(KEYS, {}, () => Date.now() + ahead);
  const act = (n: number) => ({
    tris_id: `tris:n${n}`,
    category: n % 7 === 0 ? 'social' : 'financial',
    action_type: 'deed',
    criticality: n % 3 === 0 ? 'critical' : 'minimal',
    platform_id: 'lender.example',
  });
  const all = Array.from({ length: IDENTITIES }, (_, n) => act(n));
  for (const actions of [all.slice(0, 1_000), all.slice(1_000)]) {
    expect((await service.post('/v1/decision-relay/batch', { actions }, as('operator'))).status).toBe(200);
  }
  const grant = { status: 'zk-KYH', evidence_hash: 'a'.repeat(64) };
  expect((await service.post('/v1/identities/tris:n1/verifications', grant, as('operator'))).status).toBeLessThan(300);
  for (const [policy_id, key, rules] of [
    ['AP_ANY_V1', 'operator', RULES],
    ['AP_LENDER_V1', 'lender', RULES],
    ['AP_HEALTH_V1', 'operator', { metrics: { social: 0.01 } }],
  ] as const) {
    expect((await service.post('/v1/policies/ap', { policy_id, rules }, as(key))).status).toBe(201);
  }
  await service.get('/v1/policies/ap', await seen(service));
});
afterAll(() => service.close());

const start = (policyId: string, key: string, headers = {}) =>
  service.post(`/v1/policies/ap/${policyId}/population`, undefined, { ...as(key), ...headers });
async function completed(jobId: string, key: string) {
  let job: Awaited<ReturnType<Service['get']>>['json'];
  await eventually(async () => {
    job = (await service.get(`/v1/jobs/${jobId}`, as(key))).json;
    return job.status === 'completed';
  });
  return job;
}
const linesOf = (text: string) =>
  text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as { tris_id: string; outcome: string });

test('says of every identity what a check would, without recording anything', async () => {
  const head = await service.stores.eventStore.head();
  const started = await start('AP_ANY_V1', 'operator');
  expect([started.status, started.json]).toEqual([202, { job_id: expect.stringMatching(/^pop_/) }]);
  const { job_id } = started.json;
  const job = await completed(job_id, 'operator');
  expect(job).toMatchObject({
    kind: 'ap_population',
    progress: { done: IDENTITIES, total: IDENTITIES },
    problem: null,
    result: { policy_id: 'AP_ANY_V1', count: IDENTITIES, unknown: 0, position: expect.any(String) },
  });
  expect(job.result).not.toHaveProperty('stored');
  const answer = await service.get(`/v1/jobs/${job_id}/result`, as('operator'));
  expect([answer.status, answer.headers['content-type']]).toEqual([200, 'application/x-ndjson']);
  const lines = linesOf(answer.text);
  expect(await service.stores.eventStore.head()).toBe(head);
  expect(lines.map(({ tris_id }) => tris_id).sort()).toEqual(
    Array.from({ length: IDENTITIES }, (_, n) => `tris:n${n}`).sort(),
  );
  const granted = lines.filter(({ outcome }) => outcome === 'granted');
  expect(job.result).toMatchObject({ granted: granted.length, denied: IDENTITIES - granted.length });
  expect(granted.length).toBe(Math.ceil(IDENTITIES / 3) + 1);
  for (const { tris_id, outcome } of ['tris:n0', 'tris:n1', 'tris:n2', 'tris:n1099'].map((id) =>
    lines.find((line) => line.tris_id === id)!,
  )) {
    const check = { policy_id: 'AP_ANY_V1', subject_tris: tris_id };
    const { json } = await service.post('/v1/policies/ap/check', check, as('operator'));
    expect([tris_id, outcome]).toEqual([tris_id, json.granted ? 'granted' : 'denied']);
  }
});

test('tells what is unknown from what is denied', async () => {
  const { job_id } = (await start('AP_HEALTH_V1', 'operator')).json;
  const { result } = await completed(job_id, 'operator');
  const social = Math.ceil(IDENTITIES / 7);
  expect(result).toMatchObject({ count: IDENTITIES, granted: social, denied: 0, unknown: IDENTITIES - social });
});

test('a retry with the same Idempotency-Key gets the same job', async () => {
  const key = { 'idempotency-key': 'population-1' };
  const [first, again] = [await start('AP_ANY_V1', 'operator', key), await start('AP_ANY_V1', 'operator', key)];
  expect(again.json).toEqual(first.json);
  await completed(first.json.job_id, 'operator');
});

test('is for callers that may read the rules, and its job for the organization that started it', async () => {
  for (const [policy, key, code] of [
    ['AP_LENDER_V1', 'other', 'forbidden'],
    ['AP_LENDER_V1', 'writer', 'forbidden'],
    ['AP_ANY_V1', 'lender', 'forbidden'],
    ['AP_NOWHERE_V1', 'lender', 'policy_not_found'],
  ]) {
    const { json } = await start(policy!, key!);
    expect([policy, key, json.code]).toEqual([policy, key, code]);
  }
  const { job_id } = (await start('AP_LENDER_V1', 'lender')).json;
  await completed(job_id, 'lender');
  for (const path of ['', '/result']) {
    const { status, json } = await service.get(`/v1/jobs/${job_id}${path}`, as('other'));
    expect([status, json.code]).toEqual([404, 'job_not_found']);
  }
});

test('an operator’s key without ops reads and cancels only jobs about rules that it may read', async () => {
  const jobOf = async (policy: string, key: string) => {
    const { job_id } = (await start(policy, key)).json;
    await completed(job_id, key);
    return `/v1/jobs/${job_id}`;
  };
  const ofLender = await jobOf('AP_LENDER_V1', 'lender');
  for (const request of [service.get(ofLender, as('writer')), service.get(`${ofLender}/result`, as('writer'))]) {
    const { status, json } = await request;
    expect([status, json.code]).toEqual([404, 'job_not_found']);
  }
  const cancelled = await service.delete(ofLender, as('writer'));
  expect([cancelled.status, cancelled.json.code]).toEqual([404, 'job_not_found']);
  expect((await service.get(ofLender, as('operator'))).status).toBe(200);
  expect((await service.get(await jobOf('AP_ANY_V1', 'operator'), as('writer'))).status).toBe(200);
});

test('the lines are there for a day, and the sums longer', async () => {
  const { job_id } = (await start('AP_ANY_V1', 'operator')).json;
  await completed(job_id, 'operator');
  const result = () => service.get(`/v1/jobs/${job_id}/result`, as('operator'));
  ahead = 23 * 3_600_000;
  expect((await result()).status).toBe(200);
  ahead = 24 * 3_600_000 + 60_000;
  const { status, json } = await result().finally(() => (ahead = 0));
  expect([status, json.code]).toEqual([410, 'job_result_expired']);
  expect((await completed(job_id, 'operator')).result.count).toBe(IDENTITIES);
});

test('a job that has no result says so', async () => {
  await service.stores.jobs.enqueue('ap_population', 'pop_nowhere', { policy_id: 'AP_NOWHERE_V1', organization: null });
  const { status, json } = await service.get('/v1/jobs/pop_nowhere/result', as('operator'));
  expect([status, json.code]).toEqual([409, 'job_not_completed']);
});

test('sees an identity as of the time that a clock ahead has given to an event about it, as a check does', async () => {
  const operator = as('operator');
  const tris_id = 'tris:ahead';
  const expires_at = new Date(Date.now() + 3_600_000).toISOString();
  const grant = { status: 'zk-KYH', evidence_hash: 'a'.repeat(64), expires_at };
  expect((await service.post(`/v1/identities/${tris_id}/verifications`, grant, operator)).status).toBe(201);
  ahead = 2 * 3_600_000;
  const status = { level: 3, reason_code: 'fraud' };
  await service.post(`/v1/identities/${tris_id}/bad-status`, status, operator).finally(() => (ahead = 0));
  const policy = { policy_id: 'AP_HELD_V1', rules: { verification: ['zk-KYH'] } };
  expect((await service.post('/v1/policies/ap', policy, operator)).status).toBe(201);
  const check = { policy_id: 'AP_HELD_V1', subject_tris: tris_id };
  const headers = { ...operator, ...(await seen(service)) };
  expect((await service.post('/v1/policies/ap/check', check, headers)).json.granted).toBe(false);
  const { job_id } = (await start('AP_HELD_V1', 'operator')).json;
  // Only the identity whose verification has no end.
  expect((await completed(job_id, 'operator')).result.granted).toBe(1);
});

test('knows of nobody while an event is damaged that may be about anybody, as checks and scores say', async () => {
  const opened = async ({ data }: Config) => {
    const stores = await openStores(data, Date.now);
    const read: ReadModels['read'] = async (generation, queries) => {
      const answer = await stores.readModels.read(generation, queries);
      if (!answer) return answer;
      const isCount = (query: RowQuery) => 'get' in query && query.get.view === UNATTRIBUTED.view;
      return { ...answer, results: answer.results.map((row, i) => (isCount(queries[i]!) ? damaged : row)) };
    };
    return { ...stores, readModels: decorated(stores.readModels, { read }) };
  };
  let damaged: number | undefined;
  const other = await startService({}, Date.now, opened);
  try {
    await relay(other, [{ tris_id: 'tris:known', category: 'social', action_type: 'deed', criticality: 'High' }]);
    await other.post('/v1/policies/ap', { policy_id: 'AP_ALL_V1', rules: { disc_min: 0 } });
    const policy = { policy_id: 'VP_ALL_V1', tris_org: 'tris:a', inputs: [DEED], metadata: METADATA };
    await other.post('/v1/policies/vp', policy);
    const { headers, json: score } = await other.get('/v1/disc/score/tris:known', await seen(other));
    const path = `/v1/disc/score/tris:known?as_of=${score.as_of}&as_of_position=${score.position}`;
    const { etag } = (await other.get(path)).headers;
    const sums = async () => {
      const check = { policy_id: 'AP_ALL_V1', subject_tris: 'tris:known' };
      const { granted } = (await other.post('/v1/policies/ap/check', check)).json;
      const { job_id } = (await other.post('/v1/policies/ap/AP_ALL_V1/population')).json;
      let job: Awaited<ReturnType<Service['get']>>['json'];
      await eventually(async () => {
        job = (await other.get(`/v1/jobs/${job_id}`, { 'x-api-key': other.key })).json;
        return job.status === 'completed';
      });
      const preview = { policy_id: 'VP_ALL_V1', access_policies: ['AP_ALL_V1'] };
      const of = async (subjects: object) =>
        (await other.post('/v1/policies/vp/evaluate', { ...preview, ...subjects })).json.summary.access[0]
          .granted_after;
      const { result } = job;
      return [granted, result.granted, result.unknown, await of({}), await of({ subjects: ['tris:known'] })];
    };
    expect(headers['etag']).toBeDefined();
    expect(await sums()).toEqual([true, 1, 0, 1, 1]);
    damaged = 1;
    const again = await other.get(path, { 'if-none-match': etag as string });
    expect([again.status, again.json?.incomplete]).toEqual([200, true]);
    expect(await sums()).toEqual([false, 0, 1, 0, 0]);
  } finally {
    await other.close();
  }
});
