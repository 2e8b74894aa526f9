import { jest } from '@jest/globals';
import { readdir, writeFile } from 'node:fs/promises';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { decorated } from '../../src/kernel/decorated.js';
import { Logger } from '../../src/kernel/logger.js';
import { PROJECTIONS } from '../../src/read-side/all-projections.js';
import { viewsOf } from '../../src/read-side/own-views.js';
import { type BuildSizes, build } from '../../src/read-side/build.js';
import { Blocks, TemporaryFile } from '../../src/read-side/build-files.js';
import { Follower } from '../../src/read-side/follower.js';
import { ensureManifest } from '../../src/read-side/manifest.js';
import { Projector } from '../../src/read-side/projector.js';
import { LmdbEventStore } from '../../src/stores/lmdb/lmdb-event-store.js';
import { LmdbReadModels } from '../../src/stores/lmdb/lmdb-read-models.js';
import { EncodedRows, type PlacedRows } from '../../src/stores/ports/encoded-rows.js';
import { StoreUnavailable } from '../../src/stores/ports/event-store.js';
import { type Checkpoint, type ReadModels, startOf } from '../../src/stores/ports/read-models.js';
import { contentOf, severalLogs } from '../contracts/builds.js';
import { eventually } from '../contracts/harness.js';
import { plantAction } from '../contracts/sample-events.js';
import { type Given, logOf, platformOf, relayed } from '../projections/log.js';
import { temporaryFolder } from './temporary-folder.js';

/** A generation that was built has the rows that the ordinary follower leaves, whatever interrupts the build. */

const VIEWS = viewsOf(PROJECTIONS);
const { signal } = new AbortController();
let place: Awaited<ReturnType<typeof temporaryFolder>>;
let store: LmdbEventStore;
let models: LmdbReadModels;
let generations = 0;

beforeEach(async () => {
  place = await temporaryFolder();
  store = await LmdbEventStore.open(join(place.path, 'log'), {});
  models = await LmdbReadModels.open(join(place.path, 'views'), { clock: Date.now });
  await append(severalLogs());
});
afterEach(async () => {
  await Promise.all([store.close(), models.close()]);
  await place.remove();
});

async function append(events: readonly Given[]): Promise<void> {
  const appends = logOf(events).map(({ stream, id, type, data, metadata }) =>
    store.append(stream, 'any', [{ id, type, data, metadata }]),
  );
  await Promise.all(appends);
}

async function newGeneration(): Promise<string> {
  const id = `g${++generations}`;
  await models.createGeneration(id, VIEWS, store.logId);
  return id;
}

type Sizes = Partial<BuildSizes>;

async function built(sizes: Sizes, id?: string): Promise<string> {
  id ??= await newGeneration();
  expect(await new Follower(store, models, sizes).follow(id, { signal, toHead: true })).toBe('at_head');
  return id;
}
/** By the ordinary follower. */
async function ordinary(id?: string): Promise<string> {
  id ??= await newGeneration();
  const follower = new Follower(store, decorated<ReadModels>(models, { load: async () => undefined }));
  expect(await follower.follow(id, { signal, toHead: true })).toBe('at_head');
  return id;
}

/** The temporary files that are left. */
async function leftFiles(): Promise<string[]> {
  return existsSync(models.buildFolder) ? readdir(models.buildFolder) : [];
}

const content = (id: string) => contentOf(models, id);

class Killed extends Error {}

/** Builds until this many steps of its progress were reported, and then fails as if the process had been killed. */
async function killedAfter(steps: number, sizes: Sizes, id: string) {
  let left = steps;
  const onApplied = () => {
    if (left-- === 0) throw new Killed();
  };
  const following = new Follower(store, models, sizes).follow(id, { signal, toHead: true, onApplied });
  await following.catch((error: unknown) => {
    if (!(error instanceof Killed)) throw error;
  });
}

const arbitrarySizes = fc.record({
  eventsPerPartition: fc.constantFrom(20, 90, 1_000),
  runBytes: fc.constantFrom(2_000, 1_000_000),
  blockBytes: fc.constantFrom(300, 5_000),
  batchRows: fc.constantFrom(30, 500),
  slice: fc.constantFrom(7, 50),
});

