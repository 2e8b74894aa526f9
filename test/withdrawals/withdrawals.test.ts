import { randomUUID } from 'node:crypto';
import { SCOPES } from '../../src/credentials/caller.js';
import { plantAction } from '../contracts/sample-events.js';
import { type Service, as, policyBody, seen, startServiceWithKeys } from '../policies/service.fixture.js';

/** Withdrawals and reinstatements over HTTP: who may, what they change, and what they leave as it was. */

const KEYS = [
  { id: 'operator', scopes: SCOPES },
  { id: 'only-ops', scopes: ['ops'] },
  { id: 'relayer', scopes: ['relay:write'] },
  { id: 'relayer-2', scopes: ['relay:write'] },
  { id: 'auditor', scopes: ['audit:read'] },
  { id: 'lendco', scopes: SCOPES, organization: 'tris:lendco' },
  { id: 'lendco-reads', scopes: ['reads'], organization: 'tris:lendco' },
  { id: 'other', scopes: SCOPES, organization: 'tris:other' },
];

let service: Service;
beforeAll(async () => {
  service = await startServiceWithKeys(KEYS);
  for (const name of ['lendco', 'other']) {
    const body = { tris_org: `tris:${name}`, platform_ids: [`${name}-app`] };
    expect((await service.post('/v1/organizations', body, as('operator'))).status).toBe(201);
  }
});
afterAll(() => service.close());

interface Relayed {
  action_id: string;
  tris_id: string;
  position: string;
}
let serial = 0;
async function relay(more: object = {}, key = 'lendco', headers: object = {}): Promise<Relayed> {
  const body = {
    tris_id: `tris:person-${++serial}`,
    action_type: 'loan_repayment',
    category: 'finance',
    criticality: 'critical',
    platform_id: 'lendco-app',
    ...more,
  };
  const answer = await service.post('/api/decision-relay', body, { ...as(key), ...headers });
  if (answer.status !== 202) throw new Error(answer.text);
  const position = answer.headers['credence-position'] as string;
  return { action_id: answer.json.action_id, tris_id: body.tris_id, position };
}
const post = (what: string, id: string, more: object = {}, key = 'lendco', headers: object = {}) =>
  service.post(`/v1/actions/${id}/${what}`, { reason: 'mistake', ...more }, { ...as(key), ...headers });
const withdraw = (id: string, more?: object, key?: string, headers?: object) =>
  post('withdraw', id, more, key, headers);
const reinstate = (id: string, more?: object, key?: string, headers?: object) =>
  post('reinstate', id, more, key, headers);
const show = (id: string, key = 'lendco') => service.get(`/v1/actions/${id}`, as(key));
const scoreOf = async (tris_id: string, query = '', key = 'operator') =>
  (await service.get(`/v1/disc/score/${tris_id}${query}`, { ...as(key), ...(await seen(service)) })).json;
const outcome = ({ status, json }: { status: number; json: any }) => [status, json?.code];
const head = () => service.stores.eventStore.head();

test('the id of an action in capital letters is refused, and not unknown', async () => {
  const { action_id } = await relay();
  const id = action_id.toUpperCase();
  const dryRun = { action_id: id, reason: 'mistake', dry_run: true };
  for (const refused of [
    await show(id),
    await withdraw(id),
    await reinstate(id),
    await service.post('/v1/actions/withdrawals', dryRun, as('lendco')),
    await service.get(`/v1/audit/inclusion?event_id=${id}`),
  ]) {
    expect([refused.status, refused.json.errors]).toMatchObject([400, [{ code: 'is_uuid' }]]);
    expect(refused.json.detail).toContain('must be a UUID in lower case');
  }
});

