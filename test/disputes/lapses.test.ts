import { jest } from '@jest/globals';
import { SCOPES } from '../../src/credentials/caller.js';
import { DisputeOutcomes } from '../../src/features/disputes/dispute-outcomes.js';
import { becomes, eventually } from '../contracts/harness.js';
import { type Service, as, seen, startServiceWithKeys } from '../policies/service.fixture.js';
import { type Tokens, bearer, claim, newAccount } from '../sessions/wallet.js';
import { Receiver } from '../webhooks/receiver.js';

/** Disputes that nobody answers in time (CREDENCE_DISPUTE_DAYS). */

const KEYS = [
  { id: 'operator', scopes: SCOPES },
  { id: 'lendco', scopes: SCOPES, organization: 'tris:lendco' },
];
const DAY_MS = 86_400_000;
const DAYS = 7;

let later = 0;
let service: Service;
let person: Tokens & { tris_id: string };
const receiver = new Receiver();
const start = (env: Record<string, string>) => startServiceWithKeys(KEYS, env, () => Date.now() + later);
beforeAll(async () => {
  await receiver.start();
  service = await start({ CREDENCE_DISPUTE_DAYS: String(DAYS), CREDENCE_WEBHOOK_LOOPBACK: 'on' });
  // It sweeps only when a test says so.
  service.app.get(DisputeOutcomes).onApplicationShutdown();
  await post('/v1/organizations', { tris_org: 'tris:lendco', platform_ids: ['lendco-app'] });
});
beforeEach(async () => void (person = await claim(service, newAccount())));
afterAll(async () => {
  await service.close();
  await receiver.stop();
});

async function post(path: string, body: unknown, key = 'operator', at = service) {
  const answer = await at.post(path, body, { ...as(key), ...(await seen(at)) });
  if (answer.status >= 300) throw new Error(`${path}: ${answer.text}`);
  return answer.json;
}
const get = async (path: string) => (await service.get(path, { ...bearer(person), ...(await seen(service)) })).json;
const dispute = async (body: object, at = service) =>
  (await at.post('/v1/disputes', body, { ...bearer(person), ...(await seen(at)) })).json;
async function disputed(statement = 'I repaid.', at = service) {
  const flag = {
    action_type: 'default_flags',
    category: 'financial',
    criticality: 'critical',
    platform_id: 'lendco-app',
  };
  const { action_id } = await post('/api/decision-relay', { tris_id: person.tris_id, ...flag }, 'lendco', at);
  // On a busy machine the wait for the position may end before the action is applied.
  const opened = await becomes(
    () => dispute({ action_id, statement }, at),
    ({ dispute_id }) => dispute_id !== undefined,
  );
  return { action_id, ...opened } as { action_id: string; dispute_id: string };
}
const answer = (id: string, outcome: string) => post(`/v1/disputes/${id}/answer`, { outcome }, 'lendco');
const action = async (id: string) => (await service.get(`/v1/actions/${id}`, as('operator'))).json;
const sweep = async (at = service) => {
  await seen(at).then((headers) => at.get('/v1/disc/score/tris:none', headers));
  await at.app.get(DisputeOutcomes).sweep();
};
const reaches = (action_id: string, state: string) =>
  eventually(async () => (await action(action_id)).state === state, `the action is ${state}`);
/** Of the newest dispute of the person. */
const last = async () => (await get('/v1/disputes')).disputes.at(-1);
async function lapsed(statement?: string) {
  const ids = await disputed(statement);
  later += DAYS * DAY_MS;
  await sweep();
  await reaches(ids.action_id, 'withdrawn');
  return ids;
}

test('an unanswered dispute of an action lapses after the days, not before: the action is withdrawn once, as disputed', async () => {
  const { action_id, dispute_id } = await disputed();
  later += DAYS * DAY_MS - 60_000;
  await sweep();
  expect([await last(), (await action(action_id)).state]).toMatchObject([{ dispute_id, status: 'open' }, 'counted']);
  later += 60_000;
  const now = Date.now() + later;
  for (let n = 0; n < 2; n++) await sweep();
  await reaches(action_id, 'withdrawn');
  await sweep();
  expect((await action(action_id)).changes).toMatchObject([{ reason: 'disputed', by: 'job:dispute_withdrawal' }]);
  const { lapsed_at, ...rest } = await last();
  expect(rest).toMatchObject({ dispute_id, open: false, status: 'lapsed', answers: [] });
  expect(Date.parse(lapsed_at) - now).toBeLessThan(60_000);
  expect(Date.parse(lapsed_at)).toBeGreaterThanOrEqual(now);
});

test('one that has lapsed waits no more: it is no open dispute of lists, of /v1/me and of scores', async () => {
  await disputed();
  const score = `/v1/disc/score/${person.tris_id}`;
  expect([(await get('/v1/me')).disputes.length, (await get(score)).disputed]).toEqual([1, 1]);
  later += DAYS * DAY_MS;
  await sweep();
  expect((await get('/v1/disputes?open=true')).disputes).toEqual([]);
  expect((await get('/v1/me')).disputes).toEqual([]);
  expect(await get(score)).not.toHaveProperty('disputed');
});

