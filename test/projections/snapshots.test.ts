import { copyFile, mkdir, open, readFile, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Logger } from '../../src/kernel/logger.js';
import { PROJECTIONS } from '../../src/read-side/all-projections.js';
import { Follower } from '../../src/read-side/follower.js';
import { GenerationError, complete, swap } from '../../src/read-side/generations.js';
import { ensureManifest } from '../../src/read-side/manifest.js';
import { SnapshotKeeper } from '../../src/read-side/snapshot-keeper.js';
import { listSnapshots, loadSnapshot, misfitOf, saveSnapshot, snapshotsOf } from '../../src/read-side/snapshots.js';
import { isIdentical, verify } from '../../src/read-side/verify.js';
import { LmdbEventStore } from '../../src/stores/lmdb/lmdb-event-store.js';
import { LmdbReadModels } from '../../src/stores/lmdb/lmdb-read-models.js';
import type { ReadModels } from '../../src/stores/ports/read-models.js';
import { type Snapshot, SnapshotDamaged, readSnapshot, snapshotAt } from '../../src/stores/ports/snapshot-file.js';
import { copiedRows } from '../contracts/builds.js';
import { eventually } from '../contracts/harness.js';
import { plantAction } from '../contracts/sample-events.js';
import { temporaryFolder } from '../embedded/temporary-folder.js';

const { signal } = new AbortController();
let place: Awaited<ReturnType<typeof temporaryFolder>>;
let store: LmdbEventStore;
let models: LmdbReadModels;
let folder: string;

beforeEach(async () => {
  place = await temporaryFolder();
  folder = join(place.path, 'snapshots');
  store = await LmdbEventStore.open(join(place.path, 'log'), {});
  models = await LmdbReadModels.open(join(place.path, 'views'), { clock: Date.now });
  await append(0, 40);
  await ensureManifest(PROJECTIONS, store, models);
  await apply('g1');
});
afterEach(async () => {
  await Promise.all([store.close(), models.close()]);
  await place.remove();
});

async function append(from: number, to: number, log = store): Promise<void> {
  for (let n = from; n < to; n++) await plantAction(log, { n });
}
const apply = (id: string) => new Follower(store, models).follow(id, { signal, toHead: true });
const save = (kept = 3, id = 'g1') => saveSnapshot(id, folder, kept, store, models);
const load = (snapshot: Snapshot, into: ReadModels = models) => loadSnapshot(snapshot, store, into);
const statuses = async () => (await models.generations()).map(({ id, status }) => `${id} ${status}`);

const rowsOf = (id: string) => copiedRows(models, id);

test('a loaded generation equals the saved one row by row, and after the tail a refold', async () => {
  const snapshot = await save();
  const saved = await rowsOf('g1');
  expect(snapshot).toMatchObject({ generation: 'g1', rows: saved.size, checkpoint: { position: await store.head() } });
  await append(40, 60);
  const id = await load(snapshot);
  expect(await rowsOf(id)).toEqual(saved);
  expect((await models.generations()).find((one) => one.id === id)).toMatchObject({
    status: 'building',
    checkpoint: snapshot.checkpoint,
  });
  await apply('g1');
  await complete(id, store, models, signal);
  expect(await rowsOf(id)).toEqual(await rowsOf('g1'));
  await swap(id, store, models);
  expect(isIdentical(await verify(store, models))).toBe(true);
});

test('views that no generation serves are served by a loaded one', async () => {
  const snapshot = await save();
  const other = await LmdbReadModels.open(join(place.path, 'empty'), { clock: Date.now });
  const id = await load(snapshot, other);
  const { views } = await ensureManifest(PROJECTIONS, store, other, [id]);
  expect(new Set(Object.values(views))).toEqual(new Set([id]));
  await complete(id, store, other, signal);
  expect(isIdentical(await verify(store, other))).toBe(true);
  await other.close();
});