test('a withdrawn action counts nowhere, until it is reinstated; what was known before stays as it was', async () => {
  const good = await relay();
  const flag = await relay({ tris_id: good.tris_id, action_type: 'default_flags' });
  const before = await scoreOf(good.tris_id);
  expect(before.total_tct).toBe(0);
  const withdrawn = await withdraw(flag.action_id);
  const position = withdrawn.headers['credence-position'];
  expect([withdrawn.status, withdrawn.json]).toEqual([
    200,
    { action_id: flag.action_id, state: 'withdrawn', position },
  ]);
  expect(await scoreOf(good.tris_id)).toMatchObject({ total_tct: 140, forfeited_tct: 0 });
  const then = await scoreOf(good.tris_id, `?as_of_position=${before.position}`);
  expect(then).toEqual({ ...before, as_of: then.as_of });
  expect(outcome(await withdraw(good.action_id))).toEqual([200, undefined]);
  const list = await service.get(`/api/tris-validations/${good.tris_id}`, await seen(service));
  expect(list.json.validations).toEqual([]);
  // Its only actions are withdrawn, and it is known.
  expect(await scoreOf(good.tris_id)).toMatchObject({ total_tct: 0, earned_tct: 0 });
  expect((await reinstate(good.action_id)).json.state).toBe('counted');
  expect(await scoreOf(good.tris_id)).toMatchObject({ total_tct: 140 });
  expect((await service.get(`/api/tris-validations/${good.tris_id}`, await seen(service))).json.validations).toEqual([
    expect.objectContaining({ from: 'tris:lendco', amount: 140 }),
  ]);
});

test('asked again, the first answer is given again; a relay that is tried again gets its own', async () => {
  const more = { external_id: 'again-1', tris_id: 'tris:again' };
  const { action_id, position } = await relay(more, 'lendco', { 'idempotency-key': 'relay-1' });
  const first = await withdraw(action_id, {}, 'lendco', { 'idempotency-key': 'withdraw-1' });
  const recorded = await head();
  for (const again of [
    await withdraw(action_id, { reason: 'duplicate' }),
    await withdraw(action_id, {}, 'only-ops'),
    await withdraw(action_id, {}, 'lendco', { 'idempotency-key': 'withdraw-1' }),
  ]) {
    expect([again.status, again.json]).toEqual([200, first.json]);
  }
  expect(await relay(more, 'lendco', { 'idempotency-key': 'relay-1' })).toMatchObject({ action_id, position });
  expect(await relay(more)).toMatchObject({ action_id, position });
  expect(await head()).toBe(recorded);
  const other = await withdraw(action_id, { reason: 'reversed' }, 'lendco', { 'idempotency-key': 'withdraw-1' });
  expect(outcome(other)).toEqual([422, 'idempotency_key_reused']);
});

test('of many at once, the log has one after the other, each of which changes the state', async () => {
  const { action_id, tris_id } = await relay();
  await withdraw(action_id);
  const all = Array.from({ length: 20 }, (_, n) => (n % 2 ? withdraw(action_id) : reinstate(action_id)));
  for (const { status } of await Promise.all(all)) expect(status).toBe(200);
  const { state, changes } = (await show(action_id)).json;
  const states = (changes as { state: string }[]).map((change) => change.state);
  expect(states).toEqual(states.map((_, n) => (n % 2 ? 'counted' : 'withdrawn')));
  expect(state).toBe(states.at(-1));
  expect((await scoreOf(tris_id)).total_tct).toBe(state === 'counted' ? 140 : 0);
});

test('an action that never was withdrawn is not reinstated', async () => {
  const { action_id } = await relay();
  const recorded = await head();
  expect(outcome(await reinstate(action_id))).toEqual([409, 'action_not_withdrawn']);
  expect(outcome(await reinstate(action_id, { dry_run: true }))).toEqual([409, 'action_not_withdrawn']);
  expect(await head()).toBe(recorded);
});

test('the action of a record is withdrawn without the record', async () => {
  const record = {
    tris_id: 'tris:maker',
    record_type: 'milestone',
    metric: 'creative_code_contribution',
    criticality: 'high',
    title: 'Release 1',
    content_hash: 'a'.repeat(64),
    occurred_at: '2026-01-01T00:00:00Z',
  };
  const { record_id } = (await service.post('/v1/trove/submit', record, as('operator'))).json;
  const review = { decision: 'approve', platform_id: 'lendco-app' };
  expect((await service.post(`/v1/trove/${record_id}/review`, review, as('lendco'))).status).toBe(200);
  const { decision } = (await service.get(`/v1/trove/${record_id}`, as('lendco'))).json;
  expect(outcome(await withdraw(decision.action_id, {}, 'other'))).toEqual([403, 'forbidden']);
  expect((await withdraw(decision.action_id)).status).toBe(200);
  expect(await scoreOf('tris:maker')).toMatchObject({ earned_tct: 0 });
  expect((await service.get(`/v1/trove/${record_id}`, as('lendco'))).json).toMatchObject({
    status: 'Approved',
    decision,
  });
  expect((await service.get('/v1/trove?tris_id=tris:maker', as('lendco'))).json.records).toHaveLength(1);
});

