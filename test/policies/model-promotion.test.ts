import { audit } from '../../src/features/access/audit.js';
import { becomes } from '../contracts/harness.js';
import { type Service, applied, policyBody, relay, seen, startService } from './service.fixture.js';

/** Which version of the model serves the platform: previewed on everyone, promoted, rolled back. */

let service: Service;
const people = Array.from({ length: 20 }, (_, i) => `tris:p${String(i).padStart(2, '0')}`);
const BUSY = people.at(-1)!;

const model = (path: string, body?: object) => service.post(`/v1/models/${path}`, body ?? {});
const score = async (id: string, query = '') =>
  (await service.get(`/v1/disc/score/${id}${query}`, await seen(service))).json;
const active = async () => {
  const { json } = await service.get('/v1/models');
  return json.models.filter((each: { active: boolean }) => each.active).map(({ id }: { id: string }) => id);
};

const finished = (replayId: string) =>
  becomes(
    async () => (await service.get(`/v1/replays/${replayId}`, { 'x-api-key': service.key })).json,
    ({ status }) => !['queued', 'running'].includes(status),
  );

beforeAll(async () => {
  service = await startService();
  // Many actions of one day: disc-2 counts at most 140 TCT of them.
  await relay(
    service,
    people.flatMap((tris_id, i) =>
      Array.from({ length: i + 1 }, () => ({
        tris_id,
        category: 'social',
        action_type: 'vouch',
        criticality: 'critical',
      })),
    ),
  );
  await applied(service);
});
afterAll(() => service.close());

test('a log that has activated none uses disc-1', async () => {
  expect(await active()).toEqual(['disc-1']);
  expect((await score(BUSY)).model.id).toBe('disc-1');
});

test('a replay compares both versions on everyone; the promotion names it, switches every answer, and is rolled back', async () => {
  const before = await score(BUSY);
  const byDisc2 = await score(BUSY, '?model=disc-2');
  const feed = (await service.get('/v1/disc/changes?limit=1000', { 'x-api-key': service.key })).json;
  // With the identities of other tests.
  const everyone = feed.changes.map(({ tris_id }: { tris_id: string }) => tris_id);
  expect(everyone).toEqual(expect.arrayContaining(people));
  const started = await model('disc-2/replay');
  expect([started.status, started.json.promotes.id, started.json.policy_id]).toEqual([202, 'disc-2', null]);
  const { replay_id, result } = await finished(started.json.replay_id);
  expect(result).toMatchObject({ count: everyone.length, up: 0, before: { model: { id: 'disc-1' } } });
  expect(result.after.model).toEqual(byDisc2.model);
  const [mover] = result.top_movers.down;
  expect(mover).toMatchObject({
    tris_id: BUSY,
    before: { score: before.score, total_tct: 140 * people.length },
    after: { score: byDisc2.score, total_tct: 140 },
    reasons: [{ metric: 'social_vouch', before_tct: 140 * people.length, after_tct: 140 }],
  });

  const promoted = await model('disc-2/promote', { replay_id });
  expect(promoted).toMatchObject({
    status: 200,
    json: { replay_id, active: { id: 'disc-2' }, previous: { id: 'disc-1' } },
  });
  expect(promoted.headers['credence-position']).toBe(promoted.json.position);
  expect(await active()).toEqual(['disc-2']);
  const { position: _old, as_of: _then, ...expected } = byDisc2;
  expect(await score(BUSY)).toMatchObject(expected);
  expect((await service.get(`/api/disc-score/${BUSY}`)).json.total_tct).toBe(140);
  const { position: _p, as_of: _t, ...still } = before;
  expect(await score(BUSY, '?model=disc-1')).toMatchObject(still);
  const reset = (
    await service.get(`/v1/disc/changes?limit=1000&cursor=${feed.next_cursor}`, { 'x-api-key': service.key })
  ).json;
  expect([reset.reset, reset.changes.length]).toEqual([true, everyone.length]);
  expect((await model('disc-2/promote')).json).toMatchObject({ active: { id: 'disc-2' } });

  expect((await model('disc-1/rollback')).json.code).toBe('model_not_active');
  expect((await model('disc-2/rollback')).json).toMatchObject({ active: { id: 'disc-1' }, previous: { id: 'disc-2' } });
  expect(await score(BUSY)).toMatchObject(still);
  for (const id of ['disc-2', 'disc-1']) {
    expect((await model(`${id}/rollback`)).json.code).toBe('model_not_active');
  }
});

