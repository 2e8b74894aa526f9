import { type Fact, fact } from '../../src/kernel/event-definition.js';
import { lensActivated } from '../../src/features/lenses/domain/lenses.events.js';
import { MODEL_LENS } from '../../src/scoring/lens.js';
import { plantEvent } from '../contracts/sample-events.js';
import { type Service, seen, startService } from './service.fixture.js';

/** What is promoted for the platform is a platform configuration: its inputs add up to 0.95 to 1.05. */

const LEVELS = new Map([
  [1, 'Minimal'],
  [3, 'Low'],
  [7, 'Moderate'],
  [10, 'High'],
  [14, 'Critical'],
]);

let service: Service;
beforeAll(async () => {
  service = await startService();
});
afterAll(() => service.close());

async function create(policy_id: string, hundredths: number[]) {
  const inputs = hundredths.map((weight, i) => ({
    metric: `social_part_${i}`,
    criticality: LEVELS.get(weight)!,
    weight: weight / 100,
  }));
  const metadata = { total_weight: 1, visibility: 'public', version: 'v1.0' };
  const created = await service.post('/v1/policies/vp', { policy_id, tris_org: 'tris:lender', inputs, metadata });
  expect(created.status).toBe(201);
  return created.json;
}
const promote = (id: string, scope = 'platform') => service.post(`/v1/policies/vp/${id}/promote`, { scope });
const rollBack = (id: string, scope = 'platform') => service.post(`/v1/policies/vp/${id}/rollback`, { scope });
const times = (count: number, weight: number) => Array<number>(count).fill(weight);

test.each<[string, number[], number]>([
  ['one input of 0.01', [1], 0.01],
  ['0.94', [...times(6, 14), 10], 0.94],
])('%s can be created, but not promoted for the platform', async (_what, hundredths, total) => {
  const id = `VP_LOW_${hundredths.length}_V1`;
  expect((await create(id, hundredths)).computed_weight).toBe(total);
  const head = await service.stores.eventStore.head();
  const { status, json } = await promote(id);
  expect([status, json.code, json.errors[0].pointer]).toEqual([422, 'total_weight_out_of_range', 'policy_id']);
  expect(json.detail).toContain(`add up to ${total}, not 0.95 to 1.05`);
  expect(await service.stores.eventStore.head()).toBe(head);
});

test.each<[string, number[], number]>([
  ['exactly 0.95', [...times(6, 14), 10, 1], 0.95],
  // As floating-point numbers these add up to 0.9999999999999999.
  ['ten times 0.1', times(10, 10), 1],
  ['a hundred times 0.01', times(100, 1), 1],
  ['exactly 1.05', times(15, 7), 1.05],
])('%s is promoted for the platform', async (_what, hundredths, total) => {
  const id = `VP_FULL_${hundredths.length}_V1`;
  expect((await create(id, hundredths)).computed_weight).toBe(total);
  expect((await promote(id)).json).toMatchObject({ active: { policy_id: id } });
  expect((await rollBack(id)).json).toMatchObject({ active: { policy_id: null } });
});

test('an organization promotes for itself whatever it created', async () => {
  await create('VP_OWN_V1', [3]);
  expect((await promote('VP_OWN_V1', 'organization')).status).toBe(200);
  expect((await rollBack('VP_OWN_V1', 'organization')).status).toBe(200);
});

test('a policy that was promoted before this rule stays active, and a rollback returns to it', async () => {
  const { content_hash } = await create('VP_BEFORE_V1', [3]);
  await create('VP_AFTER_V1', times(10, 10));
  const previous = { policy_id: null, content_hash: MODEL_LENS.content_hash };
  const active = { policy_id: 'VP_BEFORE_V1', content_hash };
  const { type, data }: Fact = fact(lensActivated, {
    scope: 'platform',
    tris_org: null,
    reason: 'promoted',
    ...active,
    replay_id: null,
    previous,
  });
  await plantEvent(service.stores.eventStore, 'lens-platform', type, data);
  await service.get('/v1/policies/vp', await seen(service));
  expect((await promote('VP_BEFORE_V1')).json).toMatchObject({ active });
  expect((await promote('VP_AFTER_V1')).json).toMatchObject({ active: { policy_id: 'VP_AFTER_V1' }, previous: active });
  expect((await rollBack('VP_AFTER_V1')).json).toMatchObject({ active });
  expect((await rollBack('VP_BEFORE_V1')).json).toMatchObject({ active: previous });
});

test('a policy shows metrics by the names it was created with', async () => {
  const names = ['finance_loan_repayment', 'governance_vote_participations', 'social_vouch'];
  const policy = {
    policy_id: 'VP_NAMES_V1',
    tris_org: 'tris:lender',
    inputs: names.map((metric) => ({ metric, criticality: 'low', weight: 0.03 })),
    metadata: { total_weight: 1, visibility: 'public', version: 'v1.0' },
  };
  const created = await service.post('/v1/policies/vp', policy);
  expect(created.json.warnings[0].message).toMatch(/^governance_vote_participations is not a documented metric/);
  const shown = (await service.get('/v1/policies/vp/VP_NAMES_V1')).json;
  expect(shown.inputs).toEqual(names.map((metric) => ({ metric, criticality: 'Low', weight: 0.03 })));
  // The names are not part of the content: an alias names the same metric.
  const spelled = policy.inputs.map((input) => ({ ...input, metric: input.metric.replace('finance_', 'financial_') }));
  const again = await service.post('/v1/policies/vp', { ...policy, inputs: spelled });
  expect([again.status, again.json.content_hash]).toEqual([200, created.json.content_hash]);
  expect((await service.get('/v1/policies/vp/VP_NAMES_V1')).json.inputs).toEqual(shown.inputs);
});

test('a policy of before, whose log has canonical names only, shows those', async () => {
  const inputs = [{ metric: 'financial_loan_repayment', criticality: 'Low', weight: 0.03 }];
  const metadata = { total_weight: 1, visibility: 'public', version: 'v1.0' };
  const data = { policy_id: 'VP_EARLIER_V1', tris_org: 'tris:lender', inputs, metadata, content_hash: 'a'.repeat(64) };
  await plantEvent(service.stores.eventStore, 'vp-VP_EARLIER_V1', 'ValidationPolicyCreated', data);
  expect((await service.get('/v1/policies/vp/VP_EARLIER_V1')).json).toMatchObject({ inputs });
});