describe('who may', () => {
  test('change it: keys of the organization that owns the platform, and operators', async () => {
    const { action_id } = await relay();
    const recorded = await head();
    for (const key of ['other', 'relayer', 'auditor', 'lendco-reads']) {
      for (const dry_run of [false, true]) {
        expect([key, ...outcome(await withdraw(action_id, { dry_run }, key))]).toEqual([key, 403, 'forbidden']);
      }
    }
    expect(await head()).toBe(recorded);
    expect((await withdraw(action_id, {}, 'lendco')).status).toBe(200);
    expect((await reinstate(action_id, {}, 'only-ops')).status).toBe(200);
  });

  test('change it, if nobody owns the platform: the key that relayed it, and operators', async () => {
    const { action_id } = await relay({ platform_id: 'nobodys' }, 'relayer');
    expect(outcome(await withdraw(action_id, {}, 'relayer-2'))).toEqual([403, 'forbidden']);
    expect(outcome(await withdraw(action_id, {}, 'lendco'))).toEqual([403, 'forbidden']);
    expect((await withdraw(action_id, {}, 'relayer')).status).toBe(200);
    expect((await reinstate(action_id, {}, 'only-ops')).status).toBe(200);
  });

  test('not an organization about itself', async () => {
    const { action_id } = await relay({ tris_id: 'tris:lendco', action_type: 'default_flags' }, 'operator');
    expect(outcome(await withdraw(action_id))).toEqual([403, 'self_statement']);
    expect(outcome(await withdraw(action_id, { dry_run: true }))).toEqual([403, 'self_statement']);
    expect((await withdraw(action_id, {}, 'only-ops')).status).toBe(200);
    expect(outcome(await reinstate(action_id))).toEqual([403, 'self_statement']);
  });

  test('see it', async () => {
    const { action_id } = await relay();
    const answers = await Promise.all(
      ['lendco', 'lendco-reads', 'only-ops', 'auditor', 'other', 'relayer'].map((key) => show(action_id, key)),
    );
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200, 403, 403]);
    const free = await relay({ platform_id: 'nobodys' }, 'relayer');
    const seenBy = await Promise.all(['relayer', 'relayer-2'].map((key) => show(free.action_id, key)));
    expect(seenBy.map(({ status }) => status)).toEqual([200, 403]);
  });
});

test('an action shows its organization, its state and its changes', async () => {
  const occurred_at = '2026-01-31T12:00:00.000Z';
  const { action_id, tris_id, position } = await relay({ occurred_at, counterparty: 'tris:bob' });
  const first = await withdraw(action_id, { reason: 'disputed' });
  const second = await reinstate(action_id, {}, 'only-ops');
  const { recorded_at, changes, ...action } = (await show(action_id)).json;
  expect(action).toEqual({
    action_id,
    tris_id,
    metric: 'financial_loan_repayment',
    criticality: 'Critical',
    platform_id: 'lendco-app',
    organization: 'tris:lendco',
    source: 'unvouched',
    counterparty: 'tris:bob',
    occurred_at,
    position: expect.stringMatching(/^[^.]+\.\d+$/),
    state: 'counted',
  });
  // That of the relay is the last of its append.
  expect(action.position).not.toBe(position);
  expect(changes).toEqual([
    {
      state: 'withdrawn',
      at: expect.any(String),
      by: 'key:lendco',
      reason: 'disputed',
      position: first.json.position,
    },
    { state: 'counted', at: expect.any(String), by: 'key:only-ops', reason: 'mistake', position: second.json.position },
  ]);
  for (const { at } of changes) expect(Date.parse(at)).toBeGreaterThanOrEqual(Date.parse(recorded_at));
});

