import { Redis } from 'ioredis';
import { StoreUnavailable } from '../../src/stores/ports/event-store.js';
import { BullmqJobs } from '../../src/stores/redis/bullmq-jobs.js';
import { RedisConnection } from '../../src/stores/redis/connection.js';
import { RedisKeyValue } from '../../src/stores/redis/redis-key-value.js';
import { eventually, recovery } from '../contracts/harness.js';
import { Proxy } from '../servers/proxy.js';
import { type SixNodes, startSixNodes } from '../servers/redis-cluster.js';
import { describeOwnRedis, RedisServer } from '../servers/redis.js';
import { startSentinels, type WatchedRedis } from '../servers/sentinels.js';

/** Redis on several servers: one of them is lost, and its replica takes its place. */

const LONG = 180_000;
/** Enough for each master of a cluster to have some. */
const NONCES = Array.from({ length: 20 }, (_, n) => `nonce-${n}`);

/** Entries and jobs on such a Redis. */
class Users {
  static async start(url: string): Promise<Users> {
    const entries = await RedisKeyValue.open({ url, prefix: 'failover', clock: Date.now });
    const jobs = new BullmqJobs(url, { prefix: '{failover}' });
    jobs.handle('double', async ({ input }) => 2 * (input['n'] as number));
    await jobs.start();
    return new Users(entries, jobs);
  }

  private constructor(
    readonly entries: RedisKeyValue,
    private readonly jobs: BullmqJobs,
  ) {}

  async put(value: number): Promise<void> {
    for (const nonce of NONCES) await again(() => this.entries.put(nonce, value, 600_000), `an entry for ${nonce}`);
  }

  /** @returns what was put */
  async take(): Promise<unknown[]> {
    const values: unknown[] = [];
    for (const nonce of NONCES) values.push(await this.entries.take(nonce));
    return values;
  }

  async doubled(n: number): Promise<unknown> {
    await again(() => this.jobs.enqueue('double', `job-${n}`, { n }), 'the job is enqueued');
    const status = async () => (await again(() => this.jobs.get('double', `job-${n}`), 'an answer'))?.status;
    await eventually(async () => (await status()) === 'completed', 'the job is done');
    return (await this.jobs.get('double', `job-${n}`))!.result;
  }

  async close(): Promise<void> {
    await this.jobs.close();
    await this.entries.close();
  }
}

/** Repeats what the store says has no definite answer. */
async function again<T>(attempt: () => Promise<T>, what: string): Promise<T> {
  let result: T;
  await eventually(async () => {
    try {
      result = await attempt();
      return true;
    } catch (error) {
      if (error instanceof StoreUnavailable) return false;
      throw error;
    }
  }, what);
  return result!;
}

describeOwnRedis('a master and a replica, watched by three Sentinels', () => {
  let group: WatchedRedis;
  let users: Users;

  beforeAll(async () => {
    group = await startSentinels();
    users = await Users.start(group.url);
  }, LONG);
  afterAll(async () => {
    await users?.close();
    await group?.stop();
  }, LONG);

  test(
    'entries and jobs work; after the loss of a master they work again by themselves',
    async () => {
      await users.put(1);
      expect(await users.doubled(1)).toBe(2);
      const lost = group.master();
      await lost.kill();
      await recovery('the master behind Sentinels was lost', users.put(2));
      // The first Sentinel hears of it up to 110 ms after the one that led the failover.
      const hasNext = () => ![undefined, lost].includes(group.master());
      await eventually(hasNext, 'another master, by the first Sentinel');
      expect(await users.take()).toEqual(NONCES.map(() => 2));
      expect(await users.doubled(2)).toBe(4);
    },
    LONG,
  );
});

describeOwnRedis('Sentinels that answer late', () => {
  test(
    'a failover that is announced while a connection looks for the master does not end that connection',
    async () => {
      const group = await startSentinels();
      const ports = group.url.match(/(?<=127\.0\.0\.1:)\d+/g)!.map(Number);
      const proxies = await Promise.all(ports.map((port) => Proxy.to(port)));
      for (const proxy of proxies) proxy.delayMs = 1_000;
      let n = 0;
      const connection = await RedisConnection.open(group.url.replaceAll(/(?<=:)\d+/g, () => `${proxies[n++]!.port}`));
      try {
        await group.master().kill();
        const isBack = () =>
          connection
            .send((redis) => redis.set('key', 'value'))
            .then(
              () => true,
              () => false,
            );
        await eventually(isBack, 'the connection to the next master');
      } finally {
        await connection.close();
        await Promise.all(proxies.map((proxy) => proxy.close()));
        await group.stop();
      }
    },
    LONG,
  );
});

