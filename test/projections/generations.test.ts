import { jest } from '@jest/globals';
import { cp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { LmdbEventStore } from '../../src/stores/lmdb/lmdb-event-store.js';
import { Logger } from '../../src/kernel/logger.js';
import { PROJECTIONS } from '../../src/read-side/all-projections.js';
import { viewsOf } from '../../src/read-side/own-views.js';
import { Follower } from '../../src/read-side/follower.js';
import { drop, generationProgress, rebuild, rollback, rollbackOf, swap } from '../../src/read-side/generations.js';
import { ensureManifest, reflectPlatformLens } from '../../src/read-side/manifest.js';
import { Projector, type ProjectorOptions } from '../../src/read-side/projector.js';
import { verify } from '../../src/read-side/verify.js';
import { Views } from '../../src/read-side/views.js';
import { EncodedRows } from '../../src/stores/ports/encoded-rows.js';
import { LmdbReadModels } from '../../src/stores/lmdb/lmdb-read-models.js';
import { eventually } from '../contracts/harness.js';
import { plantAction, plantEvent } from '../contracts/sample-events.js';
import { temporaryFolder } from '../embedded/temporary-folder.js';

/** Which generation may serve: of which log it is, and how far. */

const { signal } = new AbortController();
const query = { get: { view: 'identities', key: 'somebody' } };
let place: Awaited<ReturnType<typeof temporaryFolder>>;
let store: LmdbEventStore;
let models: LmdbReadModels;

beforeEach(async () => {
  place = await temporaryFolder();
  store = await LmdbEventStore.open(join(place.path, 'log'), {});
  models = await LmdbReadModels.open(join(place.path, 'views'), { clock: Date.now });
  await append(3);
  await ensureManifest(PROJECTIONS, store, models);
  await apply('g1');
});
afterEach(async () => {
  await Promise.all([store.close(), models.close()]);
  await place.remove();
});

async function append(events: number, log = store): Promise<void> {
  for (let n = 0; n < events; n++) await plantAction(log, { n });
}
const apply = (id: string) => new Follower(store, models).follow(id, { signal, toHead: true });

test('the lag of each generation is counted by the tree of the log, and what it does not reach by the store', async () => {
  await append(300);
  await models.createGeneration('behind', viewsOf(PROJECTIONS.slice(0, 1)), store.logId);
  await apply('behind');
  await append(400);
  await apply('g1');
  await append(5);
  const applied = (await models.generations()).find(({ id }) => id === 'g1')!.checkpoint.position;
  const countAfter = jest.spyOn(store, 'countAfter');
  expect(await generationProgress(store, models, Date.now)).toMatchObject({
    events: 708,
    generations: [
      { id: 'behind', lag: 405, applied: 303 },
      { id: 'g1', lag: 5, applied: 703 },
    ],
  });
  // In EventStoreDB, all after the position is read.
  expect(Math.min(...countAfter.mock.calls.map(([position]) => position))).toBe(applied);
});

test.each<[string, (shown: (done: number, total: number) => void) => Promise<unknown>]>([
  ['a rebuild', (shown) => rebuild('all', store, models, signal, shown)],
  ['verification', (shown) => verify(store, models, { onProgress: ({ done, total }) => shown(done, total) })],
])('the progress of %s ends with the number of events, though the store estimates it', async (_, work) => {
  const countAfter = store.countAfter.bind(store);
  for (const factor of [0.5, 2]) {
    jest.spyOn(store, 'countAfter').mockImplementation(async (from) => Math.round(factor * (await countAfter(from))));
    const shown: [number, number][] = [];
    await work((done, total) => void shown.push([done, total]));
    expect(shown.at(-1)).toEqual([3, 3]);
    for (const [done, total] of shown) expect(done).toBeLessThanOrEqual(total);
  }
});

describe('read models and logs that do not belong together', () => {
  let other: LmdbEventStore;
  beforeEach(async () => {
    other = await LmdbEventStore.open(join(place.path, 'other'), {});
    await append(5, other);
  });
  afterEach(() => other.close());

  const projector = () => new Projector(PROJECTIONS, other, models, new Logger('error', () => undefined));
  const refusal = () => new RegExp(`\\(g1\\) are of the log ${store.logId}, but the log here is ${other.logId}: `);

  test('read models that serve another log are refused, and neither replaced nor dropped', async () => {
    const [manifest, generations] = [await models.manifest(), await models.generations()];
    await expect(projector().start()).rejects.toThrow(refusal());
    // As well by a build that knows one more view, which would begin a generation for it.
    const more = { ...PROJECTIONS[0]!, name: 'more' };
    await expect(ensureManifest([...PROJECTIONS, more], other, models)).rejects.toThrow(refusal());
    expect([await models.manifest(), await models.generations()]).toEqual([manifest, generations]);

    const built = await rebuild('all', other, models, signal);
    await expect(swap(built.id, other, models)).rejects.toThrow(refusal());
    expect(await models.manifest()).toEqual(manifest);
  });

  test('reads of another log’s read models are refused, and their position is never taken for one of this log', async () => {
    const views = new Views(other, models);
    expect(await new Views(store, models).waitForPosition(3, 0)).toBe(true);
    const foreign = { code: 'read_models_foreign', message: expect.stringContaining(store.logId) };
    await expect(views.waitForPosition(1, 0)).rejects.toMatchObject(foreign);
    await expect(views.read([query])).rejects.toMatchObject(foreign);
    expect((await generationProgress(other, models, Date.now)).generations).toMatchObject([
      { id: 'g1', isOwn: false, lag: 5, applied: 0 },
    ]);
  });

  test('a log that replaces another on purpose gets its own read models, and those of the other are dropped by hand', async () => {
    await plantEvent(other, 'lens-platform', 'LensActivated', {
      scope: 'platform',
      tris_org: null,
      reason: 'promoted',
      policy_id: 'VP_OTHER_V1',
      content_hash: 'other',
      replay_id: null,
      previous: { policy_id: null, content_hash: null },
    });
    const lens = { lens: { policy_id: null }, lens_revision: -1 };
    const built = await rebuild('all', other, models, signal);
    expect(await models.manifest()).toMatchObject(lens);
    const otherLens = { lens: { policy_id: 'VP_OTHER_V1', content_hash: 'other' }, lens_revision: 0 };
    expect(await swap(built.id, other, models, true)).toMatchObject(otherLens);
    const running = projector();
    await running.start();
    await running.stop();
    const { generation, position } = await new Views(other, models).read([query]);
    expect([generation, position]).toEqual([built.id, 6]);
    await expect(new Views(store, models).read([query])).rejects.toMatchObject({ code: 'read_models_foreign' });

    await expect(rollback(other, models)).rejects.toThrow('g1, which served before, was made from another log.');
    expect(await rollback(store, models)).toMatchObject(lens);
    expect((await new Views(store, models).read([query])).generation).toBe('g1');
    await swap(built.id, other, models, true);
    await drop('g1', models);
    expect((await models.generations()).filter(({ status }) => status !== 'dropped')).toHaveLength(1);
  });

  test('a running worker reports that its read models were replaced by those of another log', async () => {
    const lines: string[] = [];
    const own = new Projector(PROJECTIONS, store, models, new Logger('error', (line) => void lines.push(line)));
    await own.start();
    const built = await rebuild('all', other, models, signal);
    await swap(built.id, other, models, true);
    await eventually(() => lines.length > 0, 'a report');
    await own.stop();
    expect(lines[0]).toContain(`(${built.id}) are of the log ${other.logId}, not of ${store.logId}. `);
    expect((await models.manifest())!.views).toMatchObject({ identities: built.id });
  });

  test('a generation that another log creates concurrently under the same id is not used', async () => {
    const { createGeneration } = models;
    models.createGeneration = async (id, versions, log) => {
      models.createGeneration = createGeneration;
      await createGeneration.call(models, id, versions, store.logId);
      await createGeneration.call(models, id, versions, log);
    };
    const built = await rebuild('all', other, models, signal);
    expect([built.id, built.checkpoint.log]).toEqual(['g3', other.logId]);
  });
});

test('a log and read models of different days: the read models are built again, and nothing of the lost day is read', async () => {
  const log = join(place.path, 'log');
  await store.close();
  await cp(log, join(place.path, 'monday'), { recursive: true });
  store = await LmdbEventStore.open(log, {});
  await append(6);
  await apply('g1'); // the read models of Tuesday
  await store.close();
  await rm(log, { recursive: true });
  await cp(join(place.path, 'monday'), log, { recursive: true });
  await rm(join(place.path, 'log.marker.json'), { force: true });
  store = await LmdbEventStore.open(log, {});
  // On Wednesday the log grows beyond the position of Tuesday, by other events.
  for (let n = 0; n < 9; n++) await plantAction(store, { n, lost: false });
  const projector = new Projector(PROJECTIONS, store, models, new Logger('error', () => undefined));
  await projector.start();
  try {
    const views = new Views(store, models);
    const head = await store.head();
    const seen: unknown[] = [];
    await eventually(async () => {
      const read = await views.read([query]).catch(({ code }: { code: string }) => ({ code, position: 0 }));
      seen.push('code' in read ? read.code : read.generation);
      return read.position === head;
    }, 'reads of all events');
    expect([...new Set(seen)].filter((each) => each !== 'projection_rebuilding')).toEqual(['g2']);
    expect((await verify(store, models)).difference).toBeNull();
  } finally {
    await projector.stop();
  }
});

describe('a swap', () => {
  beforeEach(async () => {
    await rebuild('all', store, models, signal);
    await append(2);
    await apply('g1');
  });

  const positions = async () =>
    Object.fromEntries((await models.generations()).map(({ id, checkpoint }) => [id, checkpoint.position]));

  test('to a generation that is behind the serving one catches up first, and so does a rollback', async () => {
    expect((await swap('g2', store, models)).views).toMatchObject({ identities: 'g2' });
    const { g1, g2 } = await positions();
    expect(g2).toBe(g1);
    await append(2);
    await apply('g2');
    expect((await rollback(store, models)).views).toMatchObject({ identities: 'g1' });
    expect((await positions())['g1']).toBe(await store.head());
  });

  const promote = () =>
    plantEvent(store, 'lens-platform', 'LensActivated', {
      scope: 'platform',
      tris_org: null,
      reason: 'promoted',
      policy_id: 'VP_LATER_V1',
      content_hash: 'later',
      replay_id: null,
      previous: { policy_id: null, content_hash: null },
    });

  test('takes effect also if a lens is promoted, or a generation dropped, while it changes the manifest', async () => {
    const { swapManifest } = models;
    const meanwhile = (work: () => Promise<unknown>) => {
      jest.spyOn(models, 'swapManifest').mockImplementationOnce(async (next) => {
        await work();
        return swapManifest.call(models, next);
      });
    };
    meanwhile(async () => {
      await promote();
      await reflectPlatformLens(store, models);
    });
    expect(await swap('g2', store, models)).toMatchObject({
      lens: { policy_id: 'VP_LATER_V1' },
      views: { identities: 'g2' },
      previous_views: { identities: 'g1' },
    });

    await rebuild('all', store, models, signal);
    meanwhile(() => drop('g3', models));
    expect(await rollback(store, models)).toMatchObject({ views: { identities: 'g1' }, dropping: ['g3'] });

    meanwhile(() => swap('g2', store, models));
    await expect(swap('g2', store, models)).rejects.toThrow('Another swap was first; check credence status.');
  });

  test('nothing serves by formulas of the model that this build does not have', async () => {
    const before = await models.manifest();
    const model = { id: 'disc-2', hash: '9'.repeat(64) };
    const previous = { id: 'disc-1', hash: before!.model_hash };
    await plantEvent(store, 'lens-platform', 'ModelActivated', {
      reason: 'promoted',
      model,
      replay_id: null,
      previous,
    });
    await reflectPlatformLens(store, models);
    expect(await models.manifest()).toEqual(before);
    expect((await swap('g2', store, models)).model_hash).toBe(before!.model_hash);
  });

  test('can be rolled back if a lens was promoted and nothing has applied that', async () => {
    await swap('g2', store, models);
    await promote();
    expect(await rollback(store, models)).toMatchObject({
      lens: { policy_id: 'VP_LATER_V1' },
      views: { identities: 'g1' },
    });
  });

  test('that followed the request of a rollback is not undone by it', async () => {
    await swap('g2', store, models);
    const requested = rollbackOf(await models.manifest());
    await rebuild('all', store, models, signal);
    await swap('g3', store, models);
    await expect(rollback(store, models, requested)).rejects.toThrow(
      'Other generations serve than when the rollback was requested; check the status.',
    );
    expect((await models.manifest())!.views).toMatchObject({ identities: 'g3' });
    // The same generation serves again, but the last swap is another one: the request still says what to return to.
    await swap('g2', store, models);
    expect((await rollback(store, models, requested)).views).toMatchObject({ identities: 'g1' });
  });

  test('can be rolled back after a restart, also if a lens was promoted while no worker ran', async () => {
    await swap('g2', store, models);
    await promote();
    const restarted = await ensureManifest(PROJECTIONS, store, models);
    expect(restarted).toMatchObject({ lens: { policy_id: 'VP_LATER_V1' }, views: { identities: 'g2' } });
    expect((await rollback(store, models)).views).toMatchObject({ identities: 'g1' });
  });

  test('cannot be rolled back once its generation was lost and another one serves instead', async () => {
    await swap('g2', store, models);
    await models.setStatus('g2', 'damaged');
    const { views, previous_views } = await ensureManifest(PROJECTIONS, store, models);
    expect([views['identities'], previous_views]).toEqual(['g3', null]);
    await expect(rollback(store, models)).rejects.toThrow('There was no swap that could be rolled back.');
  });

  test('to a generation that another process brings up to date too slowly is refused', async () => {
    await models.acquireLease('g2', 'slow', 60_000);
    await expect(swap('g2', store, models)).rejects.toThrow(
      'g2 is behind the serving generation, so reads would go back in time, and the process that applies events to it ' +
        'has not caught up yet: try again (credence status shows its lag).',
    );
    expect((await models.manifest())!.views).toMatchObject({ identities: 'g1' });
    // A rollback waits for nobody.
    await models.releaseLease('g2', 'slow');
    await swap('g2', store, models);
    await append(1);
    await models.acquireLease('g1', 'slow', 60_000);
    expect((await rollback(store, models)).views).toMatchObject({ identities: 'g1' });
  });

  test('from a generation that is ahead of the log does not wait', async () => {
    await models.acquireLease('g1', 'test', 60_000);
    const [g1] = await models.generations();
    const next = { log: store.logId, position: 99, event_id: 'lost' };
    const batch = { id: 'lost', base: g1!.checkpoint, holder: 'test', next, puts: new EncodedRows(), deletes: [] };
    expect(await models.apply('g1', batch)).toBe('applied');
    await apply('g2');
    await swap('g2', store, models);
    // At the next start it is dropped: of this log, it is of no use to anybody.
    await ensureManifest(PROJECTIONS, store, models);
    expect((await models.generations()).map(({ id, status }) => [id, status])).toEqual([
      ['g1', 'dropped'],
      ['g2', 'ready'],
    ]);
  });
});

describe('generations that do not serve', () => {
  const warnings: string[] = [];
  beforeEach(() => void warnings.splice(0));
  const logger = new Logger('warn', (line) => void warnings.push((JSON.parse(line) as { msg: string }).msg));
  const projector = (options: ProjectorOptions = {}) =>
    new Projector(PROJECTIONS, store, models, logger, { retained: 2, ...options });
  const present = async () =>
    (await models.generations()).filter(({ status }) => status !== 'dropped').map(({ id }) => id);

  test('only the newest are kept, beside those that serve and those that a rollback would serve', async () => {
    // g1 served before g2, which serves.
    await swap((await rebuild('all', store, models, signal)).id, store, models);
    for (let n = 0; n < 4; n++) await rebuild('all', store, models, signal);
    expect(await present()).toEqual(['g1', 'g2', 'g3', 'g4', 'g5', 'g6']);
    const running = projector();
    await running.start();
    expect(await present()).toEqual(['g1', 'g2', 'g5', 'g6']);
    expect(warnings.sort()).toEqual([
      'dropped g3: 2 newer generations that do not serve are kept',
      'dropped g4: 2 newer generations that do not serve are kept',
    ]);
    await rollback(store, models);
    await running.stop();
  });

  test('are kept up to date for a time, and then frozen until they serve again', async () => {
    warnings.length = 0;
    await swap((await rebuild('all', store, models, signal)).id, store, models);
    const running = projector({ keepUpMs: 0 });
    await running.start();
    try {
      expect(warnings).toEqual([
        'g1 does not serve and is no longer kept up to date: a swap or rollback to it catches up first',
      ]);
      const positionOf = async (wanted: string) =>
        (await models.generations()).find(({ id }) => id === wanted)!.checkpoint.position;
      const before = await positionOf('g1');
      await append(3);
      await eventually(async () => (await positionOf('g2')) === (await store.head()), 'the serving one is up to date');
      expect(await positionOf('g1')).toBe(before);
      await rollback(store, models);
      expect(await positionOf('g1')).toBe(await store.head());
      await append(1);
      await eventually(async () => (await positionOf('g1')) === (await store.head()), 'g1 is followed again');
    } finally {
      await running.stop();
    }
  });

  const views = viewsOf(PROJECTIONS);

  test('an interrupted build is dropped by a worker if nobody continues it', async () => {
    warnings.length = 0;
    await models.createGeneration('g2', views, store.logId);
    await models.createGeneration('g3', views, store.logId);
    await models.acquireLease('g3', 'a rebuild', 60_000);
    const running = projector({ abandonedMs: 0 });
    await running.start();
    await running.stop();
    expect(await present()).toEqual(['g1', 'g3']);
    expect(warnings).toEqual(['dropped g2: its build was interrupted and not continued']);
  });

  test('a second rebuild of the same views is refused at once, before it counts the log', async () => {
    await models.createGeneration('g2', views, store.logId);
    await models.acquireLease('g2', 'a rebuild', 60_000);
    const count = jest.spyOn(store, 'countAfter');
    const second = rebuild('all', store, models, signal, () => undefined);
    await expect(second).rejects.toThrow('g2 is being built already.');
    expect(count).not.toHaveBeenCalled();
  });

  test('of two first boots at once, the slower one leaves no generation behind', async () => {
    const empty = await LmdbReadModels.open(join(place.path, 'empty'), { clock: Date.now });
    try {
      const { swapManifest } = empty;
      empty.swapManifest = async (next) => {
        empty.swapManifest = swapManifest;
        await ensureManifest(PROJECTIONS, store, empty);
        return swapManifest.call(empty, next);
      };
      expect((await ensureManifest(PROJECTIONS, store, empty)).views).toMatchObject({ identities: 'g2' });
      const left = (await empty.generations()).map(({ id, status }) => [id, status]);
      expect(left).toEqual([
        ['g1', 'dropped'],
        ['g2', 'building'],
      ]);
    } finally {
      await empty.close();
    }
  });
});

test.each([
  ['an unknown view', ['identities', 'nothing'], /^There is no view nothing; the views are identities, .* or all\.$/],
  ['no view', [], /^No view is named; the views are identities, .* or all\.$/],
])('a rebuild of %s is refused with the names of the views', async (_what, views, sentence) => {
  await expect(rebuild(views, store, models, signal)).rejects.toThrow(sentence);
});
