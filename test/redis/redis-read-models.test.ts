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
});
