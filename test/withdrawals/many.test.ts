import { writeFile } from 'node:fs/promises';
import { Quotas } from '../../src/commands/quotas.js';
import { SCOPES } from '../../src/credentials/caller.js';
import { sha256Hex } from '../../src/kernel/hash.js';
import type { JsonObject } from '../../src/kernel/json.js';
import { eventually } from '../contracts/harness.js';
import { type Service, as, seen, startServiceWithKeys } from '../policies/service.fixture.js';

/** Withdrawals of many actions: the dry run, exactly whose set is withdrawn, and the decisions that it would change. */

const KEYS = [
  { id: 'operator', scopes: SCOPES },
  { id: 'only-ops', scopes: ['ops'] },
  { id: 'unbound', scopes: ['relay:write'] },
  { id: 'reads', scopes: ['reads'] },
  { id: 'lendco', scopes: ['relay:write', 'access:check', 'policies:write'], organization: 'tris:lendco' },
  { id: 'leaked', scopes: ['relay:write'], organization: 'tris:lendco' },
  { id: 'other', scopes: SCOPES, organization: 'tris:other' },
];
const HOUR_MS = 3_600_000;

let service: Service;
/** ms that the service's clock is ahead. */
let ahead = 0;
beforeEach(async () => {
  ahead = 0;
  service = await startServiceWithKeys(KEYS, {}, () => Date.now() + ahead);
  for (const name of ['lendco', 'other']) {
    const body = { tris_org: `tris:${name}`, platform_ids: [`${name}-app`] };
    expect((await service.post('/v1/organizations', body, as('operator'))).status).toBe(201);
  }
});
afterEach(() => service.close());

async function relay(key: string, tris_id: string, action_type = 'loan', more: object = {}): Promise<string> {
  const platform_id = key === 'unbound' ? 'free-app' : key === 'other' ? 'other-app' : 'lendco-app';
  const body = { tris_id, action_type, category: 'finance', criticality: 'critical', platform_id, ...more };
  const { status, json } = await service.post('/api/decision-relay', body, as(key));
  expect(status).toBe(202);
  return json.action_id;
}
const post = (body: object, key = 'operator', headers: object = {}) =>
  service.post('/v1/actions/withdrawals', body, { ...as(key), ...headers });
const dryRun = async (body: object, key = 'operator') => {
  const { status, json } = await post({ reason: 'key_compromised', dry_run: true, ...body }, key);
  expect(status).toBe(202);
  const job = await completed(json.job_id, key);
  return { job_id: json.job_id as string, result: job.result };
};
async function completed(jobId: string, key = 'operator') {
  let job: Awaited<ReturnType<Service['get']>>['json'];
  await eventually(async () => {
    job = (await service.get(`/v1/jobs/${jobId}`, as(key))).json;
    return job.status !== 'queued' && job.status !== 'running';
  });
  expect(job.problem).toBeNull();
  return job;
}
async function linesOf(jobId: string, key = 'operator') {
  const { status, text } = await service.get(`/v1/jobs/${jobId}/result`, as(key));
  expect(status).toBe(200);
  return text
    .trim()
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line));
}
const stateOf = async (id: string) =>
  (await service.get(`/v1/actions/${id}`, { ...as('operator'), ...(await seen(service)) })).json.state;
const scoreOf = async (tris_id: string) =>
  (await service.get(`/v1/disc/score/${tris_id}`, { ...as('operator'), ...(await seen(service)) })).json;
const outcome = ({ status, json }: { status: number; json: any }) => [status, json?.code];
const refusal = ({ status, json }: { status: number; json: any }) => [status, json?.errors?.[0]?.code];

