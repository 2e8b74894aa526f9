import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { Logger } from '../../src/kernel/logger.js';
import { SharedRateLimit } from '../../src/http/rate-limit.js';
import { RedisKeyValue } from '../../src/stores/redis/redis-key-value.js';
import { eventually } from '../contracts/harness.js';
import { describeKeyValue } from '../contracts/key-value.contract.js';
import { Proxy } from '../servers/proxy.js';
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

  test('what Redis held is gone between two commands of a look: it is told of once', async () => {
    const { url, prefix, clear } = redis.place();
    const key = `${prefix}:kv:held`;
    const proxy = await Proxy.to(Number(new URL(url).port));
    // Answers come late, so that the mark can be taken away between a command and the next.
    proxy.delayMs = 100;
    const other = new Redis(url);
    const monitor = await other.monitor();
    const told: string[] = [];
    const store = await RedisKeyValue.open({
      url: `redis://127.0.0.1:${proxy.port}`,
      prefix,
      clock: Date.now,
      logger: new Logger('warn', (line) => void told.push(line)),
    });
    try {
      let looks = 0;
      monitor.on('monitor', (_time: string, [command, name]: string[]) => {
        if (command!.toUpperCase() === 'SET' && name === key && looks++ === 0) void other.del(key);
      });
      await eventually(() => told.length > 0, 'the line');
      const after = looks;
      await eventually(() => looks >= after + 3, 'three more looks');
      expect(told).toEqual([expect.stringContaining('Redis has lost what it held')]);
    } finally {
      await sleep(2 * proxy.delayMs); // Until the answers under way have come.
      proxy.delayMs = 0;
      await store.close();
      monitor.disconnect();
      other.disconnect();
      await proxy.close();
      await clear();
    }
  });
});
