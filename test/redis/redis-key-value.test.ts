import { setTimeout as sleep } from 'node:timers/promises';
import { RedisKeyValue } from '../../src/key-value/redis-key-value.js';
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
});
