import { existsSync, readFileSync } from 'node:fs';
import { mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import fc from 'fast-check';
import { decorated } from '../../src/kernel/decorated.js';
import { Logger } from '../../src/kernel/logger.js';
import { PROJECTIONS } from '../../src/read-side/all-projections.js';
import { viewsOf } from '../../src/read-side/own-views.js';
import { buildInBulk } from '../../src/read-side/bulk-build.js';
import { BuildFolder } from '../../src/read-side/bulk-files.js';
import { type FoldSetup, FoldThreadEnded } from '../../src/read-side/bulk-fold-thread.js';
import { type PartitionFiles, foldPartition } from '../../src/read-side/bulk-partition.js';
import { Follower, type FollowerOptions } from '../../src/read-side/follower.js';
import { LmdbEventStore } from '../../src/stores/lmdb/lmdb-event-store.js';
import { LmdbReadModels } from '../../src/stores/lmdb/lmdb-read-models.js';
import { EncodedRows } from '../../src/stores/ports/encoded-rows.js';
import { type ReadModels, startOf } from '../../src/stores/ports/read-models.js';
import { contentOf, severalLogs } from '../contracts/builds.js';
import { plantAction } from '../contracts/sample-events.js';
import { type Given, logOf } from '../projections/log.js';
import { temporaryFolder } from './temporary-folder.js';

/** A generation that was built in bulk has the rows that the ordinary follower leaves, whatever interrupts the build. */

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

type Sizes = NonNullable<FollowerOptions['bulk']>;

async function built(sizes: Sizes, id?: string, Builder = Follower): Promise<string> {
  id ??= await newGeneration();
  expect(await new Builder(store, models, { bulk: sizes }).follow(id, { signal, toHead: true })).toBe('at_head');
  return id;
}
/** By the ordinary follower. */
async function ordinary(id?: string): Promise<string> {
  id ??= await newGeneration();
  const follower = new Follower(store, decorated<ReadModels>(models, { load: async () => undefined }));
  expect(await follower.follow(id, { signal, toHead: true })).toBe('at_head');
  return id;
}

const buildFolder = (id: string) => join(place.path, 'views', `g-${id}`, 'build');

const content = (id: string) => contentOf(models, id);

class Killed extends Error {}

/** Builds until this many steps of its progress were reported, and then fails as if the process had been killed. */
async function killedAfter(steps: number, sizes: Sizes, id: string, Builder = Follower) {
  let left = steps;
  const onApplied = () => {
    if (left-- === 0) throw new Killed();
  };
  await new Builder(store, models, { bulk: sizes })
    .follow(id, { signal, toHead: true, onApplied })
    .catch((error: unknown) => {
      if (!(error instanceof Killed)) throw error;
    });
}

const arbitrarySizes = fc.record({
  from: fc.constant(0),
  eventsPerPartition: fc.constantFrom(20, 90, 1_000),
  runBytes: fc.constantFrom(2_000, 1_000_000),
  blockBytes: fc.constantFrom(300, 5_000),
  recordEvery: fc.constantFrom(10, 100),
  loadRows: fc.constantFrom(30, 500),
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
      expect(existsSync(buildFolder(id))).toBe(false);
      await models.dropGeneration(id);
    }),
    { numRuns: 25 },
  );
});

const sizes = {
  from: 0,
  eventsPerPartition: 50,
  runBytes: 5_000,
  blockBytes: 1_000,
  recordEvery: 50,
  loadRows: 50,
  slice: 20,
};

/** All in memory. */
const inMemory = { from: Infinity, loadRows: 50, slice: 20 };

/** Whether the rows of a build are being loaded. Then it takes no batch of an ordinary follower. */
async function isBeingLoaded(id: string): Promise<boolean> {
  await models.acquireLease(id, 'me', 60_000);
  const isLoading = (await models.load(id, 'me'))!.last !== null;
  if (isLoading) {
    const base = startOf(store.logId);
    const batch = { id: 'batch', base, next: { ...base, position: 1 }, puts: new EncodedRows(), deletes: [] };
    expect(await models.apply(id, { ...batch, holder: 'me' })).toBe('refused');
  }
  await models.releaseLease(id, 'me');
  return isLoading;
}

