import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { StoreUnavailable } from '../../src/stores/ports/event-store.js';
import { BullmqJobs } from '../../src/stores/redis/bullmq-jobs.js';
import { RedisKeyValue } from '../../src/stores/redis/redis-key-value.js';
import { Logger } from '../../src/kernel/logger.js';
import { RedisConnection, parseRedisUrl } from '../../src/stores/redis/connection.js';
import { StartError } from '../../src/kernel/start-error.js';
import { eventually } from '../contracts/harness.js';
import { describeJobs } from '../contracts/jobs.contract.js';
import { describeKeyValue } from '../contracts/key-value.contract.js';
import { freePort } from '../servers/ports.js';
import { Proxy } from '../servers/proxy.js';
import { RedisServer, describeOwnRedis } from '../servers/redis.js';

/** What a command is told that did not wait for the server. */
const AT_ONCE = /^Redis at \S+ is unavailable$/;

describe('REDIS_URL', () => {
  test.each([
    ['redis://cache', [{ host: 'cache', port: 6379 }], false, { db: 0 }],
    ['redis://127.0.0.1:7000/3', [{ host: '127.0.0.1', port: 7000 }], false, { db: 3 }],
    ['redis://[::1]:7000', [{ host: '::1', port: 7000 }], false, { db: 0 }],
    ['redis://:p%40ss@cache', [{ host: 'cache', port: 6379 }], false, { db: 0, password: 'p@ss' }],
    [
      'rediss://me:pw@cache',
      [{ host: 'cache', port: 6379 }],
      false,
      { db: 0, username: 'me', password: 'pw', tls: {} },
    ],
    ['redis://cache?cluster=true', [{ host: 'cache', port: 6379 }], true, { db: 0 }],
    [
      'redis://a:7000,b:7001',
      [
        { host: 'a', port: 7000 },
        { host: 'b', port: 7001 },
      ],
      true,
      { db: 0 },
    ],
  ])('%s is understood', (url, nodes, cluster, options) => {
    expect(parseRedisUrl(url)).toEqual({ nodes, cluster, options });
  });

  test('the hosts are Sentinels if it names their master', () => {
    expect(parseRedisUrl('redis://:pw@a,b:7001/2?sentinel=main')).toEqual({
      nodes: [
        { host: 'a', port: 26_379 },
        { host: 'b', port: 7001 },
      ],
      cluster: false,
      sentinel: 'main',
      options: { db: 2, password: 'pw' },
    });
  });

  test.each([
    'http://cache:6379',
    'cache:6379',
    'redis://',
    'redis://cache:99999',
    'redis://user:secret@cache:port',
    'redis://:%zzsecret@cache',
    'redis://:secret@a,b/2',
    'redis://:secret@a,b?cluster=false',
    'redis://:secret@cache?ssl=true',
    'redis://:secret@a,b?sentinel=',
    'redis://:secret@a?sentinel=main&cluster=true',
  ])('%s is refused in one sentence that does not repeat it', (url) => {
    const refused = () => parseRedisUrl(url);
    expect(refused).toThrow(StartError);
    expect(refused).toThrow(/^REDIS_URL [^\n]*\.$/);
    expect(refused).not.toThrow(/secret/);
  });
});

