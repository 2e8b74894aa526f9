import { RedisReadModels } from '../../src/read-models/redis/redis-read-models.js';
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
});
