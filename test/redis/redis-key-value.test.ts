import { setTimeout as sleep } from 'node:timers/promises';
import { SharedRateLimit } from '../../src/http/rate-limit.js';
import { RedisKeyValue } from '../../src/stores/redis/redis-key-value.js';
import { describeKeyValue } from '../contracts/key-value.contract.js';
import { describeRedis, startRedis } from '../servers/redis.js';

describeRedis('Redis', () => {
  let redis: Awaited<ReturnType<typeof startRedis>>;
  beforeAll(async () => {
    redis = await startRedis();
  });
  afterAll(() => redis?.stop());

  describeKeyValue('Redis', async (clock) => {
    const { url, prefix, clear } = redis.place();
    return { open: () => RedisKeyValue.open({ url, prefix, clock }), destroy: clear, wait: (ms) => sleep(ms) };
  });

  test('a limit on requests counts those to two processes together', async () => {
    const { url, prefix, clear } = redis.place();
    const stores = [await open(), await open()];
    async function open() {
      return RedisKeyValue.open({ url, prefix, clock: Date.now });
    }
    const limits = stores.map((store) => new SharedRateLimit(10, store));
    const reply = { header: () => undefined, getHeader: () => undefined } as never;
    const taken = await Promise.allSettled(
      Array.from({ length: 30 }, (_, n) => limits[n % 2]!.take('198.51.100.7', reply)),
    );
    expect(taken.filter(({ status }) => status === 'fulfilled')).toHaveLength(10);
    await limits[0]!.take('198.51.100.8', reply);
    await Promise.all(stores.map((store) => store.close()));
    await clear();
  });
});
