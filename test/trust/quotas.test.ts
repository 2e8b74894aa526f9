import { type Amounts, Quotas } from '../../src/commands/quotas.js';
import { LmdbKeyValue } from '../../src/stores/lmdb/lmdb-key-value.js';
import { eventually } from '../contracts/harness.js';
import { temporaryFolder } from '../embedded/temporary-folder.js';
import { type Service, as, startServiceWithKeys } from '../policies/service.fixture.js';

/** An organization, or a key without one, relays so much a day and no more, and takes nothing of what others may. */

const SCOPES = ['relay:write', 'ops', 'webhooks:write'];
const KEYS = [
  { id: 'operator', scopes: SCOPES },
  { id: 'other-operator', scopes: SCOPES },
  { id: 'a1', scopes: SCOPES, organization: 'tris:a' },
  { id: 'a2', scopes: SCOPES, organization: 'tris:a' },
  { id: 'b', scopes: SCOPES, organization: 'tris:b' },
];
/** An hour before midnight. */
const EVENING = Date.UTC(2026, 0, 1, 23);
const actionOf = (platform_id: string, external_id: string, action_type = 'loan_repayment') => {
  return { tris_id: 'tris:x', action_type, category: 'finance', criticality: 'Low', platform_id, external_id };
};

describe('over HTTP', () => {
  let service: Service;
  let now = EVENING;
  beforeAll(async () => {
    service = await startServiceWithKeys(KEYS, { CREDENCE_ORG_ACTIONS_PER_DAY: '3' }, () => now);
    for (const tris_org of ['tris:a', 'tris:b']) {
      const registered = { tris_org, platform_ids: [`of-${tris_org}`] };
      expect((await service.post('/v1/organizations', registered, as('operator'))).status).toBe(201);
    }
  });
  afterAll(() => service.close());
  const relay = (key: string, platform: string, id: string, type?: string) =>
    service.post('/api/decision-relay', actionOf(platform, id, type), as(key));
  const usage = async (key: string) => (await service.get('/v1/usage', as(key))).json;

  test('the keys of an organization use one quota, to the last action; a retry of a recorded one is answered', async () => {
    expect((await relay('a1', 'of-tris:a', '1')).headers).toMatchObject({
      ratelimit: expect.stringMatching(/^"actions";r=2;t=3600, "bytes";r=\d+;t=3600$/),
      'ratelimit-policy': '"actions";q=3;w=86400, "bytes";q=1000000000;w=86400',
    });
    expect((await relay('a2', 'of-tris:a', '2')).status).toBe(202);
    // What is refused does not count.
    expect((await relay('a1', 'of-tris:a', '1', 'another')).json.code).toBe('external_id_conflict');
    expect((await relay('a1', 'of-tris:b', '1')).json.code).toBe('platform_not_owned');
    expect((await relay('a2', 'of-tris:a', '3')).status).toBe(202);
    const refused = await relay('a1', 'of-tris:a', '4');
    expect([refused.status, refused.json.code, refused.json.quota]).toEqual([429, 'quota_exceeded', 'actions']);
    expect(refused.headers).toMatchObject({ 'retry-after': '3600', ratelimit: expect.stringContaining('r=0;t=3600') });
    expect((await relay('a2', 'of-tris:a', '1')).status).toBe(202);
    const batch = { actions: [actionOf('of-tris:a', '2'), actionOf('of-tris:a', '5')] };
    const { json } = await service.post('/v1/decision-relay/batch', batch, as('a1'));
    expect(json.results.map(({ status }: { status: number }) => status)).toEqual([202, 429]);
    for (const key of ['operator', 'other-operator']) {
      for (const n of [1, 2, 3]) expect((await relay(key, `${key}-app`, `${n}`)).status).toBe(202);
    }
    expect((await relay('b', 'of-tris:b', '1')).status).toBe(202);
  });

  test('everybody can see what is used', async () => {
    const resets_at = '2026-01-02T00:00:00.000Z';
    const [actions, bytes, ...stocks] = (await usage('a1')).bounds;
    expect((await usage('a2')).owner).toBe('tris:a');
    expect(actions).toEqual({ name: 'actions', used: 3, limit: 3, resets_at });
    expect(bytes).toEqual({ name: 'bytes', used: expect.any(Number), limit: 1e9, resets_at });
    expect(bytes.used).toBeGreaterThan(300);
    expect(stocks).toEqual([
      { name: 'job_results', used: 0, limit: 50, resets_at: null },
      { name: 'job_bytes', used: 0, limit: 200 * 2 ** 20, resets_at: null },
      { name: 'delivery_bytes', used: 0, limit: 100 * 2 ** 20, resets_at: null },
    ]);
    expect(await usage('operator')).toMatchObject({ owner: 'key:operator', bounds: [{ used: 3 }, {}, {}, {}, {}] });
  });

  test('a day begins at midnight, and a clock that is set back over it finds the day before', async () => {
    now = EVENING + 3_600_000;
    expect((await relay('a1', 'of-tris:a', '6')).status).toBe(202);
    expect((await usage('a1')).bounds[0]).toMatchObject({ used: 1, resets_at: '2026-01-03T00:00:00.000Z' });
    now = EVENING + 1_800_000;
    expect(await relay('a1', 'of-tris:a', '7')).toMatchObject({ status: 429, headers: { 'retry-after': '1800' } });
    now = EVENING + 3_600_000;
    expect((await usage('a1')).bounds[0]).toMatchObject({ used: 1 });
  });
});

