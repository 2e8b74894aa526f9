import { eventually } from '../contracts/harness.js';
import { type Service, applied, as, relay, startServiceWithKeys } from './service.fixture.js';

/** Recorded access decisions, decided again under a candidate. */

const LENDER = 'tris:lender';
const KEYS = [
  { id: 'operator', scopes: ['ops', 'relay:write', 'policies:write', 'access:check', 'audit:read'] },
  { id: 'writer', scopes: ['policies:write'] },
  { id: 'lender', scopes: ['policies:write', 'access:check'], organization: LENDER },
  { id: 'other', scopes: ['policies:write'], organization: 'tris:other' },
];
const DEED = { category: 'financial', action_type: 'deed', platform_id: 'market' };
const RULES = { disc_min: 7.2 };

let service: Service;
let now = Date.parse('2026-03-01T12:00:00Z');
/** Both policies were checked once about each subject in this time. */
let [from, to] = ['', ''];
beforeAll(async () => {
  service = await startServiceWithKeys(KEYS, {}, () => now);
  for (const [policy_id, key] of [
    ['AP_OPEN_V1', 'operator'],
    ['AP_LENDER_V1', 'lender'],
  ] as const) {
    expect((await service.post('/v1/policies/ap', { policy_id, rules: RULES }, as(key))).status).toBe(201);
  }
  // 7.9 and 7.1.
  const deeds = [
    { ...DEED, tris_id: 'tris:alice', criticality: 'critical' },
    { ...DEED, tris_id: 'tris:bob', criticality: 'minimal' },
  ];
  const position = await relay(service, deeds, as('operator'));
  const check = async (policy_id: string, subject_tris: string) => {
    const headers = { ...as('operator'), 'credence-min-position': position };
    const { status, json } = await service.post('/v1/policies/ap/check', { policy_id, subject_tris }, headers);
    expect([status, json.granted]).toEqual([200, subject_tris === 'tris:alice']);
  };
  now += 1_000;
  from = new Date(now).toISOString();
  for (const policy_id of ['AP_OPEN_V1', 'AP_LENDER_V1']) {
    for (const subject of ['tris:alice', 'tris:bob', 'tris:nobody']) await check(policy_id, subject);
  }
  to = new Date(now).toISOString();
  // What happened later must not count.
  now += 1_000;
  const later = [
    { ...DEED, tris_id: 'tris:alice', action_type: 'deed_flags', criticality: 'critical' },
    { ...DEED, tris_id: 'tris:bob', criticality: 'critical' },
    { ...DEED, tris_id: 'tris:nobody', criticality: 'critical' },
  ];
  await relay(service, later, as('operator'));
  await applied(service);
  now += 1_000;
  await service.post('/v1/policies/ap/check', { policy_id: 'AP_OPEN_V1', subject_tris: 'tris:bob' }, as('operator'));
});
afterAll(() => service.close());

const post = (body: object, key = 'operator', headers = {}) =>
  service.post('/v1/policies/ap/replay', { from, to, ...body }, { ...as(key), ...headers });
async function completed(body: object, key = 'operator') {
  const { status, json } = await post(body, key);
  expect([status, json]).toEqual([202, { job_id: expect.stringMatching(/^apr_/) }]);
  let job: Awaited<ReturnType<Service['get']>>['json'];
  await eventually(async () => {
    job = (await service.get(`/v1/jobs/${json.job_id}`, as(key))).json;
    return job.status !== 'queued' && job.status !== 'running';
  });
  expect([job.kind, job.problem]).toEqual(['ap_replay', null]);
  const { text } = await service.get(`/v1/jobs/${json.job_id}/result`, as(key));
  const lines = text.split('\n').filter((line) => line !== '');
  return { job_id: json.job_id as string, result: job.result, lines: lines.map((line) => JSON.parse(line)) };
}
const sums = (policy_id: string, gained: number, lost: number) => {
  return { policy_id, decisions: 3, granted: 1, gained, lost };
};

test('each decision is decided again as of its own check, and nothing is recorded', async () => {
  const head = await service.stores.eventStore.head();
  const { result, lines } = await completed({ rules: { disc_min: 7.05 } });
  expect(result).toEqual({
    policy_id: null,
    decisions: 6,
    policies: [sums('AP_LENDER_V1', 1, 0), sums('AP_OPEN_V1', 1, 0)],
    lines_until: expect.any(String),
  });
  const bob = { subject_tris: 'tris:bob', jti: expect.any(String), checked_at: from };
  const outcome = { was: { granted: false, score: 7.1 }, would_be: { granted: true, score: 7.1 } };
  expect(lines).toEqual(['AP_LENDER_V1', 'AP_OPEN_V1'].map((policy_id) => ({ policy_id, ...bob, ...outcome })));
  expect(await service.stores.eventStore.head()).toBe(head);
});

