import { SCOPES } from '../../src/credentials/caller.js';
import { type Service, as, startServiceWithKeys } from '../policies/service.fixture.js';

/** Replays and previews fold everybody, so one organization may keep neither the queue nor the turns for itself. */

const KEYS = [
  { id: 'operator', scopes: SCOPES },
  ...['a', 'b'].map((id) => ({ id: `lendco-${id}`, scopes: ['policies:write'], organization: 'tris:lendco' })),
  { id: 'shop', scopes: ['policies:write'], organization: 'tris:shop' },
];
const VP = '/v1/policies/vp';

let service: Service;
let release: () => void;
beforeEach(async () => {
  service = await startServiceWithKeys(KEYS);
  for (const [key, organization] of [
    ['lendco-a', 'tris:lendco'],
    ['shop', 'tris:shop'],
    ['operator', 'tris:other'],
  ] as const) {
    const inputs = [{ metric: 'finance_loan', criticality: 'Minimal', weight: 0.01 }];
    const metadata = { total_weight: 1, visibility: 'public', version: 'v1.0' };
    const policy = { policy_id: policyOf(key), tris_org: organization, inputs, metadata };
    expect((await service.post(VP, policy, as(key))).status).toBe(201);
  }
  // A pass over the population lasts until the test says so.
  const { readModels } = service.stores;
  const released = new Promise<void>((resolve) => (release = resolve));
  const scan = readModels.scan.bind(readModels);
  readModels.scan = async (...args) => {
    await released;
    return scan(...args);
  };
});
afterEach(async () => {
  release();
  await service.close();
});

const policyOf = (key: string) => `VP_${key.replace(/-.*/, '').toUpperCase()}_MAIN_V1`;
const replay = (key: string, headers = {}) =>
  service.post(`${VP}/${policyOf(key)}/replay`, { scope: 'organization' }, { ...as(key), ...headers });
const evaluate = (key: string) =>
  service.post(`${VP}/evaluate`, { policy_id: policyOf(key), scope: 'organization' }, as(key));

test('of 80 replays that an organization starts at once with two keys, five are accepted', async () => {
  const first = await replay('lendco-a', { 'idempotency-key': 'first' });
  expect(first.status).toBe(202);
  const answers = await Promise.all(Array.from({ length: 80 }, (_, n) => replay(n % 2 ? 'lendco-a' : 'lendco-b')));
  const refused = answers.filter(({ status }) => status !== 202);
  expect(refused).toHaveLength(76);
  expect(
    new Set(refused.map(({ status, json, headers }) => `${status} ${json.code} ${headers['retry-after']}`)),
  ).toEqual(new Set(['429 rate_limited 10']));
  // Its retries and others are not.
  expect((await replay('lendco-a', { 'idempotency-key': 'first' })).json.replay_id).toBe(first.json.replay_id);
  expect((await replay('shop')).status).toBe(202);
  // A cancelled one makes place for the next.
  const cancelled = answers.find(({ status }) => status === 202)!.json.replay_id as string;
  expect((await service.delete(`/v1/replays/${cancelled}`, as('lendco-a'))).status).toBe(200);
  expect((await replay('lendco-b')).status).toBe(202);
  expect((await replay('lendco-b')).status).toBe(429);
});

test('previews of everybody take turns by organization', async () => {
  const running = evaluate('lendco-a');
  const busy = await Promise.all(Array.from({ length: 10 }, () => evaluate('lendco-b')));
  const waiting = evaluate('shop');
  setTimeout(release, 200);
  const answers = await Promise.all([running, waiting]);
  expect(answers.map(({ status }) => status)).toEqual([200, 200]);
  // The first of the organization may be any.
  expect(busy.map(({ json }) => json.code)).toEqual(busy.map(() => 'preview_busy'));
});

test('a preview that waits is refused in its turn once its key is deleted', async () => {
  const running = evaluate('lendco-a');
  const waiting = evaluate('shop');
  setTimeout(() => void service.delete('/v1/ops/keys/shop', as('operator')).then(release), 200);
  expect([(await running).status, (await waiting).status]).toEqual([200, 401]);
});
