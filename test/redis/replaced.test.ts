import { copyFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { verify } from '../../src/read-side/verify.js';
import { eventually, recovery } from '../contracts/harness.js';
import { temporaryFolder } from '../embedded/temporary-folder.js';
import type { Answer } from '../http/client.js';
import { RedisServer, describeOwnRedis } from '../servers/redis.js';
import { type RedisService, startRedisService } from './service.js';

const SCORE = '/v1/disc/score/tris:alice';
const MANIFEST = '{credence:views}:manifest';

/** A Redis whose snapshots a test makes, moves and loads, and the service on it with a log of its own. */
async function start(options: Record<string, string> = {}) {
  const folder = await temporaryFolder();
  const redis = await RedisServer.start({ dir: folder.path, ...options });
  const service = await startRedisService(redis.url);
  const raw = new Redis(redis.url);
  raw.on('error', () => undefined);
  return {
    redis,
    service,
    raw,
    dump: join(folder.path, 'dump.rdb'),
    async stop() {
      raw.disconnect();
      await service.close();
      await redis.stop();
      await folder.remove();
    },
  };
}
type Own = Awaited<ReturnType<typeof start>>;

describeOwnRedis('a Redis that was replaced or went back', () => {
  const started: Own[] = [];
  const own = async (options?: Record<string, string>): Promise<Own> => {
    started.push(await start(options));
    return started.at(-1)!;
  };
  afterEach(() => Promise.all(started.splice(0).map((one) => one.stop())).then(() => undefined));

  test('the dump of another log: 503 read_models_foreign, nothing in it changes, and the right Redis restores the service', async () => {
    const here = await own();
    const there = await own();
    const score = await scoreAfter(here.service, 3);
    await scoreAfter(there.service, 7);
    await here.raw.save();
    await copyFile(here.dump, `${here.dump}.own`);
    await there.raw.save();
    await here.redis.kill();
    await copyFile(there.dump, here.dump);
    await here.redis.run();

    const state = (raw: Redis) => generationState(raw);
    const foreign = await state(there.raw);
    await eventually(async () => (await here.service.get(SCORE)).json.code === 'read_models_foreign');
    await eventually(async () => (await refusalOf(here.service)) === 'read_models_foreign');
    const head = await here.service.stores.eventStore.head();
    const until_ms = performance.now() + 3_000;
    while (performance.now() < until_ms) {
      const { status, json } = await here.service.get(SCORE);
      expect([status, json.code]).toEqual([503, 'read_models_foreign']);
      expect(await refusalOf(here.service)).toBe('read_models_foreign');
      await sleep(20);
    }
    expect(await here.service.stores.eventStore.head()).toBe(head);
    expect(await state(here.raw)).toEqual(foreign);
    expect(await here.raw.hgetall(MANIFEST)).toEqual(await there.raw.hgetall(MANIFEST));
    const ready = await here.service.get('/health/ready');
    expect([ready.status, ready.text]).toEqual([503, expect.stringContaining('read_models_foreign')]);
    const said = here.service.lines.filter((line) => line.includes('read_models_foreign'));
    // One of what is wrong and what is to be done, one of the first request that was refused, read or command.
    expect(said).toHaveLength(2);
    expect(said.filter((line) => line.includes('"level":"error"'))).toEqual([
      expect.stringContaining('Bring back the Redis that belongs to this log'),
    ]);

    await here.redis.kill();
    await copyFile(`${here.dump}.own`, here.dump);
    await here.redis.run();
    await recovery(
      'the right Redis is back',
      eventually(async () => (await refusalOf(here.service)) === null),
    );
    const position = await here.service.relay('tris:bob');
    await eventually(async () => (await here.service.get(SCORE, { 'credence-min-position': position })).status === 200);
    expect(scoreOf(await here.service.get(SCORE))).toEqual(score);
    expect((await verify(here.service.stores.eventStore, here.service.stores.readModels)).difference).toBeNull();
  });

  test('an older snapshot of itself: no read goes back in time', async () => {
    const { redis, raw, service } = await own();
    await scoreAfter(service, 2);
    await raw.save();
    const score = await scoreAfter(service, 3);
    const resume = await service.stopProjector();
    await redis.kill();
    await redis.run();
    await eventually(async () => (await service.get(SCORE)).json.code === 'projection_behind');
    for (let i = 0; i < 20; i++) expect((await service.get(SCORE)).json.code).toBe('projection_behind');
    await resume();
    await recovery(
      'an older snapshot of Redis',
      eventually(async () => (await service.get(SCORE)).status === 200),
    );
    expect(scoreOf(await service.get(SCORE))).toEqual(score);
  });

  test('an older snapshot, loaded while a worker runs: the position of a read is never before that of an earlier one', async () => {
    const { redis, raw, service } = await own();
    await scoreAfter(service, 2);
    await raw.save();
    const score = await scoreAfter(service, 30);
    let seen = 0;
    let ended = false;
    const wrong: unknown[] = [];
    const codes = new Set<string>();
    const reader = async () => {
      while (!ended) {
        const floor = seen;
        const answer = await service.get(SCORE);
        if (answer.status !== 200) codes.add(answer.json.code);
        else if (positionOf(answer.json.position) < floor) wrong.push([floor, answer.json]);
        else seen = Math.max(seen, positionOf(answer.json.position));
      }
    };
    const readers = Array.from({ length: 4 }, reader);
    await eventually(async () => seen > 0);
    await redis.kill();
    await eventually(async () => codes.has('store_unavailable'));
    await redis.run();
    await eventually(async () => (await service.get(SCORE)).status === 200);
    await service.relay('tris:bob');
    await eventually(async () => scoresEqual(await service.get(SCORE), score));
    ended = true;
    await Promise.all(readers);
    expect(wrong).toEqual([]);
    expect((await verify(service.stores.eventStore, service.stores.readModels)).difference).toBeNull();
  });

  test('a manifest that alone went back, as when its node of a Redis Cluster is replaced: no read goes back behind a promotion', async () => {
    const { redis, raw, service } = await own();
    await scoreAfter(service, 2);
    const before = await raw.hgetall(MANIFEST);
    const position = await service.post('/v1/models/disc-2/promote', {});
    const modelOf = async () => {
      const { status, json } = await service.get(SCORE, { 'credence-min-position': position });
      return status === 200 ? json.model.id : json.code;
    };
    await eventually(async () => (await modelOf()) === 'disc-2');
    const resume = await service.stopProjector();
    await raw.hset(MANIFEST, before);
    await raw.save();
    await redis.kill();
    await redis.run();
    await eventually(async () => (await modelOf()) === 'projection_behind');
    for (let i = 0; i < 20; i++) expect(await modelOf()).toBe('projection_behind');
    await resume();
    await eventually(async () => (await modelOf()) === 'disc-2');

    // Also while a worker runs, which has applied the promotion already.
    await raw.hset(MANIFEST, before);
    await raw.save();
    await redis.kill();
    await redis.run();
    await eventually(async () => (await raw.hget(MANIFEST, 'text'))?.includes('"lens_revision":-1') === false);
    await eventually(async () => (await modelOf()) === 'disc-2');
  });

  test.each(['rows', 'index', 'ranges'])(
    'a generation that has lost its %s is never read or applied to again: another is built',
    async (part) => {
      const { raw, service } = await own();
      const score = await scoreAfter(service, 5);
      const [key] = await raw.keys(`{credence:g1:*:${part}`);
      await raw.unlink(key!);
      const seen = new Set<string>();
      await recovery(
        'lost rows',
        eventually(async () => {
          const answer = await service.get(SCORE);
          seen.add(answer.status === 200 ? 'right' : answer.json.code);
          if (answer.status === 200) expect(scoreOf(answer)).toEqual(score);
          return answer.status === 200 && (await raw.keys('{credence:g1:*')).length === 0;
        }),
      );
      expect([...seen]).toContain('read_models_damaged');
      expect(service.lines.join('')).toContain('read_models_damaged: g1 lost rows');
      expect((await verify(service.stores.eventStore, service.stores.readModels)).difference).toBeNull();
    },
  );

  test('commands are refused while the serving rows are lost and no worker builds them again', async () => {
    const { raw, service } = await own();
    await scoreAfter(service, 1);
    const resume = await service.stopProjector();
    const [key] = await raw.keys('{credence:g1:*:rows');
    await raw.unlink(key!);
    await eventually(async () => (await refusalOf(service)) === 'read_models_damaged');
    const ready = await service.get('/health/ready');
    expect([ready.status, ready.text]).toEqual([503, expect.stringContaining('read_models_damaged: g1')]);
    await resume();
    await eventually(async () => (await refusalOf(service)) === null);
  });

  test('a Redis that was emptied: the log is folded again', async () => {
    const { raw, service } = await own();
    const score = await scoreAfter(service, 5);
    await raw.flushall();
    const losses = () => service.lines.filter((line) => line.includes('read models are gone')).length;
    await eventually(async () => {
      const answer = await service.get(SCORE);
      if (answer.status === 200) expect(scoreOf(answer)).toEqual(score);
      else expect(answer.json.code).toBe('projection_rebuilding');
      return answer.status === 200 && losses() > 0;
    });
    expect((await verify(service.stores.eventStore, service.stores.readModels)).difference).toBeNull();
    expect(service.lines.join('')).toContain('read models are gone: they are built again from the log');
  });

  test('eviction enabled at run time: reads and commands are refused while it is enabled, even if nothing was evicted', async () => {
    const { raw, service } = await own();
    const score = await scoreAfter(service, 5);
    await raw.config('SET', 'maxmemory-policy', 'allkeys-lru');
    await eventually(async () => (await service.get(SCORE)).json.code === 'read_models_damaged');
    await eventually(async () => (await refusalOf(service)) === 'read_models_damaged');
    const ready = await service.get('/health/ready');
    expect([ready.status, ready.text]).toEqual([503, expect.stringContaining('maxmemory-policy is allkeys-lru')]);
    expect(service.lines.filter((line) => line.includes('allkeys-lru') && !line.includes('request_id'))).toHaveLength(
      1,
    );
    await raw.config('SET', 'maxmemory-policy', 'noeviction');
    await recovery(
      'eviction is off again',
      eventually(async () => (await service.get(SCORE)).status === 200),
    );
    expect(scoreOf(await service.get(SCORE))).toEqual(score);
    await eventually(async () => (await refusalOf(service)) === null);
  });

  test('memory that is nearly full while eviction is on: no wrong score is served, and all are right again after it', async () => {
    const { raw, service } = await own();
    const members = Array.from({ length: 20 }, (_, n) => `tris:member-${n}`);
    const positions = await Promise.all(members.flatMap((id) => [service.relay(id), service.relay(id)]));
    const last = positions.reduce((a, b) => (positionOf(b) > positionOf(a) ? b : a));
    await eventually(async () => (await service.get(SCORE, { 'credence-min-position': last })).status === 404);
    const used = Number(/used_memory:(\d+)/.exec(await raw.info('memory'))![1]);
    await raw.config('SET', 'maxmemory', String(used - 200_000));
    await raw.config('SET', 'maxmemory-policy', 'allkeys-lru');
    const wrong: unknown[] = [];
    const look = async () => {
      for (const id of members) {
        const { status, json } = await service.get(`/v1/disc/score/${id}`);
        if (status === 404 || (status === 200 && json.total_tct !== 200)) wrong.push([status, json]);
      }
    };
    const end = performance.now() + 4_000;
    while (performance.now() < end) {
      await service.relay('tris:other').catch(() => undefined);
      await look();
    }
    await raw.config('SET', 'maxmemory', '0');
    await raw.config('SET', 'maxmemory-policy', 'noeviction');
    await eventually(async () => (await service.get(`/v1/disc/score/${members[0]!}`)).status === 200);
    await look();
    expect(wrong).toEqual([]);
  });
});

const LEASE = new Set(['holder', 'until', 'ttl']);

/** Everything of the generation but its lease, which its own projector renews. */
async function generationState(raw: Redis): Promise<unknown> {
  const keys = (await raw.keys('{credence:g*')).sort();
  const states = await Promise.all(keys.filter((key) => key.endsWith(':state')).map((key) => raw.hgetall(key)));
  return {
    keys,
    states: states.map((state) =>
      Object.entries(state)
        .filter(([name]) => !LEASE.has(name))
        .sort(),
    ),
  };
}

/** Relays so many actions of alice, and answers her score with them. */
async function scoreAfter(service: RedisService, actions: number): Promise<unknown> {
  let position = '';
  for (let n = 0; n < actions; n++) position = await service.relay('tris:alice');
  let answer: Answer;
  await eventually(async () => {
    answer = await service.get(SCORE, { 'credence-min-position': position });
    return answer.status === 200;
  });
  return scoreOf(answer!);
}

/** The code with which a command is refused; null if it is recorded. */
async function refusalOf(service: RedisService): Promise<string | null> {
  try {
    await service.relay('tris:bob');
    return null;
  } catch (error) {
    return (JSON.parse((error as Error).message) as { code: string }).code;
  }
}

/** Without what also changes by what others do, and by which generation serves. */
const scoreOf = ({ json }: Answer): unknown => ({ ...json, position: undefined, generation: undefined });
const scoresEqual = (answer: Answer, score: unknown) =>
  answer.status === 200 && JSON.stringify(scoreOf(answer)) === JSON.stringify(score);
const positionOf = (position: string) => Number(position.split('.')[1]);