test('only decisions of the time that is asked for', async () => {
  const { result } = await completed({ rules: RULES, from: new Date(now).toISOString(), to: '2027-01-01T00:00:00Z' });
  expect(result).toMatchObject({
    decisions: 1,
    policies: [{ policy_id: 'AP_OPEN_V1', granted: 1, gained: 0, lost: 0 }],
  });
  expect((await completed({ rules: RULES, to: from, from: '2020-01-01T00:00:00Z' })).result.decisions).toBe(6);
});

test('a stored policy is a candidate with its own lens', async () => {
  const input = { metric: 'financial_deed', criticality: 'Critical', weight: 0.14 };
  const metadata = { total_weight: 1, visibility: 'public', version: 'v1.0' };
  const vp = { policy_id: 'VP_DEEDS_V1', tris_org: LENDER, inputs: [input], metadata };
  expect((await service.post('/v1/policies/vp', vp, as('lender'))).status).toBe(201);
  // Bob has 10 TCT by the model's own lens.
  const candidate = { policy_id: 'AP_LENDER_V2', rules: { tct_min: 140 }, vp: 'VP_DEEDS_V1' };
  expect((await service.post('/v1/policies/ap', candidate, as('lender'))).status).toBe(201);
  const { result, lines } = await completed({ policy_id: 'AP_LENDER_V2' }, 'lender');
  expect(result).toMatchObject({ policy_id: 'AP_LENDER_V2', decisions: 3, policies: [sums('AP_LENDER_V1', 1, 0)] });
  expect(lines).toMatchObject([{ subject_tris: 'tris:bob', would_be: { granted: true, score: 7.9 } }]);
});

test('an organization replays the decisions by its own policies, and its job is its own', async () => {
  const { job_id, result, lines } = await completed({ rules: { disc_min: 50 } }, 'lender');
  expect(result.policies).toEqual([sums('AP_LENDER_V1', 0, 1)]);
  expect(lines).toMatchObject([{ subject_tris: 'tris:alice', was: { granted: true }, would_be: { granted: false } }]);
  expect((await completed({ rules: RULES }, 'other')).result).toMatchObject({ decisions: 0, policies: [] });
  for (const key of ['other', 'writer']) {
    for (const path of ['', '/result']) {
      const { status, json } = await service.get(`/v1/jobs/${job_id}${path}`, as(key));
      expect([key, status, json.code]).toEqual([key, 404, 'job_not_found']);
    }
  }
  expect((await service.get(`/v1/jobs/${job_id}`, as('operator'))).status).toBe(200);
});

test('needs a key that may read the decisions and the rules of the candidate', async () => {
  for (const [body, key, code] of [
    [{ rules: RULES }, 'writer', 'forbidden'],
    [{ policy_id: 'AP_LENDER_V1' }, 'other', 'forbidden'],
    [{ policy_id: 'AP_NOWHERE_V1' }, 'lender', 'policy_not_found'],
  ] as const) {
    expect([key, (await post(body, key)).json.code]).toEqual([key, code]);
  }
});

test.each([
  [{}, '/policy_id', 'exclusive'],
  [{ policy_id: 'AP_OPEN_V1', rules: RULES }, '/policy_id', 'exclusive'],
  [{ rules: { disc_min: 101 } }, '/rules/disc_min', 'max'],
  [{ rules: RULES, to: '2020-01-01T00:00:00Z' }, '/to', 'before_from'],
  [{ rules: RULES, from: 'yesterday' }, '/from', 'timestamp'],
])('%j is refused', async (body, pointer, code) => {
  const { status, json } = await post(body);
  expect([status, json.errors]).toEqual([400, [expect.objectContaining({ pointer, code })]]);
});

test('a retry with the same Idempotency-Key gets the same job', async () => {
  const key = { 'idempotency-key': 'replay-1' };
  const first = await post({ rules: RULES }, 'operator', key);
  expect((await post({ rules: RULES }, 'operator', key)).json).toEqual(first.json);
  expect((await post({ rules: { disc_min: 8 } }, 'operator', key)).json.code).toBe('idempotency_key_reused');
});
