import { join } from 'node:path';
import fc from 'fast-check';
import { Redis } from 'ioredis';
import { decorated } from '../../src/kernel/decorated.js';
import { PROJECTIONS } from '../../src/read-side/all-projections.js';
import { viewsOf } from '../../src/read-side/own-views.js';
import { Follower } from '../../src/read-side/follower.js';
import { generationProgress } from '../../src/read-side/generations.js';
import { helpBuild } from '../../src/read-side/shared-build.js';
import { BullmqJobs } from '../../src/stores/redis/bullmq-jobs.js';
import { EncodedRows } from '../../src/stores/ports/encoded-rows.js';
import type { EventStore } from '../../src/stores/ports/event-store.js';
import type { ReadModels } from '../../src/stores/ports/read-models.js';
import type { PartName, SharedBuild } from '../../src/stores/ports/shared-build.js';
import { RedisReadModels } from '../../src/stores/redis/redis-read-models.js';
import { contentOf, severalLogs } from '../contracts/builds.js';
import { eventually } from '../contracts/harness.js';
import { plantAction } from '../contracts/sample-events.js';
import { Child } from '../embedded/processes/child.js';
import { temporaryFolder } from '../embedded/temporary-folder.js';
import { logOf } from '../projections/log.js';
import { type RedisPlace, describeRedis, startRedis } from '../servers/redis.js';
import { type SharingSizes, openLog, watchClaims } from './sharing.js';

/** A generation that several processes build has the rows of one that a process builds alone, whatever happens to them. */

const VIEWS = viewsOf(PROJECTIONS);
const { signal } = new AbortController();
const sizes: SharingSizes = { from: 0, divideFrom: 0, eventsPerPart: 40, claimMs: 1_000 };