test('a snapshot of another log, of other views, or beyond the log is refused in a sentence', async () => {
  const snapshot = await save();
  const { position } = snapshot.checkpoint;
  const at = (over: object) => ({ ...snapshot, checkpoint: { ...snapshot.checkpoint, ...over } });
  const cases: [Snapshot, RegExp][] = [
    [{ ...snapshot, log: 'another' }, /it is of the log another, not of/],
    [
      { ...snapshot, views: { ...snapshot.views, timeline: 999 } },
      /its view timeline has version 999, and that of this build \d+/,
    ],
    [{ ...snapshot, views: { ...snapshot.views, more: 1 } }, /it has a view more, which this build does not have/],
    [{ ...snapshot, models: { 'disc-1': 'other' } }, /saved by a build with another model disc-1/],
    [at({ position: position + 1 }), /it ends at position \d+, beyond the log's head \d+/],
    [at({ event_id: 'other' }), /the log has another event at its position/],
  ];
  for (const [unfit, reason] of cases) {
    expect(await misfitOf(unfit, store)).toMatch(reason);
    await expect(load(unfit)).rejects.toThrow(reason);
  }
  expect(await misfitOf(snapshot, store)).toBeUndefined();
  expect(await statuses()).toEqual(['g1 ready']);
});

test('a snapshot that was cut, or in which any byte was changed, is refused, and nothing of it is left', async () => {
  const { path, bytes } = await save();
  const whole = await readFile(path);
  const damaged = join(place.path, 'damaged.snapshot');
  const check = async (content: Buffer) => {
    await writeFile(damaged, content);
    await snapshotAt(damaged);
    for await (const _ of readSnapshot(damaged, () => undefined));
  };
  for (let cut = 1; cut < bytes; cut = cut * 2 + 1) {
    await expect(check(whole.subarray(0, bytes - cut))).rejects.toThrow(SnapshotDamaged);
  }
  for (let n = 0; n < 200; n++) {
    const at = Math.floor((n * bytes) / 200);
    const changed = Buffer.from(whole);
    changed[at]! ^= 1 << (n % 8);
    await expect(check(changed)).rejects.toThrow(SnapshotDamaged);
  }
  await expect(check(Buffer.concat([whole, whole]))).rejects.toThrow(SnapshotDamaged);

  const middle = Buffer.from(whole);
  middle[bytes >> 1]! ^= 1;
  await writeFile(damaged, middle);
  await expect(load(await snapshotAt(damaged))).rejects.toThrow(
    /^damaged\.snapshot cannot be loaded: it is damaged: \S.*\.$/,
  );
  expect((await statuses()).filter((status) => !status.endsWith('dropped'))).toEqual(['g1 ready']);
  await copyFile(path, damaged);
  expect(await load(await snapshotAt(damaged))).toMatch(/^g\d+$/);
});

test('only generations that are ready can be saved, and an unfinished one cannot be served', async () => {
  await models.createGeneration('g2', { timeline: 1 }, store.logId, 'loading');
  await expect(save(3, 'g2')).rejects.toThrow('g2 is loading: it cannot be saved.');
  await expect(save(3, 'g9')).rejects.toThrow('g9 does not exist: it cannot be saved.');
  await expect(swap('g2', store, models)).rejects.toThrow(GenerationError);
});

test('the newest snapshots are kept, and the list has neither unfinished files nor those that were deleted', async () => {
  const saved: string[] = [];
  for (let n = 0; n < 4; n++) {
    await append(40 + n, 41 + n);
    await apply('g1');
    saved.unshift((await save(2)).path);
  }
  // What a killed process leaves: no process has this id.
  const aside = `${saved[0]}x.unfinished-1`;
  await writeFile(aside, 'cut');
  await writeFile(
    `${saved[0]}x.lock`,
    JSON.stringify({ pid: 2 ** 22 + 1, host: (await import('node:os')).hostname(), aside }),
  );
  expect((await listSnapshots(folder)).map(({ path }) => path)).toEqual(saved.slice(0, 2));
  const file = await open(saved[1]!, 'r+');
  await file.truncate(2_000);
  await file.close();
  expect((await listSnapshots(folder))[1]).toEqual({ path: saved[1], damage: 'it is cut' });
  await save(2);
  expect((await readdir(folder)).filter((name) => !name.endsWith('.snapshot'))).toEqual([]);
});

test('after an older copy of the log was restored, snapshots are saved and kept beside those that end beyond it', async () => {
  const copy = join(place.path, 'copy');
  await mkdir(copy);
  await store.backup(copy);
  await append(40, 45);
  await apply('g1');
  const beyond = await save(1);
  const restored = await LmdbEventStore.open(copy, {});
  const other = await LmdbReadModels.open(join(place.path, 'of the copy'), { clock: Date.now });
  const keeper = SnapshotKeeper.of(
    { snapshots: folder, snapshotEvents: 1, snapshotMinutes: 1, retainedSnapshots: 1 },
    restored,
    other,
    new Logger('error'),
  )!;
  try {
    await ensureManifest(PROJECTIONS, restored, other);
    await new Follower(restored, other).follow('g1', { signal, toHead: true });
    keeper.saveDue(await other.generations());
    const usable = () => snapshotsOf(folder, restored);
    await eventually(async () => (await usable()).length === 1, 'a snapshot');
    expect((await usable())[0]!.checkpoint.position).toBeLessThan(beyond.checkpoint.position);
    const second = await saveSnapshot('g1', folder, 1, restored, other);
    expect((await usable()).map(({ path }) => path)).toEqual([second.path]);
    expect((await readdir(folder)).length).toBe(2);
    expect((await snapshotsOf(folder, store))[0]!.path).toBe(beyond.path);
  } finally {
    await keeper.stop();
    await Promise.all([restored.close(), other.close()]);
  }
});
