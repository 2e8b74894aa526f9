import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';
import { EncodedRows } from '../../src/stores/ports/encoded-rows.js';
import { type Manifest, type ReadModels, startOf } from '../../src/stores/ports/read-models.js';
import { RedisReadModels } from '../../src/stores/redis/redis-read-models.js';
import { eventually } from '../contracts/harness.js';
import { describeReadModels } from '../contracts/read-models.contract.js';
import { describeRedis, startRedis } from '../servers/redis.js';

describeRedis('Redis', () => {
  let redis: Awaited<ReturnType<typeof startRedis>>;
  beforeAll(async () => {
    redis = await startRedis();
  });
  afterAll(() => redis?.stop());

  describeReadModels('Redis', async (clock) => {
    const { url, prefix, clear } = redis.place();
    return { open: () => RedisReadModels.open({ url, prefix, clock }), destroy: clear };
  });

  test('compares the clock of the process with that of the server', async () => {
    const { url, prefix, clear } = redis.place();
    const models = await RedisReadModels.open({ url, prefix, ownClock: () => Date.now() - 60_000 });
    await eventually(() => models.clockSkew < -30_000, 'the skew');
    expect(models.clockSkew).toBeGreaterThan(-61_000);
    await models.close();
    await clear();
  });

  test('nothing is applied to a generation that has lost a row', async () => {
    const { url, prefix, clear } = redis.place();
    const models = await RedisReadModels.open({ url, prefix });
    await models.createGeneration('g1', { people: 1 }, 'log');
    await models.acquireLease('g1', 'me', 60_000);
    const base = startOf('log');
    const next = { ...base, position: 1, event_id: 'e1' };
    const puts = EncodedRows.of([{ row: { view: 'people', key: 'a' }, value: 1 }]);
    const batch = { base, next, holder: 'me', puts, deletes: [] };
    expect(await models.apply('g1', { ...batch, id: 'b1' })).toBe('applied');
    const raw = new Redis(url);
    const [rows] = await raw.keys(`*${prefix}:g1:*:rows`);
    await raw.hdel(rows!, 'people\0a');
    raw.disconnect();
    const more = { ...batch, base: next, next: { ...next, position: 2, event_id: 'e2' } };
    expect(await models.apply('g1', { ...more, id: 'b2' })).toBe('refused');
    await models.close();
    await clear();
  });

  test('a lease is not renewed on a recreated generation, but can be taken again after its release', async () => {
    const { url, prefix, clear } = redis.place();
    const models = await RedisReadModels.open({ url, prefix });
    await models.createGeneration('g1', { people: 1 }, 'log');
    expect(await models.acquireLease('g1', 'me', 60_000)).toBe(true);
    expect(await models.acquireLease('g1', 'me', 60_000)).toBe(true);
    await clear();
    await models.createGeneration('g1', { people: 1 }, 'log');
    expect(await models.acquireLease('g1', 'me', 60_000)).toBe(false);
    await models.releaseLease('g1', 'me');
    expect(await models.acquireLease('g1', 'me', 60_000)).toBe(true);
    await models.close();
    await clear();
  });

  test('once a generation was created again under its id, no process reads or applies to the old one', async () => {
    const { url, prefix, clear } = redis.place();
    const [one, other] = [await RedisReadModels.open({ url, prefix }), await RedisReadModels.open({ url, prefix })];
    const at = (position: number) => ({ log: 'log', position, event_id: position === 0 ? null : `e${position}` });
    const create = async () => {
      await one.createGeneration('g1', { people: 1 }, 'log');
      await one.swapManifest(manifestOf('g1'));
    };
    const apply = (models: ReadModels, position: number) =>
      models.apply('g1', {
        id: randomUUID(),
        base: at(position - 1),
        next: at(position),
        holder: 'me',
        puts,
        deletes: [],
      });
    const puts = EncodedRows.of([]);
    await create();
    expect(await one.acquireLease('g1', 'me', 60_000)).toBe(true);
    expect(await apply(one, 1)).toBe('applied');
    await other.manifest();
    expect((await other.read('g1', []))?.checkpoint).toEqual(at(1));

    const raw = new Redis(url);
    await raw.del(`{${prefix}:views}:manifest`, `{${prefix}:views}:generations`);
    await raw.quit();
    await create();
    for (const models of [one, other]) {
      await models.manifest();
      expect((await models.read('g1', []))?.checkpoint).toEqual(at(0));
    }
    expect(await one.acquireLease('g1', 'me', 60_000)).toBe(false);
    expect(await apply(one, 2)).toBe('refused');
    await Promise.all([one.close(), other.close()]);
    await clear();
  });
});

function manifestOf(id: string): Manifest {
  return {
    revision: 1,
    lens: { policy_id: 'VP_A_V1', content_hash: 'hash' },
    model_hash: 'model',
    lens_revision: -1,
    views: { people: id },
    previous_views: null,
    incarnation: randomUUID(),
  };
}