describeRedis('a build that several processes share', () => {
  let redis: Awaited<ReturnType<typeof startRedis>>;
  let folder: Awaited<ReturnType<typeof temporaryFolder>>;
  let store: EventStore;
  let place: RedisPlace;
  let models: RedisReadModels;
  let generations = 0;

  beforeAll(async () => {
    redis = await startRedis();
    folder = await temporaryFolder();
    store = await openLog(join(folder.path, 'log'));
    const appends = logOf(severalLogs()).map(({ stream, id, type, data, metadata }) =>
      store.append(stream, 'any', [{ id, type, data, metadata }]),
    );
    await Promise.all(appends);
    for (let n = 0; n < 200; n++) await plantAction(store, { tris_id: `tris:many-${n % 40}`, n });
  });
  afterAll(async () => {
    await store?.close();
    await folder?.remove();
    await redis?.stop();
  });
  beforeEach(async () => {
    place = redis.place();
    models = await RedisReadModels.open(place);
  });
  afterEach(async () => {
    await models.close();
    await place.clear();
  });

  async function newGeneration(): Promise<string> {
    const id = `g${++generations}`;
    await models.createGeneration(id, VIEWS, store.logId);
    return id;
  }

  const follower = (own: SharingSizes, through: ReadModels = models, jobs?: BullmqJobs) =>
    new Follower(store, through, { sharedSizes: own, jobs });

  async function built(own: SharingSizes, id?: string): Promise<string> {
    id ??= await newGeneration();
    expect(await follower(own).follow(id, { signal, toHead: true })).toBe('at_head');
    return id;
  }

  const content = (id: string) => contentOf(models, id);
  const ordinary = async () => content(await built({ from: Infinity }));

  /** The keys of builds. */
  async function leftovers(): Promise<string[]> {
    const client = new Redis(place.url);
    const keys = await client.keys(`*${place.prefix}*:build:*`);
    await client.quit();
    return keys;
  }

  test('has the rows and the checkpoint that the ordinary follower leaves, however it is divided', async () => {
    const expected = await ordinary();
    await fc.assert(
      fc.asyncProperty(fc.constantFrom(10, 35, 90, 1_000), fc.integer({ min: 0, max: 2 }), async (each, helpers) => {
        const id = await newGeneration();
        const own = { ...sizes, eventsPerPart: each };
        const helping: Promise<void>[] = [];
        const leader = watchClaims(models, async () => {
          if (helping.length >= helpers) return;
          const { plan } = (await models.sharedBuild(id))!;
          helping.push(helpBuild(id, plan.id, store, models, { signal, sizes: own }));
        });
        expect(await follower(own, leader).follow(id, { signal, toHead: true })).toBe('at_head');
        await Promise.all(helping);
        expect(await content(id)).toEqual(expected);
        expect(await leftovers()).toEqual([]);
        await models.dropGeneration(id);
      }),
      { numRuns: 8 },
    );
  });

  describe('of a log that fits in memory', () => {
    const undivided = { ...sizes, divideFrom: Infinity };

    test('has the same rows, and is one part to which nobody is invited', async () => {
      const id = await newGeneration();
      const claimed: PartName[] = [];
      const watched = watchClaims(models, (part) => void claimed.push(part));
      const jobs = await BullmqJobs.open(place.url, { prefix: `{${place.prefix}-jobs}` });
      let events = 0;
      const onApplied = (_: unknown, more: number) => (events += more);
      const ended = await follower(undivided, watched, jobs).follow(id, { signal, toHead: true, onApplied });
      expect(ended).toBe('at_head');
      expect(claimed).toEqual(['range:0']);
      expect(await jobs.list({})).toEqual([]);
      expect(events).toBe(await store.countAfter(0));
      expect(await content(id)).toEqual(await ordinary());
      expect(await leftovers()).toEqual([]);
      await jobs.close();
    });

    test('begins again where it was interrupted, before or after its rows are written', async () => {
      const expected = await ordinary();
      for (const at of ['claim', 'complete'] as const) {
        const id = await newGeneration();
        const [empty] = await content(id);
        const stopping = new AbortController();
        const stopped = watchClaims(models, () => {
          if (at === 'claim') stopping.abort();
        });
        const interrupted = decorated(stopped, {
          beginBuild: async (...args) => {
            const build = (await stopped.beginBuild!(...args))!;
            const complete: SharedBuild['complete'] = async () => {
              stopping.abort();
              return false;
            };
            return at === 'claim' ? build : decorated(build, { complete });
          },
        });
        await follower(undivided, interrupted).follow(id, { signal: stopping.signal, toHead: true });
        expect(await content(id)).toEqual([empty]);
        expect(await leftovers()).not.toEqual([]);
        expect(await content(await built(undivided, id))).toEqual(expected);
      }
    });

    test('is divided after all if its rows take too much memory', async () => {
      const id = await newGeneration();
      const claimed: PartName[] = [];
      const watched = watchClaims(models, (part) => void claimed.push(part));
      const small = { ...undivided, partitionBytes: 60_000 };
      expect(await follower(small, watched).follow(id, { signal, toHead: true })).toBe('at_head');
      expect(claimed.filter((part) => part === 'range:0')).toHaveLength(2);
      expect(claimed).toContain('partition:1');
      expect(await content(id)).toEqual(await ordinary());
      expect(await leftovers()).toEqual([]);
    });
  });

  test('is divided where memory is short', async () => {
    const id = await newGeneration();
    // About ten marks, of 5,000 events each.
    const every = Math.ceil((await store.head()) / 10);
    const script = new URL('./processes/short-of-memory.ts', import.meta.url);
    const args = [join(folder.path, 'log'), place.url, place.prefix, id, String(every)];
    const child = new Child(script, args, { NODE_OPTIONS: '--max-old-space-size=200' });
    if ((await child.exited) !== 0) throw new Error(child.stderr);
    expect(child.lines).toContainEqual({ part: 'partition:1' });
    expect(child.lines.at(-1)).toEqual({ ended: 'at_head' });
    expect(await content(id)).toEqual(await ordinary());
  });

  test('shows nothing before it is complete, tells its progress, and continues where it was interrupted', async () => {
    const expected = await ordinary();
    const id = await newGeneration();
    const [empty] = await content(id);
    const done: PartName[] = [];
    let events = 0;
    for (let isBuilt = false; !isBuilt;) {
      const stopping = new AbortController();
      let claims = 0;
      const interrupted = watchClaims(models, (part) => {
        if (++claims === 4) stopping.abort();
        // The third may not be stored yet.
        else if (claims < 3) done.push(part);
      });
      const onApplied = (_: unknown, more: number) => (events += more);
      const ended = await follower(sizes, interrupted).follow(id, { signal: stopping.signal, toHead: true, onApplied });
      isBuilt = ended === 'at_head';
      if (!isBuilt) expect(await content(id)).toEqual([empty]);
    }
    expect(await content(id)).toEqual(expected);
    expect(new Set(done).size).toBe(done.length);
    expect(events).toBeGreaterThanOrEqual(await store.countAfter(0));
  });

  test('counts as applied, for every process, what the work of all corresponds to', async () => {
    const id = await newGeneration();
    const seen: number[] = [];
    const look = async () => {
      const found = await generationProgress(store, models, Date.now);
      const { applied, lag } = found.find((generation) => generation.id === id)!;
      expect(applied + lag.events).toBe(await store.countAfter(0));
      seen.push(applied);
    };
    await follower(sizes, watchClaims(models, look)).follow(id, { signal, toHead: true });
    expect(seen).toEqual([...seen].sort((a, b) => a - b));
    expect(seen[0]).toBe(0);
    expect(new Set(seen).size).toBeGreaterThan(seen.length / 2);
    await look();
    expect(seen.at(-1)).toBe(await store.countAfter(0));
  });

  test('refuses what a process writes to a part that another has taken, and to a build that has ended', async () => {
    let now = 1_800_000_000_000;
    await models.close();
    const clocked = (models = await RedisReadModels.open({ ...place, clock: () => now }));
    const id = await newGeneration();
    await clocked.acquireLease(id, 'leader', 60_000, store.logId);
    const event = (await store.readAt(await store.head()))!;
    const plan = { id: 'build', ranges: [event.position], event_id: event.id, partitions: 1 };
    const build = (await clocked.beginBuild(id, 'leader', store.logId, plan))!;
    const row = EncodedRows.of([{ row: { view: 'timeline', key: 'tris:a', sort: '1' }, value: ['mine'] }]);
    const writes = (holder: string) => [
      () => build.spill('range:0', holder, 0, 0, Buffer.alloc(0)),
      () => build.renew('range:0', holder, 1_000, 1),
      () => build.put('range:0', holder, row),
      () => build.complete('range:0', holder, 1),
    ];
    const outcomes = async (holder: string) => {
      const found: boolean[] = [];
      for (const write of writes(holder)) found.push(await write());
      return found;
    };

    expect(await build.claim('range:0', 'slow', 1_000)).toBe(true);
    expect(await build.claim('range:0', 'other', 1_000)).toBe(false);
    now += 1_001;
    expect(await build.claim('range:0', 'other', 1_000)).toBe(true);
    expect(await outcomes('slow')).toEqual([false, false, false, false]);
    expect(await outcomes('other')).toEqual([true, true, true, true]);
    expect(await outcomes('slow')).toEqual([false, false, false, false]);
    expect(await build.claim('range:0', 'slow', 1_000)).toBe(false);

    const next = { log: store.logId, position: event.position, event_id: event.id };
    expect(await build.finish('another', next)).toBe(false);
    expect(await build.finish('leader', next)).toBe(true);
    expect(await build.finish('leader', next)).toBe(true);
    expect(await outcomes('other')).toEqual([false, false, false, false]);
    expect(await content(id)).toHaveLength(2);

    const dropped = await newGeneration();
    await clocked.acquireLease(dropped, 'leader', 60_000, store.logId);
    const second = (await clocked.beginBuild(dropped, 'leader', store.logId, { ...plan, id: 'second' }))!;
    await second.claim('range:0', 'slow', 1_000);
    await second.spill('range:0', 'slow', 0, 0, Buffer.alloc(0));
    await second.put('range:0', 'slow', row);
    await clocked.dropGeneration(dropped);
    expect(await second.put('range:0', 'slow', row)).toBe(false);
    expect(await second.state()).toBeUndefined();
    expect(await leftovers()).toEqual([]);
  });

  test('is right where its rows or events were lost, or where the log has lost its last event', async () => {
    const expected = await ordinary();
    const lose = async (pattern: string) => {
      const client = new Redis(place.url);
      const keys = await client.keys(`*${place.prefix}*:build:${pattern}`);
      expect(keys).not.toEqual([]);
      await client.unlink(...keys);
      await client.quit();
    };
    for (const [part, pattern] of [
      ['partition:0', 'events:0'],
      ['partition:2', 'ranges'],
    ]) {
      const id = await newGeneration();
      let isLost = false;
      const losing = watchClaims(models, async (claimed) => {
        if (claimed !== part || isLost) return;
        isLost = true;
        await lose(pattern!);
      });
      expect(await follower(sizes, losing).follow(id, { signal, toHead: true })).toBe('at_head');
      expect(isLost).toBe(true);
      expect(await content(id)).toEqual(expected);
    }
    const id = await newGeneration();
    await models.acquireLease(id, 'leader', 60_000, store.logId);
    const plan = { id: 'old', ranges: [await store.head()], event_id: 'lost', partitions: 1 };
    await models.beginBuild(id, 'leader', store.logId, plan);
    await models.releaseLease(id, 'leader');
    expect(await content(await built(sizes, id))).toEqual(expected);
  });

  test('leaves a log to the ordinary follower if a range of it, or one identity, has too many events', async () => {
    for (const partitionBytes of [1_000, 16_000]) {
      const id = await newGeneration();
      const claimed: PartName[] = [];
      const watched = watchClaims(models, (part) => void claimed.push(part));
      const small = { ...sizes, partitionBytes };
      expect(await follower(small, watched).follow(id, { signal, toHead: true })).toBe('at_head');
      expect(claimed).not.toEqual([]);
      expect(await content(id)).toEqual(await ordinary());
      expect(await leftovers()).toEqual([]);
    }
  });

  test('does not take a range for divided of which the log gave only a part', async () => {
    let reads = 0;
    const cut = new Proxy(store, {
      get(_, name) {
        if (name === 'readAll' && reads++ === 1) return async function* () {};
        const value: unknown = Reflect.get(store, name);
        return typeof value === 'function' ? value.bind(store) : value;
      },
    });
    const id = await newGeneration();
    const own = new Follower(cut, models, { sharedSizes: sizes });
    expect(await own.follow(id, { signal, toHead: true })).toBe('at_head');
    expect(reads).toBeGreaterThan(1);
    expect(await content(id)).toEqual(await ordinary());
  });

  test('is not removed by a process that stood still since the build before it', async () => {
    const id = await newGeneration();
    await models.acquireLease(id, 'leader', 60_000, store.logId);
    const event = (await store.readAt(await store.head()))!;
    const plan = { id: 'first', ranges: [event.position], event_id: event.id, partitions: 1 };
    const first = (await models.beginBuild(id, 'leader', store.logId, plan))!;
    await first.discard();
    const second = (await models.beginBuild(id, 'leader', store.logId, { ...plan, id: 'second' }))!;
    await second.claim('range:0', 'worker', 1_000);
    await second.spill('range:0', 'worker', 0, 0, Buffer.from('events'));
    await first.discard();
    expect(await second.spilled(0, 0)).toEqual(Buffer.from('events'));
    expect(await second.complete('range:0', 'worker', 1)).toBe(true);
    await second.discard();
    expect(await leftovers()).toEqual([]);
  });

  describe('with a worker in another process', () => {
    const HELPER = new URL('./processes/build-helper.ts', import.meta.url);
    let worker: Child;
    let jobs: BullmqJobs;

    beforeEach(async () => void (jobs = await BullmqJobs.open(place.url, { prefix: `{${place.prefix}-jobs}` })));
    afterEach(async () => {
      await worker.kill();
      await jobs.close();
    });

    /** The build of a process that waits until the worker has claimed a part, before it claims its second one. */
    async function buildBeside(id: string, then: () => Promise<void> | void, each = sizes): Promise<PartName[]> {
      worker = new Child(HELPER, [join(folder.path, 'log'), place.url, place.prefix, JSON.stringify(each)]);
      await worker.printed(1);
      const own: PartName[] = [];
      let claimed: Promise<void> | undefined;
      const waiting = watchClaims(
        models,
        (part) => void own.push(part),
        () => {
          if (own.length > 0) claimed ??= worker.printed(2).then(then);
          return claimed;
        },
      );
      expect(await follower(each, waiting, jobs).follow(id, { signal, toHead: true })).toBe('at_head');
      return own;
    }
    const claimedByWorker = () => worker.lines.flatMap((line) => (line as { part?: PartName }).part ?? []);

    test('both work on it, each on parts of its own', async () => {
      const expected = await ordinary();
      const id = await newGeneration();
      // No claim ends, however late it is renewed.
      const own = await buildBeside(id, () => worker.send('go'), { ...sizes, claimMs: 600_000 });
      expect(await content(id)).toEqual(expected);
      expect(claimedByWorker().filter((part) => own.includes(part))).toEqual([]);
      expect(claimedByWorker().length).toBeGreaterThan(0);
    });

    test('one that is killed costs the part that it worked on', async () => {
      const expected = await ordinary();
      const id = await newGeneration();
      const own = await buildBeside(id, () => worker.kill());
      expect(await content(id)).toEqual(expected);
      expect(claimedByWorker()).toHaveLength(1);
      expect(own).toContain(claimedByWorker()[0]);
      expect(new Set(own).size).toBe(own.length);
    });

    test('one that stood still until the build was over changes nothing', async () => {
      const expected = await ordinary();
      const id = await newGeneration();
      const own = await buildBeside(id, () => worker.signal('SIGSTOP'));
      expect(own).toContain(claimedByWorker()[0]);
      worker.signal('SIGCONT');
      worker.send('go');
      await eventually(() => worker.lines.some((line) => 'ended' in (line as object)), 'the worker ends its help');
      expect(await content(id)).toEqual(expected);
      expect(await leftovers()).toEqual([]);
    });
  });
});