test('has the rows and the checkpoint that the ordinary follower leaves, however often it was killed', async () => {
  const expected = await content(await ordinary());
  const kills = fc.array(fc.integer({ min: 0, max: 40 }), { maxLength: 4 });
  await fc.assert(
    fc.asyncProperty(arbitrarySizes, kills, async (sizes, steps) => {
      const id = await newGeneration();
      for (const after of steps) await killedAfter(after, sizes, id);
      await built(sizes, id);
      expect(await content(id)).toEqual(expected);
      expect(await leftFiles()).toEqual([]);
      await models.dropGeneration(id);
    }),
    { numRuns: 25 },
  );
});

const sizes = { eventsPerPartition: 50, runBytes: 5_000, blockBytes: 1_000, batchRows: 50, slice: 20 };

/** One partition. */
const whole = { batchRows: 50, slice: 20 };

/** Whether the rows of a build are being loaded. Then it takes no batch of an ordinary follower. */
async function isBeingLoaded(id: string): Promise<boolean> {
  await models.acquireLease(id, 'me', 60_000);
  const base = startOf(store.logId);
  const batch = { id: 'batch', base, next: { ...base, event_id: null }, puts: new EncodedRows(), deletes: [] };
  const isLoading = (await models.apply(id, { ...batch, holder: 'me' })) === 'refused';
  await models.releaseLease(id, 'me');
  return isLoading;
}

test('of a short log, has these rows as well, however often it was killed, and needs no files', async () => {
  const expected = await content(await ordinary());
  const withoutFiles = { ...whole, reservedBytes: Infinity };
  let isLoading = false;
  for (let steps = 0; !isLoading; steps++) {
    const id = await newGeneration();
    await killedAfter(steps, withoutFiles, id);
    isLoading = await isBeingLoaded(id);
    await built(withoutFiles, id);
    expect(await content(id)).toEqual(expected);
  }
});

test('of a short log, uses files if its rows take much memory', async () => {
  const much = { ...whole, runBytes: 2_000 };
  await expect(built({ ...much, reservedBytes: Infinity })).rejects.toMatchObject({ code: 'store_full' });
  expect(await content(await built(much))).toEqual(await content(await ordinary()));
  expect(await leftFiles()).toEqual([]);
});

test('shows nothing before it is complete, and takes no batch of an ordinary follower', async () => {
  const id = await newGeneration();
  const [empty] = await content(id);
  let steps = 0;
  for (let isLoading = false; !isLoading; steps++) {
    await killedAfter(steps, sizes, id);
    expect(await content(id)).toEqual([empty]);
    const counts = PROJECTIONS.flatMap(({ views }) => views).map((view) => models.count(id, view));
    expect(new Set(await Promise.all(counts))).toEqual(new Set([0]));
    isLoading = await isBeingLoaded(id);
  }
  expect(await content(await built(sizes, id))).toEqual(await content(await ordinary()));
});

test('tells how many events its work corresponds to, again from 0 if it was interrupted', async () => {
  const id = await newGeneration();
  const follower = new Follower(store, models, sizes);
  const total = await store.countAfter(0);
  for (const steps of [12, 5, Infinity]) {
    const stopping = new AbortController();
    const told: number[] = [];
    const onApplied = (events: number) => {
      if (told.push(events) >= steps) stopping.abort();
    };
    const ended = await follower.follow(id, { signal: stopping.signal, toHead: true, onApplied });
    expect(ended).toBe(steps === Infinity ? 'at_head' : 'aborted');
    expect(told[0]).toBeLessThan(total / 2);
    expect(told).toEqual(told.toSorted((a, b) => a - b));
    if (steps === Infinity) expect(told.at(-1)).toBe(total);
  }
});

test('is told of by a worker that begins it again', async () => {
  await ensureManifest(PROJECTIONS, store, models);
  const id = (await models.generations()).find(({ checkpoint }) => checkpoint.position === 0)!.id;
  await killedAfter(5, sizes, id);
  const lines: string[] = [];
  const projector = new Projector(PROJECTIONS, store, models, new Logger('warn', (line) => lines.push(line)));
  await projector.start();
  const isReady = async () => (await models.generations()).some((each) => each.id === id && each.status === 'ready');
  await eventually(isReady, 'the build has ended');
  await eventually(() => lines.length > 0, 'it is told of');
  await projector.stop();
  expect(lines).toEqual([expect.stringContaining(`the build of ${id} was interrupted: it starts again`)]);
  expect(await content(id)).toEqual(await content(await ordinary()));
});