describe('in several processes', () => {
  let folder: Awaited<ReturnType<typeof temporaryFolder>>;
  let keyValue: LmdbKeyValue;
  const open: Quotas[] = [];
  beforeAll(async () => {
    folder = await temporaryFolder();
    keyValue = await LmdbKeyValue.open(folder.path, { clock: Date.now });
  });
  afterEach(() => Promise.all(open.splice(0).map((quotas) => quotas.onApplicationShutdown())));
  afterAll(async () => {
    await keyValue.close();
    await folder.remove();
  });
  const bounds = { bytesPerDay: 0, jobResults: 0, jobBytes: 0, waitingDeliveries: 0, deliveryBytes: 0 };
  function quotas(actionsPerDay: number, more: Partial<typeof bounds> = {}): Quotas {
    open.push(new Quotas({ ...bounds, ...more, actionsPerDay }, keyValue, () => EVENING));
    return open.at(-1)!;
  }
  const amounts: Amounts = { actions: 1, bytes: 100 };
  const take = (from: Quotas, owner: string, taken = amounts) =>
    from
      .take(owner, taken, async () => false)
      .then(
        () => 'taken',
        ({ code }: { code: string }) => code,
      );
  const usedBy = async (from: Quotas, owner: string) => (await from.usageOf(owner))[0]!.used;

  test('what they count adds up, and a process that starts anew knows it; a lower bound is kept at once', async () => {
    const [one, two] = [quotas(10), quotas(10)];
    for (let n = 0; n < 4; n++)
      expect([await take(one, 'tris:c'), await take(two, 'tris:c')]).toEqual(['taken', 'taken']);
    expect(await take(one, 'tris:c')).toBe('taken');
    await eventually(async () => (await usedBy(one, 'tris:c')) === 9 && (await usedBy(two, 'tris:c')) >= 8, 'counts');
    expect([
      await usedBy(quotas(10), 'tris:c'),
      await take(quotas(10), 'tris:c'),
      await take(quotas(5), 'tris:c'),
    ]).toEqual([9, 'taken', 'quota_exceeded']);
    expect(quotas(5).headersOf('tris:none')).toMatchObject({ ratelimit: '"actions";r=5;t=3600' });
  });

  test('one at a time or at once, a process takes exactly the bound', async () => {
    const one = quotas(50);
    const outcomes = await Promise.all(Array.from({ length: 80 }, () => take(one, 'tris:d')));
    expect(outcomes.filter((outcome) => outcome === 'taken')).toHaveLength(50);
  });

  test('bytes count as well, and a bound of 0 is none', async () => {
    const one = quotas(0, { bytesPerDay: 250 });
    expect([await take(one, 'tris:e'), await take(one, 'tris:e')]).toEqual(['taken', 'taken']);
    expect(await take(one, 'tris:e')).toBe('quota_exceeded');
    expect(one.headersOf('tris:e')).toEqual({
      'ratelimit-policy': '"bytes";q=250;w=86400',
      ratelimit: '"bytes";r=50;t=3600',
    });
    const none = quotas(0);
    for (let n = 0; n < 100; n++) expect(await take(none, 'tris:f')).toBe('taken');
    expect(none.headersOf('tris:f')).toEqual({});
    expect((await none.usageOf('tris:f'))[0]).toMatchObject({ used: 100, limit: null });
  });

  test('without the store, each counts for itself, and adds it later', async () => {
    const one = quotas(3);
    await take(one, 'tris:g');
    const { increment } = keyValue;
    keyValue.increment = () => Promise.reject(new Error('not now'));
    expect([await take(one, 'tris:g'), await take(one, 'tris:g')]).toEqual(['taken', 'taken']);
    expect([await take(one, 'tris:g'), await take(quotas(3), 'tris:g')]).toEqual(['quota_exceeded', 'taken']);
    keyValue.increment = increment;
    await eventually(async () => (await usedBy(quotas(3), 'tris:g')) === 4, 'both counts');
  });
});