describeOwnRedis('a Redis that cannot be used stops the boot with one sentence', () => {
  const servers: RedisServer[] = [];
  afterEach(async () => {
    await Promise.all(servers.splice(0).map((server) => server.stop()));
  });

  async function sentence(options: Record<string, string>, credentials = ''): Promise<string> {
    const server = await RedisServer.start(options);
    servers.push(server);
    const opened = RedisConnection.open(server.url.replace('://', `://${credentials}`));
    const error = await opened.then(
      async (connection) => {
        await connection.close();
        throw new Error('it was used');
      },
      (refusal: unknown) => refusal,
    );
    expect(error).toBeInstanceOf(StartError);
    return (error as Error).message;
  }

  test.each(['allkeys-lru', 'volatile-lru', 'allkeys-random', 'volatile-ttl'])('it evicts by %s', async (policy) => {
    expect(await sentence({ 'maxmemory-policy': policy })).toMatch(
      new RegExp(`^Redis at 127\\.0\\.0\\.1:\\d+ has the maxmemory-policy ${policy}, which may drop .* noeviction\\.$`),
    );
  });

  test('it requires a password', async () => {
    expect(await sentence({ requirepass: 'right' })).toMatch(
      /^Redis at 127\.0\.0\.1:\d+ \(REDIS_URL\) cannot be used: .*NOAUTH.*\.$/,
    );
  });

  test('it requires another password, and the message does not contain the given one', async () => {
    const message = await sentence({ requirepass: 'right' }, 'me:secret@');
    expect(message).toMatch(/^Redis at 127\.0\.0\.1:\d+ \(REDIS_URL\) cannot be used: WRONGPASS .*\.$/);
    expect(message).not.toContain('secret');
  });

  test('no server listens', async () => {
    const opened = RedisConnection.open(`redis://:secret@127.0.0.1:${await freePort()}`);
    await expect(opened).rejects.toThrow(StartError);
    await expect(opened).rejects.toThrow(/cannot be used: .*ECONNREFUSED/);
  });

  test('the listening server closes every connection', async () => {
    const closing = createServer((socket) => socket.end()).listen(0, '127.0.0.1');
    await once(closing, 'listening');
    const { port } = closing.address() as { port: number };
    await expect(RedisConnection.open(`redis://127.0.0.1:${port}`)).rejects.toThrow(/ cannot be used: .*[^.]\.$/);
    closing.close();
  });

  test('the listening server does not answer', async () => {
    const mute = createServer(() => undefined).listen(0, '127.0.0.1');
    await once(mute, 'listening');
    const { port } = mute.address() as { port: number };
    await expect(RedisConnection.open(`redis://127.0.0.1:${port}`)).rejects.toThrow(StartError);
    mute.close();
  });
});