test('a dry run records nothing and says what would change; then exactly its actions are withdrawn', async () => {
  const praised = await relay('lendco', 'tris:bob');
  const flags = [
    await relay('leaked', 'tris:bob', 'default_flags'),
    await relay('leaked', 'tris:bob', 'default_flags'),
  ];
  const other = await relay('leaked', 'tris:carol');
  const head = await service.stores.eventStore.head();
  const { job_id, result } = await dryRun({ key_id: 'leaked' });
  expect(await service.stores.eventStore.head()).toBe(head);
  expect(result).toMatchObject({ reason: 'key_compromised', actions: 3, identities: 2, ratings_changed: 1 });
  expect(result.largest[0]).toMatchObject({
    tris_id: 'tris:bob',
    actions: 2,
    score_rating: 'BAD',
    score_after: (await scoreOf('tris:carol')).score,
  });
  for (const inner of ['stored', 'stored_decisions']) expect(result).not.toHaveProperty(inner);
  const lines = await linesOf(job_id);
  expect(lines.map(({ action_id }) => action_id).sort()).toEqual([...flags, other].sort());

  const late = await relay('leaked', 'tris:bob');
  const applied = await post({ apply: job_id });
  expect(applied.status).toBe(202);
  const { result: done } = await completed(applied.json.job_id);
  expect(done).toMatchObject({ dry_run: job_id, actions: 3 });
  expect(await Promise.all([praised, ...flags, other, late].map(stateOf))).toEqual([
    'counted',
    'withdrawn',
    'withdrawn',
    'withdrawn',
    'counted',
  ]);
  expect(await scoreOf('tris:bob')).toMatchObject({ earned_tct: 280, forfeited_tct: 0 });
  const shown = await service.get(`/v1/actions/${other}`, as('operator'));
  expect(shown.json.changes).toEqual([
    expect.objectContaining({ state: 'withdrawn', by: 'key:operator', reason: 'key_compromised' }),
  ]);

  const end = await service.stores.eventStore.head();
  expect((await post({ apply: job_id })).json).toEqual(applied.json);
  await completed(applied.json.job_id);
  expect(await service.stores.eventStore.head()).toBe(end);
});

test('a set without actions is withdrawn at once', async () => {
  const { job_id } = await dryRun({ key_id: 'nobody' });
  const applied = await post({ apply: job_id });
  expect(applied.status).toBe(202);
  expect((await completed(applied.json.job_id)).result).toMatchObject({ dry_run: job_id, actions: 0 });
});

test('a set is refused if one of its actions was changed since, and names it', async () => {
  const [first, second] = [await relay('leaked', 'tris:bob'), await relay('leaked', 'tris:bob')];
  const { job_id } = await dryRun({ key_id: 'leaked' });
  await stateOf(second);
  const change = (what: string) => service.post(`/v1/actions/${first}/${what}`, { reason: 'mistake' }, as('operator'));
  expect((await change('withdraw')).status).toBe(200);
  const refused = await post({ apply: job_id });
  expect(outcome(refused)).toEqual([409, 'withdrawals_changed']);
  expect(refused.json.errors).toEqual([expect.objectContaining({ message: expect.stringContaining(first) })]);
  // It counts again, but is not as it was.
  expect((await change('reinstate')).status).toBe(200);
  expect(outcome(await post({ apply: job_id }))).toEqual([409, 'withdrawals_changed']);
  expect(await stateOf(second)).toBe('counted');
  const again = await dryRun({ key_id: 'leaked' });
  expect(again.result.actions).toBe(2);
  expect((await post({ apply: again.job_id })).status).toBe(202);
});

test('a key finds what it may withdraw: its organization’s platforms, or what it relayed for unregistered ones', async () => {
  await relay('lendco', 'tris:bob');
  await relay('leaked', 'tris:bob');
  await relay('other', 'tris:bob');
  await relay('other', 'tris:lendco', 'default_flags');
  await relay('unbound', 'tris:bob');
  await relay('operator', 'tris:lendco', 'loan', { platform_id: 'lendco-app' });
  await relay('operator', 'tris:bob', 'loan', { platform_id: 'free-app' });
  const found = async (body: object, key: string) => (await dryRun(body, key)).result.actions;
  expect(await found({ platform_id: 'lendco-app' }, 'lendco')).toBe(2);
  expect(await found({ platform_id: 'lendco-app' }, 'only-ops')).toBe(3);
  expect(await found({ platform_id: 'other-app' }, 'lendco')).toBe(0);
  expect(await found({ platform_id: 'free-app' }, 'unbound')).toBe(1);
  expect(await found({ key_id: 'other' }, 'other')).toBe(2);
  expect(outcome(await post({ platform_id: 'x', reason: 'mistake', dry_run: true }, 'reads'))).toEqual([
    403,
    'forbidden',
  ]);

  const { job_id } = await dryRun({ key_id: 'leaked' }, 'lendco');
  for (const key of ['other', 'unbound']) {
    expect(outcome(await post({ apply: job_id }, key))).toEqual([404, 'job_not_found']);
    expect(outcome(await service.get(`/v1/jobs/${job_id}/result`, as(key)))).toEqual([404, 'job_not_found']);
  }
  expect((await post({ apply: job_id }, 'leaked')).status).toBe(202);
});

