import { eventually } from '../contracts/harness.js';
import { plantAction } from '../contracts/sample-events.js';
import { type Service, relay, seen, startService } from './service.fixture.js';

/** Checks are made by read models that are at most so old; reads say how old they are. */

let service: Service;
beforeEach(async () => void (service = await startService({ CREDENCE_MAX_STALENESS_SECONDS: '1' })));
afterEach(() => service.close());

const SUBJECT = 'tris:alice';
const POLICY = 'AP_KNOWN_V1';
const act = () =>
  relay(service, [{ tris_id: SUBJECT, category: 'financial', action_type: 'swap', criticality: 'High' }]);
const check = (headers = {}) =>
  service.post('/v1/policies/ap/check', { policy_id: POLICY, subject_tris: SUBJECT }, headers);
const checkMany = () =>
  service.post('/v1/policies/ap/check/batch', { policy_id: POLICY, subject_tris: [SUBJECT, 'tris:bob'] });
const lagOf = async (path: string) => (await service.get(path)).headers['credence-lag'];
const SCORE = `/v1/disc/score/${SUBJECT}`;

/** A subject that passes, and read models that know it. */
async function begin(): Promise<void> {
  await service.post('/v1/policies/ap', { policy_id: POLICY, rules: { tct_min: 1 } });
  await act();
  await service.get(SCORE, await seen(service));
  expect((await check()).json).toMatchObject({ granted: true });
  expect(await lagOf(SCORE)).toBeUndefined();
}

/** Nothing is decided or recorded, and reads go on. */
async function expectStale(): Promise<void> {
  await eventually(async () => (await check()).status === 503, 'a refusal');
  const head = await service.stores.eventStore.head();
  for (const refused of [await check(), await checkMany()]) {
    expect([refused.status, refused.headers['retry-after'], refused.json]).toEqual([
      503,
      '1',
      expect.objectContaining({
        code: 'projection_behind',
        detail: expect.stringMatching(/^The read models have been behind the log for [1-9]\d* s, which is longer than/),
      }),
    ]);
    expect(refused.headers['credence-lag']).toBeUndefined();
  }
  expect(await service.stores.eventStore.head()).toBe(head);

  await eventually(async () => (await lagOf(SCORE)) !== undefined, 'a lag');
  const score = await service.get(SCORE);
  expect([score.status, score.headers['credence-lag']]).toEqual([200, expect.stringMatching(/^[1-9]\d*$/)]);
  const known = await service.get(SCORE, { 'if-none-match': String(score.headers['etag']) });
  expect([known.status, known.headers['credence-lag']]).toEqual([304, expect.stringMatching(/^[1-9]\d*$/)]);
  expect(await lagOf('/health/live')).toBeUndefined();
}

test('while nothing is applied, checks are refused after the bound and reads go on with their lag', async () => {
  await begin();
  const before = await seen(service);
  const release = await service.holdReadModels();
  const began = performance.now();
  await act();
  // For as long as it is allowed.
  expect((await check()).json).toMatchObject({ granted: true });
  await expectStale();
  expect(performance.now() - began).toBeGreaterThan(1_000);
  // The caller says itself how old is too old.
  expect((await check(before)).json).toMatchObject({ granted: true });

  await release();
  await eventually(async () => (await check()).status === 200, 'a decision');
  expect((await checkMany()).json.results[0]).toMatchObject({ status: 200, data: { granted: true } });
  await eventually(async () => (await lagOf(SCORE)) === undefined, 'no lag');
});

test('a projector that halts at an event of a newer build is behind as well', async () => {
  await begin();
  await plantAction(service.stores.eventStore, {}, 99);
  await expectStale();
});