test('is told of by the process that begins it again after it failed or lost its lease', async () => {
  const id = await newGeneration();
  const lines: string[] = [];
  const logger = new Logger('warn', (line) => lines.push(line));
  const follower = new Follower(store, models, sizes);
  const stopping = new AbortController();
  const follow = (interrupt: () => unknown) =>
    follower.follow(id, { signal: stopping.signal, toHead: true, logger, onApplied: interrupt });
  const again = (what: string) => expect.stringContaining(`the build of ${id} ${what}: it starts again from the beg`);

  expect(await follow(() => models.releaseLease(id, follower.holder))).toBe('lease_lost');
  expect(lines.splice(0)).toEqual([again('lost its lease, or its rows')]);
  const failing = (error: Error) =>
    follow(() => {
      throw error;
    });
  await expect(failing(new StoreUnavailable('away'))).rejects.toThrow(StoreUnavailable);
  expect(lines.splice(0)).toEqual([again('failed')]);
  // Its caller logs it.
  await expect(failing(new Killed('for a reason'))).rejects.toThrow(Killed);
  expect(lines).toEqual([]);
  expect(await follow(() => stopping.abort())).toBe('aborted');
  expect(lines).toEqual([]);
});

test.each(['refuses it', 'fails'])('is not said to start again if it ended and the store then %s', async (what) => {
  const id = await newGeneration();
  const lines: string[] = [];
  const answerIsLost = async (...args: Parameters<ReadModels['load']>) => {
    const load = (await models.load(...args))!;
    const finish = async (next: Checkpoint) => {
      await load.finish(next);
      if (what === 'fails') throw new StoreUnavailable('away');
      return false;
    };
    return decorated(load, { finish });
  };
  const follower = new Follower(store, decorated<ReadModels>(models, { load: answerIsLost }), sizes);
  const logger = new Logger('warn', (line) => lines.push(line));
  const follow = () => follower.follow(id, { signal, toHead: true, logger });
  if (what === 'fails') await expect(follow()).rejects.toThrow(StoreUnavailable);
  else expect(await follow()).toBe('lease_lost');
  expect(await follow()).toBe('at_head');
  expect(lines).toEqual([]);
  expect(await content(id)).toEqual(await content(await ordinary()));
});

test('that fails is logged once by a worker, with the reason', async () => {
  await ensureManifest(PROJECTIONS, store, models);
  const lines: string[] = [];
  let isFailing = true;
  const load = async (...args: Parameters<ReadModels['load']>) => {
    const load = (await models.load(...args))!;
    const append = async (rows: PlacedRows) => {
      if (!isFailing) return load.append(rows);
      isFailing = false;
      throw new Killed('for a reason');
    };
    return decorated(load, { append });
  };
  const failingOnce = decorated<ReadModels>(models, { load });
  const projector = new Projector(PROJECTIONS, store, failingOnce, new Logger('warn', (line) => lines.push(line)));
  await projector.start();
  const isReady = async () => (await models.generations()).every(({ status }) => status === 'ready');
  await eventually(isReady, 'the build has ended');
  await projector.stop();
  expect(lines).toEqual([expect.stringContaining('for a reason')]);
});

test('applies no other event once it is aborted, whether it divides the log or folds a partition', async () => {
  const shared = Array.from({ length: 20 }, (_, n) => platformOf(`platform-${n}`, 'tris:bank'));
  const own = Array.from({ length: 20 }, (_, n) => relayed(`tris:${n}`, 'social_vouch', 'High'));
  await append([...shared, ...own].map((event, n) => ({ ...event, stream: `later-${n}` })));
  const events = await store.countAfter(0);
  const goal = await store.head();
  // The signal is looked at after each slice of the log and each block of a partition: here, after each event.
  const divided = { ...sizes, eventsPerPartition: Math.ceil(events / 2), blockBytes: 1, slice: 1 };
  /** The streams of the events that are applied, with an abort at one of them. */
  const applied = async (abortAt: number) => {
    const streams: string[] = [];
    const stopping = new AbortController();
    const projections = PROJECTIONS.map((projection) =>
      decorated(projection, {
        apply: (event, rows) => {
          if (streams.push(event.stream) > abortAt) stopping.abort();
          projection.apply(event, rows);
        },
      }),
    );
    const options = { projections, events, goal, folder: models.buildFolder, signal: stopping.signal, sizes: divided };
    const result = await build(store, options, async () => true);
    expect(result === 'aborted').toBe(abortAt < Infinity);
    return streams;
  };
  const all = await applied(Infinity);
  /** Where each pass over the log comes to this event. */
  const reached = (stream: string) => [...all.keys()].filter((n) => all[n] === stream && all[n - 1] !== stream);
  const first = { shared: reached('later-0'), own: reached(`later-${shared.length}`) };
  expect([first.shared.length, first.own.length]).toEqual([3, 2]);
  for (const n of [...first.shared, ...first.own]) {
    expect(new Set((await applied(n)).slice(n))).toEqual(new Set([all[n]]));
    expect(await leftFiles()).toEqual([]);
  }
});