describeOwnRedis('a connection', () => {
  let server: RedisServer;
  beforeAll(async () => {
    server = await RedisServer.start({ requirepass: 'secret' });
  });
  afterAll(() => server.stop());
  const url = () => server.url.replace('://', '://:secret@');

  test('works after the server has forgotten the scripts', async () => {
    const store = await RedisKeyValue.open({ url: url(), clock: Date.now });
    const other = await RedisConnection.open(url());
    await store.put('a', 1, 60_000);
    await other.send((client) => client.script('FLUSH'));
    await store.put('a', 2, 60_000);
    expect(await store.take('a')).toBe(2);
    await Promise.all([store.close(), other.close()]);
  });

  test('sends a command again if its answer was lost, and a completed one takes effect once and is reported as successful', async () => {
    const proxy = await Proxy.to(server.port);
    const through = url().replace(String(server.port), String(proxy.port));
    const store = await RedisKeyValue.open({ url: through, clock: Date.now });
    proxy.loseNextAnswer();
    expect(await store.putIfAbsent('nonce', 1, 60_000)).toBe(true);
    proxy.loseNextAnswer();
    expect(await store.replace('nonce', 1, 2, 60_000)).toBe(true);
    expect(proxy.lostAnswers).toBe(2);
    expect(await store.replace('nonce', 1, 3, 60_000)).toBe(false);
    expect(await store.get('nonce')).toBe(2);
    await store.close();
    await proxy.close();
  });

  test('that is lost makes commands fail as unavailable, soon at once, and works again by itself; no secret is logged', async () => {
    const own = await RedisServer.start({ requirepass: 'secret' });
    const lines: string[] = [];
    const logger = new Logger('debug', (line) => void lines.push(line));
    const store = await RedisKeyValue.open({ url: own.url.replace('://', '://:secret@'), clock: Date.now, logger });
    try {
      await store.put('a', 1, 60_000);
      await own.kill();
      await expect(store.get('a')).rejects.toThrow(StoreUnavailable);
      await refusesAtOnce(store);
      await Promise.all(Array.from({ length: 100 }, () => expect(store.get('a')).rejects.toThrow(AT_ONCE)));
      await own.run();
      await answers(() => store.get('a'));
      expect(lines.join('')).toMatch(/is unavailable: [^"]+".*is back"/s);
      expect(lines.join('')).not.toContain('secret');
    } finally {
      await own.kill();
      await store.close();
      await own.stop();
    }
  });

  test('that the server refuses since it has too many is unavailable, and works again by itself', async () => {
    const connection = await RedisConnection.open(url());
    const other = await RedisConnection.open(url());
    const limit = (clients: number) => other.send((redis) => redis.config('SET', 'maxclients', clients));
    const ping = () => connection.send((redis) => redis.ping()).catch((error: unknown) => error);
    try {
      let refusal: unknown;
      // Of the commands that wait for the connection, the first one gets the reason.
      await eventually(async () => {
        await limit(1);
        await other.send((redis) => redis.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes'));
        refusal = await ping();
        await limit(100);
        await eventually(async () => (await ping()) === 'PONG', 'an answer');
        return /max number of clients/.test(String(refusal));
      }, 'a refused connection');
      expect(refusal).toBeInstanceOf(StoreUnavailable);
    } finally {
      await Promise.all([connection.close(), other.close()]);
    }
  });

  test('to a server that is full counts as unavailable, and says so once, until there is space', async () => {
    const own = await RedisServer.start();
    const lines: string[] = [];
    const logger = new Logger('warn', (line) => void lines.push(JSON.parse(line).msg));
    const store = await RedisKeyValue.open({ url: own.url, clock: Date.now, logger });
    const raw = new Redis(own.url);
    const limit = (bytes: number) => raw.config('SET', 'maxmemory', bytes);
    try {
      await store.put('a', 1, 60_000);
      await limit(1);
      await eventually(() => store.redis.isUnavailable, 'unavailable');
      await expect(store.put('a', 2, 60_000)).rejects.toThrow(StoreUnavailable);
      await limit(0);
      await eventually(() => !store.redis.isUnavailable, 'available');
      await store.put('a', 3, 60_000);
      const at = `Redis at 127.0.0.1:${own.port}`;
      expect(lines).toEqual([`${at} is full, and takes no writes`, `${at} takes writes again`]);
    } finally {
      raw.disconnect();
      await store.close();
      await own.stop();
    }
  });

  test('to a server that begins to evict refuses every command until it no longer does', async () => {
    const own = await RedisServer.start();
    const lines: string[] = [];
    const logger = new Logger('warn', (line) => void lines.push(line));
    const store = await RedisKeyValue.open({ url: own.url, clock: Date.now, logger });
    const raw = new Redis(own.url);
    const evictBy = (policy: string) => raw.config('SET', 'maxmemory-policy', policy);
    try {
      await store.put('a', 1, 60_000);
      await evictBy('allkeys-lru');
      const refusal = () =>
        store.get('a').then(
          () => '',
          (error: unknown) => String(error),
        );
      await eventually(async () => (await refusal()).includes('its maxmemory-policy is allkeys-lru'), 'a refusal');
      expect(lines.filter((line) => line.includes('allkeys-lru'))).toHaveLength(1);
      expect(store.redis.isUnavailable).toBe(true);
      await evictBy('noeviction');
      await answers(() => store.get('a'));
      expect([await store.get('a'), store.redis.isUnavailable]).toEqual([1, false]);
    } finally {
      raw.disconnect();
      await store.close();
      await own.stop();
    }
  });
});

describeOwnRedis('a Redis Cluster', () => {
  let server: RedisServer;
  let url: string;
  beforeAll(async () => {
    // One node with all slots refuses a call across slots as many nodes would.
    server = await RedisServer.start({ 'cluster-enabled': 'yes', 'cluster-announce-ip': '127.0.0.1' });
    const node = await RedisConnection.open(server.url);
    await node.send((client) => client.call('CLUSTER', 'ADDSLOTSRANGE', 0, 16_383));
    await eventually(
      async () => /cluster_state:ok/.test(String(await node.send((client) => client.call('CLUSTER', 'INFO')))),
      'the cluster',
    );
    await node.close();
    url = `${server.url}?cluster=true`;
  });
  afterAll(() => server?.stop());

  test('that is lost is unavailable, soon at once, and works again by itself', async () => {
    const store = await RedisKeyValue.open({ url, prefix: 'lost', clock: Date.now });
    await store.put('a', 1, 60_000);
    await server.kill();
    try {
      await expect(store.get('a')).rejects.toThrow(StoreUnavailable);
      await refusesAtOnce(store);
      await Promise.all(Array.from({ length: 100 }, () => expect(store.get('a')).rejects.toThrow(AT_ONCE)));
    } finally {
      // The tests after this one need it.
      await server.run();
    }
    await answers(() => store.put('a', 2, 60_000));
    expect(await store.get('a')).toBe(2);
    await store.close();
  });

  let places = 0;
  const place = () => ({ url, prefix: `place-${++places}` });
  const destroy = async () => undefined;
  describeKeyValue('Redis Cluster', async (clock) => {
    const at = place();
    return { open: () => RedisKeyValue.open({ ...at, clock }), destroy, wait: (ms) => sleep(ms) };
  });
  describeJobs('BullMQ in a Redis Cluster', async () => {
    const { prefix } = place();
    return { open: (keptMs) => Promise.resolve(new BullmqJobs(url, { prefix: `{${prefix}}`, keptMs })), destroy };
  });
});

describeOwnRedis('a user of Redis with few rights', () => {
  let server: RedisServer;
  let url: string;
  beforeAll(async () => {
    server = await RedisServer.start();
    const admin = new Redis(server.url);
    const documented = /^redis-cli ACL (SETUSER credence .*)$/m.exec(readFileSync('docs/cluster.md', 'utf8'))![1]!;
    await admin.call('ACL', ...documented.replaceAll("'", '').split(' '));
    await admin.call('ACL', 'SETUSER', 'uninformed', 'on', '>password', '~*', '&*', '+@all', '-info');
    await admin.quit();
    url = server.url.replace('//', '//credence:password@');
  });
  afterAll(() => server?.stop());

  test('is refused with one sentence if it may not run INFO', async () => {
    const refused = RedisConnection.open(server.url.replace('//', '//uninformed:password@'));
    await expect(refused).rejects.toThrow(StartError);
    await expect(refused).rejects.toThrow(
      /^Redis at 127\.0\.0\.1:\d+: the user .* may not run INFO; docs\/cluster\.md lists/,
    );
  });

  let places = 0;
  const place = () => ({ url, prefix: `{place-${++places}}` });
  const destroy = async () => undefined;
  describeKeyValue('with the documented rights', async (clock) => {
    const at = place();
    return { open: () => RedisKeyValue.open({ ...at, clock }), destroy, wait: (ms) => sleep(ms) };
  });
  describeJobs('with the documented rights', async () => {
    const { prefix } = place();
    return { open: (keptMs) => Promise.resolve(new BullmqJobs(url, { prefix, keptMs })), destroy };
  });
});

/** Waits until the server is known to be unavailable: the first requests wait for it. */
const refusesAtOnce = (store: RedisKeyValue) =>
  eventually(async () => {
    const refusal = await store.get('a').catch((error: Error) => error);
    expect(refusal).toBeInstanceOf(StoreUnavailable);
    return AT_ONCE.test((refusal as Error).message);
  }, 'a refusal at once');

/** Waits until it no longer fails. */
async function answers(action: () => Promise<unknown>): Promise<void> {
  let last: unknown;
  const succeeds = () =>
    action().then(
      () => true,
      (error: unknown) => ((last = error), false),
    );
  await eventually(succeeds, 'an answer').catch((cause: unknown) => {
    throw new Error(`no answer; the last attempt failed with ${String(last)}`, { cause });
  });
}