describeOwnRedis('a master that is made a replica, and keeps its connections', () => {
  let servers: RedisServer[];
  /** The name of the master. */
  let name: Proxy;
  let raw: Redis[];
  let users: Users;

  beforeAll(async () => {
    servers = [await RedisServer.start(), await RedisServer.start()];
    raw = servers.map(({ url }) => new Redis(url));
    name = await Proxy.to(servers[0]!.port);
    users = await Users.start(`redis://127.0.0.1:${name.port}`);
  }, LONG);
  afterAll(async () => {
    await users?.close();
    for (const redis of raw ?? []) redis.disconnect();
    await name?.close();
    await Promise.all((servers ?? []).map((server) => server.stop()));
  }, LONG);

  /** As soon as readiness must say what is so. */
  const soon = async (condition: () => boolean | Promise<boolean>, what: string) => {
    const since = performance.now();
    await eventually(condition, what);
    expect(performance.now() - since).toBeLessThan(15_000);
  };
  const demote = () => raw[0]!.replicaof('127.0.0.1', servers[1]!.port);

  test(
    'is left for the server to which its name leads then, also by the workers and the queues of jobs',
    async () => {
      await users.put(1);
      expect(await users.doubled(1)).toBe(2);
      await demote();
      name.target = servers[1]!.port;
      await recovery('the master was made a replica', users.put(2));
      expect(await raw[1]!.keys('failover:kv:*')).not.toEqual([]);
      expect(await users.take()).toEqual(NONCES.map(() => 2));
      expect(await users.doubled(2)).toBe(4);
      const known = async () => String(await raw[0]!.client('LIST')).match(/flags=[NbP]\b/g);
      await soon(async () => (await known())?.length === 1, 'the replica has no client but this test');
    },
    LONG,
  );

  test(
    'is unavailable as long as its name leads to it; nothing is read from it, and nobody starts with it',
    async () => {
      await raw[1]!.replicaof('NO', 'ONE');
      name.target = servers[0]!.port;
      await raw[0]!.replicaof('NO', 'ONE');
      name.cut();
      await users.put(3);
      await demote();
      await soon(() => users.entries.redis.isUnavailable, 'readiness says it');
      const refusal = () => users.entries.get('nonce-1').catch((error: unknown) => error);
      await eventually(async () => (await refusal()) instanceof StoreUnavailable, 'a refusal');
      await expect(RedisConnection.open(servers[0]!.url)).rejects.toThrow(/cannot be used: it is a replica\.$/);
      await raw[0]!.replicaof('NO', 'ONE');
      await soon(() => !users.entries.redis.isUnavailable, 'readiness says it');
      await users.put(4);
    },
    LONG,
  );
});

describeOwnRedis('a Redis Cluster of three masters, each with a replica', () => {
  let nodes: SixNodes;
  let users: Users;

  beforeAll(async () => {
    nodes = await startSixNodes();
    users = await Users.start(nodes.url);
  }, LONG);
  afterAll(async () => {
    await users?.close();
    await nodes?.stop();
  }, LONG);

  test(
    'each master is lost in turn: entries and jobs work again by themselves',
    async () => {
      await users.put(0);
      const masters = nodes.masters();
      expect(masters).toHaveLength(3);
      for (const [n, lost] of masters.entries()) {
        await lost.kill();
        await recovery(`master ${n + 1} of a Redis Cluster was lost`, users.put(n));
        expect(await users.take()).toEqual(NONCES.map(() => n));
        expect(await users.doubled(n)).toBe(2 * n);
        await eventually(() => nodes.masters().length === 3, 'the replica of the lost master has taken its place');
        expect(nodes.masters()).not.toContain(lost);
        await lost.run();
        await nodes.whole();
      }
    },
    LONG,
  );

  test(
    'workers that start while a master is being lost run their jobs',
    async () => {
      const kinds = Array.from({ length: 20 }, (_, n) => `kind-${n}`);
      const jobs = new BullmqJobs(nodes.url, { prefix: '{starting}' });
      for (const kind of kinds) jobs.handle(kind, async () => 1);
      await jobs.start();
      await nodes.masters()[0]!.kill();
      try {
        for (const kind of kinds) {
          await again(() => jobs.enqueue(kind, 'job', {}), 'the job is enqueued');
          const status = async () => (await again(() => jobs.get(kind, 'job'), 'an answer'))?.status;
          await eventually(async () => (await status()) === 'completed', `the job ${kind} is done`);
        }
      } finally {
        await jobs.close();
      }
    },
    LONG,
  );
});