test('of a short log, has these rows as well, however often it was killed, and needs no files', async () => {
  const expected = await content(await ordinary());
  let isLoading = false;
  for (let steps = 0; !isLoading; steps++) {
    const id = await newGeneration();
    await killedAfter(steps, inMemory, id);
    isLoading = await isBeingLoaded(id);
    expect(existsSync(buildFolder(id))).toBe(false);
    await built(inMemory, id);
    expect(await content(id)).toEqual(expected);
  }
});

test('of a short log, is made in files if its rows take too much memory', async () => {
  const follower = new Follower(store, models, {
    bulk: { ...inMemory, memoryBytes: 2_000, reservedBytes: Infinity },
  });
  const building = follower.follow(await newGeneration(), { signal, toHead: true });
  await expect(building).rejects.toMatchObject({ code: 'store_full' });
  expect(await content(await built({ ...inMemory, memoryBytes: 2_000 }))).toEqual(await content(await ordinary()));
});

test('shows nothing before it is complete, and takes no batch of an ordinary follower', async () => {
  const id = await newGeneration();
  const [empty] = await content(id);
  let steps = 0;
  for (let isLoading = false; !isLoading; steps++) {
    await killedAfter(steps, sizes, id);
    expect(await content(id)).toEqual([empty]);
    isLoading = await isBeingLoaded(id);
  }
  expect(await content(await built(sizes, id))).toEqual(await content(await ordinary()));
});

test('tells the progress of each event once, also if it is interrupted and continues', async () => {
  const id = await newGeneration();
  // Even of the shortest log there are more slices than steps until the interruptions.
  const follower = new Follower(store, models, { bulk: { ...sizes, slice: 4 } });
  const told: number[] = [];
  for (const steps of [12, 5, Infinity]) {
    const stopping = new AbortController();
    const until = told.length + steps;
    const onApplied = (_: unknown, events: number) => {
      if (told.push(events) >= until) stopping.abort();
    };
    const ended = await follower.follow(id, { signal: stopping.signal, toHead: true, onApplied });
    expect(ended).toBe(steps === Infinity ? 'at_head' : 'aborted');
  }
  expect(told.reduce((sum, events) => sum + events)).toBe(await store.countAfter(0));
});

test('starts again where its files are damaged, cut or gone', async () => {
  const expected = await content(await ordinary());
  const damages = [
    (bytes: Buffer) => Buffer.concat([bytes.subarray(0, 20), Buffer.from('?'), bytes.subarray(21)]),
    (bytes: Buffer) => bytes.subarray(0, -1),
  ];
  for (const kind of ['rows', 'events', 'build.json']) {
    for (const damage of damages) {
      const id = await newGeneration();
      for (let steps = 1; ; steps++) {
        await killedAfter(steps, sizes, id);
        const files = existsSync(buildFolder(id)) ? await readdir(buildFolder(id)) : [];
        const victims = files.filter((name) => name.startsWith(kind)).map((name) => join(buildFolder(id), name));
        const contents = await Promise.all(victims.map((path) => readFile(path)));
        if (!contents.some((bytes) => bytes.length > 21)) continue;
        for (const [n, path] of victims.entries()) await writeFile(path, damage(contents[n]!));
        break;
      }
      expect(await content(await built(sizes, id))).toEqual(expected);
      await models.dropGeneration(id);
    }
  }
});

test('continues with events that were appended meanwhile, and stops before one of a newer schema', async () => {
  const id = await newGeneration();
  await killedAfter(5, sizes, id);
  await plantAction(store, { tris_id: 'tris:later' });
  await built(sizes, id);
  expect(await content(id)).toEqual(await content(await ordinary()));

  await plantAction(store, { tris_id: 'tris:later' }, 99);
  const contents = [];
  for (const [how, readModels] of [
    [sizes, models],
    [inMemory, models],
    [{ from: 0 }, decorated<ReadModels>(models, { load: async () => undefined })],
  ] as const) {
    const generation = await newGeneration();
    const following = new Follower(store, readModels, { bulk: how }).follow(generation, { signal, toHead: true });
    await expect(following).rejects.toThrow('this build knows up to 1');
    contents.push(await content(generation));
  }
  expect(contents[0]).toEqual(contents[2]);
  expect(contents[1]).toEqual(contents[2]);
});