describe('what is asked for', () => {
  test.each<[string, object, string]>([
    ['no reason', { reason: undefined }, '/reason'],
    ['a reason that is none', { reason: 'just so' }, '/reason'],
    ['a dry run that is none', { dry_run: 'yes' }, '/dry_run'],
    ['a field that is unknown', { note: 'sorry' }, '/note'],
  ])('is refused with %s', async (_what, body, pointer) => {
    const answer = await withdraw(randomUUID(), body);
    expect([answer.status, answer.json.errors[0].pointer]).toEqual([400, pointer]);
  });

  test('is refused if it is no action', async () => {
    expect(outcome(await withdraw('17'))).toEqual([400, 'validation_failed']);
    expect(outcome(await show('17'))).toEqual([400, 'validation_failed']);
    const [, credonation] = await service.stores.eventStore.readStream(await streamOf((await relay()).action_id));
    for (const id of [randomUUID(), credonation!.id]) {
      for (const answer of [withdraw(id), reinstate(id), withdraw(id, { dry_run: true }), show(id, 'only-ops')]) {
        expect(outcome(await answer)).toEqual([404, 'not_found']);
      }
    }
  });

  test('is refused if it is a dead letter', async () => {
    const id = await plantAction(service.stores.eventStore, { tris_id: 'tris:damaged' });
    expect(outcome(await withdraw(id, {}, 'only-ops'))).toEqual([404, 'not_found']);
  });

  test('is found before it is applied only by who waits for it', async () => {
    const resume = await service.holdReadModels();
    const { action_id, position } = await relay();
    const wait = { 'credence-min-position': position };
    expect(outcome(await withdraw(action_id))).toEqual([404, 'not_found']);
    expect(outcome(await withdraw(action_id, {}, 'lendco', wait))).toEqual([503, 'projection_behind']);
    const waiting = withdraw(action_id, {}, 'lendco', wait);
    await resume();
    expect((await waiting).status).toBe(200);
  });
});

describe('a dry run', () => {
  beforeAll(async () => {
    const policy = policyBody('VP_WITHDRAWALS_V1', { financial_loan_repayment: 'Low' }, 'tris:other');
    expect((await service.post('/v1/policies/vp', policy, as('other'))).status).toBe(201);
    const scope = { scope: 'organization' };
    const promoted = await service.post('/v1/policies/vp/VP_WITHDRAWALS_V1/promote', scope, as('other'));
    if (promoted.status !== 200) throw new Error(promoted.text);
  });

  test.each<[string, string, number]>([
    ['a small identity', 'lendco', 3],
    ['a large one', 'lendco', 90],
    ['a small one by the lens of an organization', 'other', 3],
    ['a large one by the lens of an organization', 'other', 90],
  ])('says what the score of %s becomes, and records nothing', async (_what, key, actions) => {
    const tris_id = `tris:dry-${key}-${actions}`;
    const at = (n: number) => ({ occurred_at: new Date(Date.now() - (n % 40) * 86_400_000).toISOString() });
    const own = { tris_id, platform_id: `${key}-app` };
    const given = [await relay({ ...own, ...at(3) }, key)];
    given.push(await relay({ ...own, action_type: 'default_flags', ...at(1) }, key));
    for (let n = 0; n < actions; n++) await relay({ ...own, action_type: `loan_${n % 3}`, ...at(n) }, key);
    given.push(await relay({ ...own, action_type: 'only_once', ...at(2) }, key));
    const present = async () => {
      const { position: _, ...score } = await scoreOf(tris_id, '', key);
      return score;
    };
    const preview = async (change: typeof withdraw, id: string) => {
      const recorded = await head();
      const { json, headers } = await change(id, { dry_run: true }, key, await seen(service));
      expect([await head(), headers['credence-position'], json.position]).toEqual([recorded, undefined, undefined]);
      return json;
    };
    for (const { action_id: id } of given) {
      for (const change of [withdraw, reinstate]) {
        const state = change === withdraw ? 'withdrawn' : 'counted';
        const said = await preview(change, id);
        expect(said).toMatchObject({ action_id: id, state, before: await present() });
        expect((await change(id, {}, key)).status).toBe(200);
        expect(said.after).toMatchObject(await present());
        if (key === 'lendco' || id === given[0]!.action_id) expect(said.after).not.toEqual(said.before);
        const again = await preview(change, id);
        expect(again.after).toEqual(again.before);
      }
    }
  });
});

async function streamOf(actionId: string): Promise<string> {
  for await (const slice of service.stores.eventStore.readAll(0)) {
    for (const { id, stream } of slice) if (id === actionId) return stream;
  }
  throw new Error(`no event ${actionId}`);
}