test('fails where a temporary file is not what was written', async () => {
  const file = new TemporaryFile(join(place.path, 'build'), 0);
  const blocks = new Blocks(file);
  const bytes = Buffer.from('rows');
  const appending = blocks.append(bytes);
  bytes.write('lost');
  await appending;
  await expect(blocks.read().next()).rejects.toThrow('is not what was written');
  await file.close();
});

test('has the events that were appended meanwhile, and stops before one of a newer schema', async () => {
  const id = await newGeneration();
  await killedAfter(5, sizes, id);
  await plantAction(store, { tris_id: 'tris:later' });
  await built(sizes, id);
  expect(await content(id)).toEqual(await content(await ordinary()));

  await plantAction(store, { tris_id: 'tris:later' }, 99);
  const contents = [];
  for (const [how, readModels] of [
    [sizes, models],
    [whole, models],
    [{}, decorated<ReadModels>(models, { load: async () => undefined })],
  ] as const) {
    const generation = await newGeneration();
    const following = new Follower(store, readModels, how).follow(generation, { signal, toHead: true });
    await expect(following).rejects.toThrow('this build knows up to 2');
    contents.push(await content(generation));
  }
  expect(contents[0]).toEqual(contents[2]);
  expect(contents[1]).toEqual(contents[2]);
});

test('without space for its files, says so, leaves none, and leaves the generation to the ordinary follower', async () => {
  const id = await newGeneration();
  const follower = new Follower(store, models, { ...sizes, reservedBytes: Infinity });
  const follow = () => follower.follow(id, { signal, toHead: true });
  const what = { code: 'store_full', message: expect.stringContaining('temporary files of the build were removed') };
  await expect(follow()).rejects.toMatchObject(what);
  expect(await leftFiles()).toEqual([]);
  expect(await follow()).toBe('at_head');
  expect(await content(id)).toEqual(await content(await ordinary()));
});

test('with a file in place of their folder, says so, and leaves the generation to the ordinary follower', async () => {
  await writeFile(models.buildFolder, '');
  const id = await newGeneration();
  const follower = new Follower(store, models, sizes);
  const follow = () => follower.follow(id, { signal, toHead: true });
  const message = `The temporary files of builds, in ${models.buildFolder}, cannot be used (EEXIST): move that file away.`;
  await expect(follow()).rejects.toMatchObject({ code: 'store_full', message });
  expect(await follow()).toBe('at_head');
  expect(await content(id)).toEqual(await content(await ordinary()));
});

test('leaves a log to the ordinary follower, and no files, if one identity has too many events to fold in memory', async () => {
  const batches = async (partitionBytes: number) => {
    const id = await newGeneration();
    let told = 0;
    const follower = new Follower(store, models, { ...sizes, partitionBytes });
    const apply = jest.spyOn(models, 'apply');
    expect(await follower.follow(id, { signal, toHead: true, onApplied: (events) => (told = events) })).toBe('at_head');
    const { length } = apply.mock.calls;
    apply.mockRestore();
    expect(told).toBe(await store.countAfter(0));
    expect(await leftFiles()).toEqual([]);
    expect(await content(id)).toEqual(await content(await ordinary()));
    return length;
  };
  expect(await batches(2 ** 20)).toBe(0);
  expect(await batches(2_000)).toBeGreaterThan(0);
});

test('tells at the end how many events were folded, although before it is only known about how many there are', async () => {
  const events = await store.countAfter(0);
  const [goal, folder] = [await store.head(), models.buildFolder];
  for (const about of [events - 3, events + 20]) {
    const told: number[] = [];
    const onProgress = (done: number): void => void told.push(done);
    await build(store, { projections: PROJECTIONS, events: about, goal, folder, signal, onProgress }, async () => true);
    expect(told.at(-1)).toBe(events);
  }
});
