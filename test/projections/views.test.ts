import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { jest } from '@jest/globals';
import { LmdbEventStore } from '../../src/stores/lmdb/lmdb-event-store.js';
import { PROJECTIONS } from '../../src/read-side/all-projections.js';
import { viewsOf } from '../../src/read-side/own-views.js';
import { drop, swap } from '../../src/read-side/generations.js';
import { ensureManifest } from '../../src/read-side/manifest.js';
import { Views } from '../../src/read-side/views.js';
import { EncodedRows } from '../../src/stores/ports/encoded-rows.js';
import { LmdbReadModels } from '../../src/stores/lmdb/lmdb-read-models.js';
import { StoreUnavailable } from '../../src/stores/ports/event-store.js';
import type { RowKey } from '../../src/stores/ports/read-models.js';
import { eventually } from '../contracts/harness.js';
import { temporaryFolder } from '../embedded/temporary-folder.js';

describe('reading the views', () => {
  let place: Awaited<ReturnType<typeof temporaryFolder>>;
  let store: LmdbEventStore;
  let models: LmdbReadModels;
  let views: Views;
  const row: RowKey = { view: 'identities', key: 'somebody' };
  const VERSIONS = viewsOf(PROJECTIONS);

  beforeEach(async () => {
    place = await temporaryFolder();
    store = await LmdbEventStore.open(join(place.path, 'log'), {});
    models = await LmdbReadModels.open(join(place.path, 'views'), { clock: Date.now });
    views = new Views(store, models);
    await ensureManifest(PROJECTIONS, store, models);
  });
  afterEach(async () => {
    await Promise.all([store.close(), models.close()]);
    await place.remove();
  });

  async function put(id: string, value: string, from = 0, to = from): Promise<void> {
    await models.acquireLease(id, 'test', 60_000);
    const at = (position: number) => ({ log: store.logId, position, event_id: null });
    const batch = {
      id: randomUUID(),
      base: at(from),
      holder: 'test',
      next: at(to),
      puts: EncodedRows.of([{ row, value }]),
      deletes: [],
    };
    expect(await models.apply(id, batch)).toBe('applied');
    await models.setStatus(id, 'ready');
  }
  async function seen() {
    const { generation, results } = await views.read([{ get: row }]);
    return [generation, results];
  }

  test('uses the generation that the manifest names now', async () => {
    await put('g1', 'first');
    expect(await seen()).toEqual(['g1', ['first']]);
    await models.createGeneration('g2', VERSIONS, store.logId);
    await put('g2', 'second');
    expect(await seen()).toEqual(['g1', ['first']]);
    await swap('g2', store, models);
    expect(await seen()).toEqual(['g2', ['second']]);
    await drop('g1', models);
    expect(await seen()).toEqual(['g2', ['second']]);
  });

  test('does not mix its rows with those of a newly serving generation that is behind them', async () => {
    await put('g1', 'first', 0, 2);
    await models.createGeneration('g2', VERSIONS, store.logId);
    await put('g2', 'early', 0, 1);
    const { position } = await views.read([{ get: row }]);
    // As when they were level, and g1 alone was followed after that.
    const manifest = (await models.manifest())!;
    const elsewhere = Object.fromEntries(Object.keys(VERSIONS).map((view) => [view, 'g2']));
    await models.swapManifest({ ...manifest, revision: manifest.revision + 1, views: elsewhere });
    const asked = jest.spyOn(models, 'read');
    const reading = views.readSince(position, [{ get: row }]);
    await eventually(() => asked.mock.calls.some(([id]) => id === 'g2'), 'a read of g2');
    await put('g2', 'late', 1, 2);
    expect(await reading).toMatchObject({ generation: 'g2', position: 2, results: ['late'] });
    await expect(views.readSince(3, [{ get: row }])).rejects.toMatchObject({ code: 'projection_behind' });
  });

  test('after a swap, no read goes back behind an earlier one: it waits for what the generation before has applied', async () => {
    await put('g1', 'first', 0, 1);
    await models.createGeneration('g2', VERSIONS, store.logId);
    await put('g2', 'first', 0, 1);
    expect((await views.read([{ get: row }])).position).toBe(1);
    jest.spyOn(store, 'head').mockResolvedValue(2);
    await put('g1', 'second', 1, 2);
    expect(await seen()).toEqual(['g1', ['second']]);
    const manifest = (await models.manifest())!;
    const named = Object.fromEntries(Object.keys(VERSIONS).map((view) => [view, 'g2']));
    await models.swapManifest({ ...manifest, revision: manifest.revision + 1, views: named });
    const asked = jest.spyOn(models, 'read');
    const reads = Promise.all([seen(), seen()]);
    await eventually(() => asked.mock.calls.some(([id]) => id === 'g2'), 'a read of g2');
    await put('g2', 'second', 1, 2);
    expect(await reads).toEqual([
      ['g2', ['second']],
      ['g2', ['second']],
    ]);
  });

  test('does not read another log’s generation with the same id', async () => {
    const { generations, createGeneration } = models;
    await models.setStatus('g1', 'dropped');
    // Meanwhile the other process begins g2.
    jest.spyOn(models, 'createGeneration').mockImplementationOnce(async (id, versions, log) => {
      await createGeneration.call(models, id, { wallets: VERSIONS['wallets']! }, log);
      await createGeneration.call(models, id, versions, log);
    });
    const manifest = await ensureManifest(PROJECTIONS, store, models);
    expect(new Set(Object.values(manifest.views))).toEqual(new Set(['g3']));
    expect((await generations.call(models)).find(({ id }) => id === 'g3')!.views).toEqual(VERSIONS);

    // One that was named in spite of that is not taken for what it is not.
    const named = Object.fromEntries(Object.keys(VERSIONS).map((view) => [view, 'g2']));
    await models.swapManifest({ ...manifest, revision: manifest.revision + 1, views: named });
    const repaired = await ensureManifest(PROJECTIONS, store, models);
    expect(repaired.views).toMatchObject({ wallets: 'g2', identities: 'g4' });
  });

  test('never serves a generation that is dropped during the swap: one of the two is refused', async () => {
    await put('g1', 'first');
    for (const id of ['g2', 'g3']) {
      await models.createGeneration(id, VERSIONS, store.logId);
      await put(id, id);
    }
    const [before, generations] = [await models.manifest(), await models.generations()];
    await drop('g2', models);
    // What the swap has looked at before that.
    jest.spyOn(models, 'generations').mockResolvedValue(generations);
    jest.spyOn(models, 'manifest').mockResolvedValue(before);
    await expect(swap('g2', store, models)).rejects.toThrow('Another swap was first');
    jest.restoreAllMocks();
    const seenBefore = await models.manifest();
    await swap('g3', store, models);
    jest.spyOn(models, 'manifest').mockResolvedValueOnce(seenBefore);
    await expect(drop('g3', models)).rejects.toThrow('g3 serves');
    expect(await seen()).toEqual(['g3', ['g3']]);

    // A drop that was interrupted is not undone, but done.
    await models.swapManifest({ ...(await models.manifest())!, revision: seenBefore!.revision + 2, dropping: ['g1'] });
    await expect(swap('g1', store, models)).rejects.toThrow('g1 is being dropped.');
    await drop('g1', models);
    expect(await seen()).toEqual(['g3', ['g3']]);
  });

  test('refuses while the generation is being built, and only then', async () => {
    await expect(seen()).rejects.toMatchObject({ extra: { members: { progress: { done: 0, total: 0 } } } });
    await put('g1', 'first');
    expect(await seen()).toEqual(['g1', ['first']]);
    await models.createGeneration('g2', VERSIONS, store.logId);
    const manifest = (await models.manifest())!;
    await models.swapManifest({ ...manifest, revision: manifest.revision + 1, views: { identities: 'g2' } });
    await expect(seen()).rejects.toMatchObject({ code: 'projection_rebuilding' });
    await put('g2', 'second');
    expect(await seen()).toEqual(['g2', ['second']]);
  });

  test('does not wait for a generation that is being built, and reads it only after it has caught up', async () => {
    const at = (position: number) => ({ log: store.logId, position, event_id: `${position}` });
    const apply = async (id: string, from: number, to: number) => {
      await models.acquireLease(id, 'test', 60_000);
      const base = from === 0 ? { ...at(0), event_id: null } : at(from);
      const batch = { id: randomUUID(), base, holder: 'test', next: at(to), puts: new EncodedRows(), deletes: [] };
      expect(await models.apply(id, batch)).toBe('applied');
    };
    await apply('g1', 0, 3);
    // Nobody else serves yet: what is being built is all there is to wait for.
    expect([await views.waitForPosition(3, 0), await views.waitForPosition(4, 0)]).toEqual([true, false]);
    await models.setStatus('g1', 'ready');
    await models.createGeneration('g2', { wallets: VERSIONS['wallets']! }, store.logId);
    const manifest = (await models.manifest())!;
    const named = { ...manifest.views, wallets: 'g2' };
    await models.swapManifest({ ...manifest, revision: manifest.revision + 1, views: named });
    expect([await views.waitForPosition(3, 0), await views.waitForPosition(4, 0)]).toEqual([true, false]);

    const wallet = { get: { view: 'wallets', key: 'somebody' } };
    await apply('g2', 0, 2);
    await models.setStatus('g2', 'ready');
    await expect(views.read([wallet])).rejects.toMatchObject({ code: 'projection_rebuilding' });
    await expect(views.read([{ get: row }, wallet])).rejects.toMatchObject({ code: 'projection_rebuilding' });
    // From now on it is waited for, and so does not have to run after those that are ahead of it.
    await apply('g1', 3, 5);
    expect(await views.waitForPosition(5, 0)).toBe(false);
    await apply('g2', 2, 3);
    expect(await views.read([wallet])).toMatchObject({ generation: 'g2', position: 3 });
    expect(await views.read([{ get: row }, wallet])).toMatchObject({ generation: 'g1', position: 3 });
  });

  test('a command stays refused while there is no answer whether the reason still holds', async () => {
    const [generation] = await models.generations();
    const read = jest.spyOn(models, 'read');
    const now = jest.spyOn(performance, 'now');
    const later = () => now.mockReturnValue(performance.now() + 1_000);
    const damaged = { code: 'read_models_damaged' };
    try {
      read.mockResolvedValue({ status: 'damaged', checkpoint: generation!.checkpoint, results: [] });
      await expect(views.refuseCommands()).rejects.toMatchObject(damaged);
      read.mockReturnValue(new Promise(() => undefined));
      for (let i = 0; i < 2; i++) {
        later();
        await expect(views.refuseCommands()).rejects.toMatchObject(damaged);
      }
      later();
      read.mockRejectedValue(new StoreUnavailable('the server has gone'));
      await expect(views.refuseCommands()).resolves.toBeUndefined();
    } finally {
      read.mockRestore();
      now.mockRestore();
    }
  });

  test('knows a position that it has reached while the log gives no answer', async () => {
    await put('g1', 'first', 0, 2);
    const away = new StoreUnavailable('the log is away');
    for (const answer of [() => Promise.reject(away), () => sleep(1_500).then(() => Promise.reject(away))]) {
      jest.spyOn(store, 'readAt').mockImplementation(answer);
      expect(await views.has(2)).toBe(true);
      await expect(views.has(3)).rejects.toBe(away);
    }
  });

  test('all requests that wait for a position share the polls', async () => {
    let looks = 0;
    const read = models.read.bind(models);
    models.read = (...args) => (looks++, read(...args));
    const waiting = Promise.all(Array.from({ length: 200 }, () => views.waitForPosition(1, 60_000)));
    // Each looks once for itself at first.
    await eventually(() => looks > 202, 'polls');
    expect(looks).toBeLessThan(200 + 50);
    await put('g1', 'first', 0, 1);
    expect(await waiting).not.toContain(false);
    expect(await views.waitForPosition(2, 0)).toBe(false);
  });
});