test('a rejection after that reinstates the action, and it is disputed again only with another text, until that lapses', async () => {
  const { action_id, dispute_id } = await lapsed('a');
  expect((await dispute({ action_id, statement: 'b' })).code).toBe('statement_withdrawn');
  expect(await answer(dispute_id, 'rejected')).toMatchObject({
    status: 'rejected',
    answers: [{ outcome: 'rejected' }],
  });
  await reaches(action_id, 'counted');
  expect((await dispute({ action_id, statement: 'a' })).code).toBe('dispute_answered');
  expect(await dispute({ action_id, statement: 'b' })).toMatchObject({ dispute_id, status: 'open' });
  later += DAYS * DAY_MS;
  await sweep();
  await reaches(action_id, 'withdrawn');
  expect((await action(action_id)).changes.map(({ state, by }: any) => [state, by])).toEqual(
    ['withdrawn', 'counted', 'withdrawn'].map((state) => [state, 'job:dispute_withdrawal']),
  );
});

test('if it is upheld after that, the action stays withdrawn', async () => {
  const { action_id, dispute_id } = await lapsed();
  expect((await answer(dispute_id, 'upheld')).status).toBe('upheld');
  await sweep();
  expect((await action(action_id)).changes).toHaveLength(1);
});

test('what somebody reinstated since stays as it is, whatever the answer', async () => {
  const { action_id, dispute_id } = await lapsed();
  await post(`/v1/actions/${action_id}/reinstate`, { reason: 'mistake' });
  const again = await dispute({ action_id });
  expect(again.dispute_id).not.toBe(dispute_id);
  await post(`/v1/actions/${action_id}/withdraw`, { reason: 'mistake' });
  await answer(dispute_id, 'rejected');
  await sweep();
  const { jobs } = service.stores;
  const job = (await jobs.list()).find(({ kind }) => kind === 'dispute_withdrawal');
  await eventually(async () => (await jobs.get(job!.kind, job!.id))!.status === 'completed', 'the job has run');
  expect((await jobs.get(job!.kind, job!.id))!.result).toBe('changed');
  expect((await action(action_id)).changes).toHaveLength(3);
});

test('an answer in time keeps it from lapsing', async () => {
  const { action_id, dispute_id } = await disputed();
  await answer(dispute_id, 'rejected');
  later += DAYS * DAY_MS;
  await sweep();
  expect([await last(), (await action(action_id)).state]).toMatchObject([
    { status: 'rejected', lapsed_at: null },
    'counted',
  ]);
});

test('a BAD status and a verification never fall by silence', async () => {
  const { tris_id } = person;
  await post(`/v1/identities/${tris_id}/bad-status`, { level: 3, reason_code: 'fraud' });
  await post(`/v1/identities/${tris_id}/verifications`, { status: 'zk-KYH', evidence_hash: 'a'.repeat(64) });
  await dispute({ bad_status: true });
  await dispute({ verification: 'zk-KYH' });
  const { action_id } = await disputed();
  later += DAYS * DAY_MS;
  await sweep();
  await reaches(action_id, 'withdrawn');
  const { disputes } = await get('/v1/disputes');
  expect(disputes.map(({ about, status }: any) => [about, status])).toEqual([
    ['bad_status', 'open'],
    ['verification', 'open'],
    ['action', 'lapsed'],
  ]);
  expect(await get('/v1/me')).toMatchObject({
    bad_status: { level: 3 },
    verification: [{ status: 'zk-KYH' }],
    disputes: [{ about: 'bad_status' }, { about: 'verification' }],
  });
});

test('more disputes lapse at once than are read at a time', async () => {
  const actions: string[] = [];
  for (let n = 0; n < 6; n++) {
    person = await claim(service, newAccount());
    const ids = Array.from({ length: 19 }, () => disputed());
    for (const { action_id } of await Promise.all(ids)) actions.push(action_id);
  }
  later += DAYS * DAY_MS;
  await sweep();
  const { json } = await service.get('/v1/disputes?open=true', { ...as('operator'), ...(await seen(service)) });
  expect(json.disputes.filter(({ about }: any) => about === 'action')).toEqual([]);
  for (const id of actions) await reaches(id, 'withdrawn');
});

test('what lapsed and whose job was never enqueued is found by the next sweep', async () => {
  const { action_id } = await disputed();
  later += DAYS * DAY_MS;
  const lost = jest.spyOn(service.app.get(DisputeOutcomes), 'enqueue').mockResolvedValue(undefined);
  await sweep();
  lost.mockRestore();
  expect([(await last()).status, (await action(action_id)).state]).toEqual(['lapsed', 'counted']);
  expect((await dispute({ action_id, statement: 'b' })).code).toBe('statement_withdrawn');
  await sweep();
  await reaches(action_id, 'withdrawn');
});

test('webhooks tell whoever made the statement that it lapsed, and that it was answered after that', async () => {
  await post('/v1/webhooks', { url: receiver.url, events: ['dispute.answered'] }, 'lendco');
  const { action_id, dispute_id } = await lapsed();
  await answer(dispute_id, 'rejected');
  await eventually(() => receiver.received.length === 2, 'both messages have arrived');
  expect(receiver.received.map(({ message: { type, data } }) => [type, data.outcome, data.action_id])).toEqual([
    ['dispute.answered', 'lapsed', action_id],
    ['dispute.answered', 'rejected', action_id],
  ]);
});

test('unless the days are set, nothing lapses', async () => {
  const other = await start({});
  try {
    person = await claim(other, newAccount());
    await post('/v1/organizations', { tris_org: 'tris:lendco', platform_ids: ['lendco-app'] }, 'operator', other);
    await disputed('I repaid.', other);
    later += 20 * DAY_MS;
    await sweep(other);
    const { json } = await other.get('/v1/disputes?open=true', { ...bearer(person), ...(await seen(other)) });
    expect(json.disputes).toHaveLength(1);
  } finally {
    await other.close();
  }
});