test('a dry run tells the digest of a key only to those who may know of the key', async () => {
  for (const key of ['leaked', 'other', 'unbound']) await relay(key, 'tris:bob');
  const digest = async (key_id: string, key: string) => (await dryRun({ key_id }, key)).result.key_digest;
  const some = expect.stringMatching(/^[0-9a-f]+$/);
  for (const key_id of ['leaked', 'other', 'unbound']) expect(await digest(key_id, 'only-ops')).toEqual(some);
  const asked = async (key: string) => Promise.all(['leaked', 'other', 'unbound'].map((key_id) => digest(key_id, key)));
  expect(await asked('lendco')).toEqual([some, null, null]);
  expect(await asked('unbound')).toEqual([null, null, some]);
});

test('a key that has lost `ops` does not withdraw what only an operator could find', async () => {
  await relay('lendco', 'tris:bob');
  const { job_id } = await dryRun({ platform_id: 'lendco-app' });
  const keys = KEYS.map((key) => (key.id === 'operator' ? { ...key, scopes: ['relay:write'] } : key));
  const listed = keys.map((key) => ({ ...key, sha256: sha256Hex(key.id) }));
  await writeFile(service.config.apiKeys!, JSON.stringify(listed));
  const status = async () => (await service.get('/v1/ops/status', as('operator'))).status;
  await eventually(async () => (await status()) === 403);
  expect(outcome(await post({ apply: job_id }))).toEqual([404, 'job_not_found']);
  expect(outcome(await service.get(`/v1/jobs/${job_id}/result`, as('operator')))).toEqual([404, 'job_not_found']);
  expect((await post({ apply: job_id }, 'only-ops')).status).toBe(202);
});

test('times limit a set, both ends included', async () => {
  ahead = 0;
  await relay('leaked', 'tris:bob');
  const { recorded_at } = (
    await service.get(`/v1/actions/${await relay('leaked', 'tris:bob')}`, {
      ...as('operator'),
      ...(await seen(service)),
    })
  ).json;
  ahead = HOUR_MS;
  await relay('leaked', 'tris:bob');
  const found = async (times: object) => (await dryRun({ key_id: 'leaked', ...times })).result.actions;
  expect(await found({ recorded_to: recorded_at })).toBe(2);
  expect(await found({ recorded_from: recorded_at })).toBe(2);
  expect(await found({ recorded_from: new Date(Date.parse(recorded_at) + 1).toISOString() })).toBe(1);
});

test('a set may have an action that occurs only in the next hour, by which its identity is not known yet', async () => {
  const nextHour = Math.ceil(Date.now() / HOUR_MS) * HOUR_MS;
  ahead = nextHour - 50_000 - Date.now();
  await relay('leaked', 'tris:soon', 'loan', { occurred_at: new Date(nextHour + 5_000).toISOString() });
  expect((await scoreOf('tris:soon')).code).toBe('identity_not_found');
  const { result } = await dryRun({ key_id: 'leaked' });
  expect(result).toMatchObject({ actions: 1, identities: 1, largest: [{ tris_id: 'tris:soon', score_after: 7 }] });
});

