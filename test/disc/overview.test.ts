import { SCOPES } from '../../src/credentials/caller.js';
import { Overview } from '../../src/features/disc/overview.js';
import { type Service, applied, as, relay, startServiceWithKeys } from '../policies/service.fixture.js';

/** The numbers of the console's first page, over HTTP. */

const KEYS = [
  { id: 'operator', scopes: SCOPES },
  { id: 'bank', scopes: SCOPES, organization: 'tris:bank' },
];
const CRITICAL = { category: 'financial', criticality: 'critical', action_type: 'loan_repayment' };

let service: Service;
beforeAll(async () => void (service = await startServiceWithKeys(KEYS)));
afterAll(() => service.close());

test('counts what there is and what this process has done, and tells the last change of each rating', async () => {
  const post = async (path: string, body: object) => {
    const answer = await service.post(path, body, as('operator'));
    expect(answer.status).toBeLessThan(300);
  };
  const act = (tris_id: string, times: number, more = {}) =>
    relay(
      service,
      Array.from({ length: times }, () => ({ tris_id, ...CRITICAL, ...more })),
      as('operator'),
    );
  await post('/v1/organizations', { tris_org: 'tris:bank', platform_ids: ['bank-app'] });
  // Good by 62 TCT a day at most, so on many days.
  const day = (n: number) => ({ occurred_at: new Date(Date.now() - n * 86_400_000).toISOString() });
  for (let n = 100; n > 0; n--) await act('tris:riser', 1, day(n));
  await act('tris:fallen', 2);
  await act('tris:fallen', 8, { action_type: 'compliance_breach_flags' });
  await post('/v1/policies/ap', { policy_id: 'AP_TEN_V1', rules: { disc_min: 10 } });
  for (const subject_tris of ['tris:riser', 'tris:fallen', 'tris:nobody']) {
    await post('/v1/policies/ap/check', { policy_id: 'AP_TEN_V1', subject_tris });
  }
  await applied(service);
  const { status, json } = await service.get('/v1/disc/overview', as('operator'));
  expect(status).toBe(200);
  expect(json).toMatchObject({ identities: 3, actions: 110, organizations: 1 });
  expect(json.minutes).toHaveLength(60);
  const sum = (name: string) =>
    json.minutes.reduce((all: number, minute: Record<string, number>) => all + minute[name]!, 0);
  expect([sum('relayed'), sum('granted'), sum('denied')]).toEqual([110, 1, 2]);
  const changes = Object.fromEntries(
    json.rating_changes.map((change: { tris_id: string }) => [change.tris_id, change]),
  );
  expect(changes['tris:fallen']).toMatchObject({ from: 'Poor', to: 'BAD' });
  const history = (await service.get('/v1/disc/score/tris:riser/history?limit=1000', as('operator'))).json.entries;
  const last = history.findLastIndex((entry: any, i: number) => entry.score_rating !== history[i - 1]?.score_rating);
  expect(last).toBeGreaterThan(40);
  expect(changes['tris:riser']).toEqual({
    tris_id: 'tris:riser',
    recorded_at: history[last].recorded_at,
    from: history[last - 1].score_rating,
    to: history[last].score_rating,
    score: history[last].score,
  });
});

test('it is for operators', async () => {
  expect((await service.get('/v1/disc/overview')).status).toBe(401);
  expect((await service.get('/v1/disc/overview', as('bank'))).status).toBe(403);
});

test('looks again after it has failed', async () => {
  let looks = 0;
  const views = { manifest: () => Promise.reject(new Error(`${++looks}`)) };
  const overview = new Overview(...([views, null, null] as unknown as ConstructorParameters<typeof Overview>));
  await expect(overview.get()).rejects.toThrow('1');
  await expect(overview.get()).rejects.toThrow('2');
});