test('without space for its files, says so, leaves none, and leaves the generation to the ordinary follower', async () => {
  const id = await newGeneration();
  await killedAfter(5, sizes, id);
  expect(existsSync(buildFolder(id))).toBe(true);
  const follower = new Follower(store, models, { bulk: { ...sizes, reservedBytes: Infinity } });
  const follow = () => follower.follow(id, { signal, toHead: true });
  const what = { code: 'store_full', message: expect.stringContaining('temporary files of the build were removed') };
  await expect(follow()).rejects.toMatchObject(what);
  expect(existsSync(buildFolder(id))).toBe(false);
  expect(await follow()).toBe('at_head');
  expect(await content(id)).toEqual(await content(await ordinary()));
});

test('leaves a log to the ordinary follower, and no files, if one identity has too many events to fold in memory', async () => {
  const positions = async (partitionBytes: number) => {
    const id = await newGeneration();
    const applied: number[] = [];
    let told = 0;
    const follower = new Follower(store, models, { bulk: { ...sizes, partitionBytes } });
    // A bulk build stays at the start of the log until its end.
    const onApplied = ({ position }: { position: number }, events: number) => {
      applied.push(position);
      told += events;
    };
    expect(await follower.follow(id, { signal, toHead: true, onApplied })).toBe('at_head');
    expect(told).toBe(await store.countAfter(0));
    expect(existsSync(buildFolder(id))).toBe(false);
    expect(await content(id)).toEqual(await content(await ordinary()));
    return new Set(applied);
  };
  expect(await positions(2 ** 20)).toEqual(new Set([0]));
  expect(await positions(2_000)).not.toEqual(new Set([0]));
});

describe('where threads end', () => {
  let folds: number[];
  let closed: number;
  let lines: string[];
  beforeEach(() => ([folds, closed, lines] = [[], 0, []]));
  const logger = new Logger('warn', (line) => lines.push(line));

  /** Folds in this thread as another one would, but for the first partition, which is too large for it. */
  function startThread(setup: FoldSetup) {
    const folder = new BuildFolder(setup.folder, 0);
    let ended: FoldThreadEnded | undefined;
    return {
      async fold(files: PartitionFiles) {
        folds.push(files.partition);
        if (files.partition === 0) ended = new FoldThreadEnded('out of memory');
        if (ended) throw ended;
        return await foldPartition(folder, PROJECTIONS, files, setup.sizes);
      },
      close: async () => void closed++,
    };
  }

  async function builtBy(start: typeof startThread): Promise<string> {
    const id = await newGeneration();
    await models.acquireLease(id, 'me', 60_000);
    const load = (await models.load(id, 'me'))!;
    const small = { ...sizes, eventsPerPartition: 10, threads: 2 };
    const events = await store.countAfter(0);
    const options = { projections: PROJECTIONS, events, signal, sizes: small, logger, startThread: start };
    await expect(buildInBulk(store, load, options)).resolves.toMatchObject({ log: store.logId });
    await models.releaseLease(id, 'me');
    return ordinary(id);
  }

  test('folds here a partition that ended a thread, without trying it in another one, and says why', async () => {
    const id = await builtBy(startThread);
    expect(folds.toSorted((a, b) => a - b)).toEqual(Array.from(folds, (_, n) => n));
    expect(folds.length).toBeGreaterThan(3);
    expect(lines).toEqual([expect.stringContaining('out of memory')]);
    expect(await content(id)).toEqual(await content(await ordinary()));
  });

  test.each([1, 2])('folds with what it has where thread %i cannot start, and ends the other one', async (refused) => {
    let starts = 0;
    const id = await builtBy((setup) => {
      if (++starts >= refused) throw new Error('no more threads');
      return startThread(setup);
    });
    expect(closed).toBe(refused - 1);
    expect(lines.filter((line) => line.includes('no more threads'))).toHaveLength(3 - refused);
    expect(await content(id)).toEqual(await content(await ordinary()));
  });
});