test('a replay of a policy is no basis for a model, nor that of a model for a policy or another model', async () => {
  const policy = policyBody('VP_BASIS_V1', { social_vouch: 'High' });
  expect((await service.post('/v1/policies/vp', policy)).status).toBe(201);
  const ofPolicy = (await service.post('/v1/policies/vp/VP_BASIS_V1/replay', {})).json.replay_id;
  const ofModel = (await model('disc-2/replay')).json.replay_id;
  await Promise.all([finished(ofPolicy), finished(ofModel)]);
  expect((await model('disc-2/promote', { replay_id: ofPolicy })).json.code).toBe('replay_not_usable');
  expect((await model('disc-1/promote', { replay_id: ofModel })).json.code).toBe('replay_not_usable');
});

test('of a promotion of a model and of a lens at once one conflicts', async () => {
  const policy = policyBody(
    'VP_RACE_V1',
    Object.fromEntries(Array.from({ length: 7 }, (_, i) => [`social_a${i}`, 'Critical'])),
  );
  await service.post('/v1/policies/vp', policy);
  const answers = await Promise.all([
    model('disc-2/promote'),
    service.post('/v1/policies/vp/VP_RACE_V1/promote', { scope: 'platform' }),
  ]);
  expect(answers.map(({ status }) => status).sort()).toEqual([200, 409]);
  expect(answers.find(({ status }) => status === 409)!.json.code).toBe('promotion_conflict');
  if ((await active())[0] === 'disc-2') await model('disc-2/rollback');
  else await service.post('/v1/policies/vp/VP_RACE_V1/rollback', { scope: 'platform' });
});

test('decisions are derived again by the version that made them', async () => {
  const ap = { policy_id: 'AP_MODEL_V1', rules: { disc_min: 10 } };
  expect((await service.post('/v1/policies/ap', ap)).status).toBe(201);
  const check = async () =>
    (await service.post('/v1/policies/ap/check', { policy_id: 'AP_MODEL_V1', subject_tris: BUSY }, await seen(service)))
      .json;
  const first = await check();
  await model('disc-2/promote');
  const second = await check();
  expect([first.granted, second.granted]).toEqual([true, false]);
  await model('disc-2/rollback');
  const differences: string[] = [];
  let decisions = 0;
  for await (const audited of audit(service.stores.eventStore, BUSY)) {
    decisions++;
    differences.push(...audited.differences);
  }
  expect([decisions, differences]).toEqual([2, []]);
});

test('a decision about an unknown subject records the active version, and names what it measures as missing', async () => {
  const ap = { policy_id: 'AP_UNKNOWN_V1', rules: { evidence_min: 2 } };
  expect((await service.post('/v1/policies/ap', ap)).status).toBe(201);
  const subject_tris = 'tris:stranger';
  const check = async () =>
    (await service.post('/v1/policies/ap/check', { policy_id: 'AP_UNKNOWN_V1', subject_tris })).json.how_to_pass;
  expect(await check()).toEqual([]);
  await model('disc-2/promote');
  expect(await check()).toEqual([{ fact: 'evidence', required: 2, actual: 0, pointers: ['/evidence_min'] }]);
  await model('disc-2/rollback');
  const versions: unknown[] = [];
  for await (const slice of service.stores.eventStore.readAll(0)) {
    const decisions = slice.filter(({ data }) => data['subject_tris'] === subject_tris);
    versions.push(...decisions.map(({ data }) => data['model_id']));
  }
  expect(versions).toEqual(['disc-1', 'disc-2']);
  for await (const { differences } of audit(service.stores.eventStore, subject_tris)) expect(differences).toEqual([]);
});