test('a set is kept for 24 hours, and longer while it is withdrawn, also if the queue is lost', async () => {
  const [first, second] = [await relay('leaked', 'tris:bob'), await relay('leaked', 'tris:bob')];
  const early = await dryRun({ action_id: first });
  const late = await dryRun({ action_id: second });
  expect((await post({ apply: early.job_id })).status).toBe(202);
  // What a lost queue leaves of a set that was being withdrawn.
  const { keyValue } = service.stores;
  const begun = (await keyValue.get(`withdrawals:${early.job_id}`)) as JsonObject;
  const lost = `wdr_${'0'.repeat(32)}`;
  await keyValue.put(`withdrawals:${lost}`, { ...begun, reason: 'mistake' }, HOUR_MS * 1_000);
  ahead = 25 * HOUR_MS;
  expect(outcome(await post({ apply: late.job_id }))).toEqual([410, 'job_result_expired']);
  const applied = await post({ apply: lost });
  expect(applied.status).toBe(202);
  expect((await completed(applied.json.job_id)).result).toMatchObject({ dry_run: lost, actions: 1 });
  expect(outcome(await post({ apply: `wdr_${'1'.repeat(32)}` }))).toEqual([404, 'job_not_found']);
});

test('a set that is withdrawn again leaves what was reinstated since', async () => {
  const [first, second] = [await relay('leaked', 'tris:bob'), await relay('leaked', 'tris:bob')];
  const { job_id } = await dryRun({ key_id: 'leaked' });
  const applied = await post({ apply: job_id });
  await completed(applied.json.job_id);
  await stateOf(first);
  const reinstated = await service.post(`/v1/actions/${first}/reinstate`, { reason: 'mistake' }, as('operator'));
  expect(reinstated.status).toBe(200);
  // As after the loss of the queue.
  const { keyValue } = service.stores;
  const lost = `wdr_${'2'.repeat(32)}`;
  await keyValue.put(`withdrawals:${lost}`, (await keyValue.get(`withdrawals:${job_id}`)) as JsonObject, HOUR_MS);
  await completed((await post({ apply: lost })).json.job_id);
  expect(await Promise.all([first, second].map(stateOf))).toEqual(['counted', 'withdrawn']);
});

const REFUSED = [
  [{}, 'dry_run_first'],
  [{ key_id: 'leaked', reason: 'mistake' }, 'dry_run_first'],
  [{ key_id: 'leaked', reason: 'mistake', dry_run: false }, 'dry_run_first'],
  [{ key_id: 'leaked', dry_run: true }, 'required'],
  [{ reason: 'mistake', dry_run: true }, 'required'],
  [{ key_id: 'leaked', reason: 'because', dry_run: true }, 'is_in'],
  [{ key_id: 'leaked', reason: 'mistake', dry_run: true, recorded_to: '2999-01-01T00:00:00Z' }, 'in_the_future'],
  [
    {
      key_id: 'leaked',
      reason: 'mistake',
      dry_run: true,
      recorded_from: '2026-02-01T00:00:00Z',
      recorded_to: '2026-01-01T00:00:00Z',
    },
    'empty_range',
  ],
  [{ apply: `wdr_${'0'.repeat(32)}`, reason: 'mistake' }, 'exclusive'],
  [{ apply: 'wdr_1' }, 'matches'],
] as const;

test('refuses what names no set, or more than one', async () => {
  for (const [body, code] of REFUSED) expect(refusal(await post(body))).toEqual([400, code]);
});