test('starts again where its state is not what was written, although it can be read', async () => {
  const id = await newGeneration();
  const path = join(buildFolder(id), 'build.json');
  for (let steps = 1; !existsSync(path); steps++) await killedAfter(steps, sizes, id);
  const state = await readFile(path, 'utf8');
  // The events after this position would be taken twice.
  const changed = state.replace(/("position":)\d+/, '$12');
  expect(changed).not.toBe(state);
  await writeFile(path, changed);
  expect(await content(await built(sizes, id))).toEqual(await content(await ordinary()));
});

describe('in threads, which only a built program has,', () => {
  let Builder: typeof Follower;
  const inThreads = { ...sizes, threads: 2, threadHeapMb: 200 };
  beforeAll(async () => {
    const path = '../../dist/src/read-side/follower.js';
    ({ Follower: Builder } = (await import(path)) as { Follower: typeof Follower });
  });

  /** Interrupts a build when its events are divided and the first partition is folded. */
  async function divided(): Promise<string> {
    const id = await newGeneration();
    const onApplied = () => {
      const state = join(buildFolder(id), 'build.json');
      if (existsSync(state) && JSON.parse(readFileSync(state, 'utf8')).isDivided) throw new Killed();
    };
    // Small partitions, so that several are left of the shortest log.
    const small = { ...sizes, eventsPerPartition: 20 };
    const follow = new Follower(store, models, { bulk: small }).follow(id, { signal, toHead: true, onApplied });
    await expect(follow).rejects.toThrow(Killed);
    expect((await filesOf(id, 'events')).length).toBeGreaterThan(1);
    return id;
  }
  const filesOf = async (id: string, kind: string) =>
    (await readdir(buildFolder(id))).filter((name) => name.startsWith(kind)).map((name) => join(buildFolder(id), name));

  test('has the rows that the ordinary follower leaves, however often it was killed', async () => {
    const expected = await content(await ordinary());
    for (const steps of [[], [3], [12, 14], [13, 15, 17]]) {
      const id = await newGeneration();
      for (const after of steps) await killedAfter(after, inThreads, id, Builder);
      expect(await content(await built(inThreads, id, Builder))).toEqual(expected);
      expect(existsSync(buildFolder(id))).toBe(false);
    }
  });

  test('folds here what a thread leaves that runs out of memory', async () => {
    const id = await built({ ...inThreads, threadHeapMb: 4 }, await divided(), Builder);
    expect(await content(id)).toEqual(await content(await ordinary()));
  });

  test('starts again where a thread finds a damaged file', async () => {
    const id = await divided();
    for (const path of await filesOf(id, 'events')) await writeFile(path, (await readFile(path)).subarray(0, -1));
    expect(await content(await built(inThreads, id, Builder))).toEqual(await content(await ordinary()));
  });

  test('fails with the error of a thread, and continues when that is repaired', async () => {
    const id = await divided();
    const [path] = (await filesOf(id, 'events')).slice(-1);
    const aside = join(place.path, 'aside');
    await rename(path!, aside);
    await mkdir(path!);
    await expect(built(inThreads, id, Builder)).rejects.toThrow('EISDIR');
    await rm(path!, { recursive: true });
    await rename(aside, path!);
    expect(await content(await built(inThreads, id, Builder))).toEqual(await content(await ordinary()));
  });

  test('leaves no file if a thread finds the disk almost full', async () => {
    const id = await divided();
    await expect(built({ ...inThreads, reservedBytes: Infinity }, id, Builder)).rejects.toMatchObject({
      code: 'store_full',
    });
    expect(existsSync(buildFolder(id))).toBe(false);
  });
});