test.each(['disc-1', 'disc-2'])(
  'by %s an action before 1970 counts on its day, and no time lies after 9999',
  async (id) => {
    const tris_id = `tris:early-${id}`;
    const early = { tris_id, category: 'social', action_type: 'vouch', criticality: 'critical' };
    await relay(service, [{ ...early, occurred_at: '1951-03-01T12:00:00Z' } as typeof early, early]);
    const at = (as_of: string) => score(tris_id, `?model=${id}&as_of=${as_of}`);
    expect(await at('1951-03-01T12:00:00Z')).toMatchObject({
      total_tct: 140,
      reliability: id === 'disc-1' ? 0.9744 : 0.9375,
    });
    expect(await at('1951-03-01T11:59:59Z')).toMatchObject({ code: 'identity_not_found' });
    expect((await score(tris_id, `?model=${id}`)).total_tct).toBe(280);
    expect(await at('9999-12-31T23:59:59Z')).toMatchObject({ code: 'validation_failed' });
    expect(await at('%2B010000-01-01T00:00:00Z')).toMatchObject({ code: 'validation_failed' });
  },
);

test('an unknown version is refused with those there are', async () => {
  const unknown = await model('disc-9/promote');
  expect([unknown.status, unknown.json.code]).toEqual([400, 'validation_failed']);
  expect(unknown.json.detail).toMatch(/disc-1, disc-2/);
});

test('under disc-2 reliability_min needs evidence and no flags that lead to the BAD band', async () => {
  const fraud = 'tris:fraud';
  const year = 365 * 86_400_000;
  const at = (daysAgo: number) => new Date(Date.now() - daysAgo * 86_400_000).toISOString();
  const act = (tris_id: string, action_type: string, occurred_at: string) => ({
    tris_id,
    category: 'compliance',
    action_type,
    criticality: 'critical',
    occurred_at,
  });
  await relay(service, [
    act(fraud, 'fraud_flags', new Date(Date.now() - 2 * year).toISOString()),
    act('tris:thin', 'kyc_verified', at(200)),
    ...[0, 1, 2].map((day) => act('tris:sure', 'kyc_verified', at(day))),
  ]);
  for (const [id, rules] of [
    ['AP_RELIABLE_V1', { reliability_min: 0.9 }],
    ['AP_EVIDENCE_V1', { evidence_min: 2.5 }],
  ] as const) {
    expect((await service.post('/v1/policies/ap', { policy_id: id, rules })).status).toBe(201);
  }
  const check = async (subject_tris: string, policy_id = 'AP_RELIABLE_V1') =>
    (await service.post('/v1/policies/ap/check', { policy_id, subject_tris }, await seen(service))).json;
  expect((await check(fraud)).granted).toBe(true);
  expect((await check('tris:sure', 'AP_EVIDENCE_V1')).reasons[0]).toMatchObject({ outcome: 'unknown', actual: null });
  await model('disc-2/promote');
  expect((await check(fraud)).reasons).toMatchObject([{ rule: 'reliability_min', outcome: 'failed' }]);
  expect((await check('tris:thin')).reasons).toMatchObject([
    { rule: 'reliability_min', outcome: 'unknown', actual: null },
  ]);
  expect((await check('tris:sure')).granted).toBe(true);
  expect((await check('tris:sure', 'AP_EVIDENCE_V1')).granted).toBe(true);
  const { reasons, how_to_pass } = await check('tris:thin', 'AP_EVIDENCE_V1');
  expect(reasons).toMatchObject([{ rule: 'evidence_min', outcome: 'failed' }]);
  expect(how_to_pass).toMatchObject([{ fact: 'evidence', required: 2.5 }]);
  expect((await check(fraud)).how_to_pass.map(({ fact }: { fact: string }) => fact)).toEqual([
    'net_tct',
    'reliability',
  ]);
  await model('disc-2/rollback');
  for (const subject of [fraud, 'tris:thin', 'tris:sure']) {
    for await (const { differences } of audit(service.stores.eventStore, subject)) expect(differences).toEqual([]);
  }
});