describe('decisions', () => {
  const check = async (key = 'lendco', policy_id = 'AP_LEND_V1') =>
    (
      await service.post(
        '/v1/policies/ap/check',
        { policy_id, subject_tris: 'tris:bob' },
        { ...as(key), ...(await seen(service)) },
      )
    ).json;
  beforeEach(async () => {
    for (const [policy_id, key] of [
      ['AP_LEND_V1', 'lendco'],
      ['AP_OTHER_V1', 'other'],
    ] as const) {
      const { status } = await service.post('/v1/policies/ap', { policy_id, rules: { tct_min: 100 } }, as(key));
      expect(status).toBe(201);
    }
  });
  const affected = async (id: string, key: string) =>
    service.get(`/v1/actions/${id}/affected-decisions`, { ...as(key), ...(await seen(service)) });

  test('that would differ without an action are listed, each by those who may read it', async () => {
    await relay('lendco', 'tris:bob');
    const before = await check();
    const flag = await relay('leaked', 'tris:bob', 'default_flags');
    const denied = await check();
    const others = await check('other', 'AP_OTHER_V1');
    expect([before.granted, denied.granted, others.granted]).toEqual([true, false, false]);
    const recorded = await service.get('/v1/access/decisions?subject=tris:bob', {
      ...as('operator'),
      ...(await seen(service)),
    });
    const [othersId, deniedId] = recorded.json.decisions.map(({ jti }: { jti: string }) => jti);
    const { json } = await affected(flag, 'lendco');
    expect(json).toMatchObject({ action_id: flag, tris_id: 'tris:bob', decisions: 1 });
    expect(json.differ).toEqual([
      {
        jti: deniedId,
        policy_id: 'AP_LEND_V1',
        checked_at: expect.any(String),
        was: { granted: false, score: denied.score },
        would_be: { granted: true, score: before.score },
        expires_at: null,
      },
    ]);
    expect((await affected(flag, 'operator')).json).toMatchObject({
      decisions: 2,
      differ: [{ jti: othersId }, { jti: deniedId }],
    });
    expect(outcome(await affected(flag, 'leaked'))).toEqual([403, 'forbidden']);

    const { job_id, result } = await dryRun({ key_id: 'leaked' });
    expect(result).toMatchObject({ actions: 1, decisions: 2, decisions_differ: 2 });
    expect((await linesOf(job_id)).slice(1).map(({ jti }) => jti)).toEqual([othersId, deniedId]);
    expect((await linesOf(job_id, 'only-ops')).map(({ jti }) => jti)).toEqual([undefined]);
    const own = await dryRun({ key_id: 'leaked' }, 'lendco');
    expect(own.result).toMatchObject({ decisions: 1, decisions_differ: 1 });
    expect((await linesOf(own.job_id, 'lendco')).map(({ jti }) => jti)).toEqual([undefined, deniedId]);
    // Of the same organization, but it may not read decisions.
    expect((await linesOf(own.job_id, 'leaked')).map(({ jti }) => jti)).toEqual([undefined]);
    expect((await dryRun({ key_id: 'leaked' }, 'only-ops')).result).toMatchObject({ decisions: 0 });
    await completed((await post({ apply: job_id })).json.job_id);
    const after = await check();
    expect(after.granted).toBe(true);
    // Nothing recorded is rewritten, and a decision made without the action is not about it.
    expect((await affected(flag, 'lendco')).json).toMatchObject({ decisions: 1, differ: [{ jti: deniedId }] });
  });

  test('and actions are one result, also where an organization may have only one', async () => {
    const limits = service.app.get(Quotas, { strict: false }).limits as { job_results: number };
    limits.job_results = 1;
    await relay('lendco', 'tris:bob');
    await check();
    await relay('leaked', 'tris:bob', 'default_flags');
    await check();
    const { job_id, result } = await dryRun({ key_id: 'leaked' }, 'lendco');
    expect(result).toMatchObject({ actions: 1, decisions_differ: 1 });
    expect(await linesOf(job_id, 'lendco')).toEqual([
      expect.objectContaining({ action_id: expect.any(String) }),
      expect.objectContaining({ jti: expect.any(String) }),
    ]);
    const applied = await post({ apply: job_id }, 'lendco');
    expect(applied.status).toBe(202);
    expect((await completed(applied.json.job_id, 'lendco')).result).toMatchObject({ actions: 1 });
  });

  test('that were made while an action was withdrawn are not about it', async () => {
    const action = await relay('lendco', 'tris:bob');
    await check();
    for (const what of ['withdraw', 'reinstate']) {
      await stateOf(action);
      const { status } = await service.post(`/v1/actions/${action}/${what}`, { reason: 'mistake' }, as('lendco'));
      expect(status).toBe(200);
      await check();
    }
    expect((await affected(action, 'lendco')).json).toMatchObject({
      decisions: 2,
      differ: [{ was: { granted: true }, would_be: { granted: false } }, { was: { granted: true } }],
    });
  });
});
