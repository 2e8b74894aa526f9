import { join } from 'node:path';
import { PROJECTIONS } from '../../src/read-side/all-projections.js';
import { Follower } from '../../src/read-side/follower.js';
import { complete } from '../../src/read-side/generations.js';
import { ensureManifest } from '../../src/read-side/manifest.js';
import { loadSnapshot, saveSnapshot } from '../../src/read-side/snapshots.js';
import { LmdbEventStore } from '../../src/stores/lmdb/lmdb-event-store.js';
import { LmdbReadModels } from '../../src/stores/lmdb/lmdb-read-models.js';
import type { ReadModels } from '../../src/stores/ports/read-models.js';
import { RedisReadModels } from '../../src/stores/redis/redis-read-models.js';
import { eventually } from '../contracts/harness.js';
import { describeReadModels } from '../contracts/read-models.contract.js';
import { plantAction } from '../contracts/sample-events.js';
import { temporaryFolder } from '../embedded/temporary-folder.js';
import { describeRedis, startRedis } from '../servers/redis.js';

describeRedis('Redis', () => {
  let redis: Awaited<ReturnType<typeof startRedis>>;
  beforeAll(async () => {
    redis = await startRedis();
  });
  afterAll(() => redis?.stop());

  describeReadModels('Redis', async (clock) => {
    const { url, prefix, clear } = redis.place();
    return { open: () => RedisReadModels.open({ url, prefix, clock }), destroy: clear };
  });

  test('compares the clock of the process with that of the server', async () => {
    const { url, prefix, clear } = redis.place();
    const models = await RedisReadModels.open({ url, prefix, ownClock: () => Date.now() - 60_000 });
    await eventually(() => models.clockSkew < -30_000, 'the skew');
    expect(models.clockSkew).toBeGreaterThan(-61_000);
    await models.close();
    await clear();
  });

  test('only one process copies a generation, and the copy of one that was killed ends', async () => {
    let now = 1_800_000_000_000;
    const { url, prefix, clear } = redis.place();
    const models = await RedisReadModels.open({ url, prefix, clock: () => now });
    await models.createGeneration('g1', { people: 1 }, 'log');
    const first = models.copy('g1');
    await first.next();
    await expect(models.copy('g1').next()).rejects.toThrow('another process is copying g1');
    now += 60_000;
    const second = models.copy('g1');
    await second.next();
    const rest = async () => {
      while (!(await first.next()).done);
    };
    await expect(rest()).rejects.toThrow('the copy of g1 was interrupted');
    await second.return(undefined as never);
    await models.close();
    await clear();
  });

  test('rows that were saved in a data folder are the same after they were loaded into Redis, saved there and loaded back', async () => {
    const folder = await temporaryFolder();
    const { url, prefix, clear } = redis.place();
    const store = await LmdbEventStore.open(join(folder.path, 'log'), {});
    const near = await LmdbReadModels.open(join(folder.path, 'views'), { clock: Date.now });
    const far = await RedisReadModels.open({ url, prefix });
    for (let n = 0; n < 600; n++) await plantAction(store, { n });
    await ensureManifest(PROJECTIONS, store, near);
    const { signal } = new AbortController();
    await new Follower(store, near).follow('g1', { signal, toHead: true });
    const saved = await saveSnapshot('g1', join(folder.path, 'near'), 1, store, near);
    const there = await loadSnapshot(saved, store, far);
    await complete(there, store, far, signal);
    const again = await saveSnapshot(there, join(folder.path, 'far'), 1, store, far);
    expect(again).toMatchObject({ rows: saved.rows, checkpoint: saved.checkpoint, views: saved.views });
    const back = await loadSnapshot(again, store, near);
    expect(await rowsOf(near, back)).toEqual(await rowsOf(near, 'g1'));
    expect(await rowsOf(far, there)).toEqual(await rowsOf(near, 'g1'));
    await Promise.all([store.close(), near.close(), far.close()]);
    await folder.remove();
    await clear();
  });

  test('a lease is not renewed on a recreated generation, but can be taken again after its release', async () => {
    const { url, prefix, clear } = redis.place();
    const models = await RedisReadModels.open({ url, prefix });
    await models.createGeneration('g1', { people: 1 }, 'log');
    expect(await models.acquireLease('g1', 'me', 60_000)).toBe(true);
    expect(await models.acquireLease('g1', 'me', 60_000)).toBe(true);
    await clear();
    await models.createGeneration('g1', { people: 1 }, 'log');
    expect(await models.acquireLease('g1', 'me', 60_000)).toBe(false);
    await models.releaseLease('g1', 'me');
    expect(await models.acquireLease('g1', 'me', 60_000)).toBe(true);
    await models.close();
    await clear();
  });
});

async function rowsOf(models: ReadModels, id: string): Promise<Map<string, string | null>> {
  const rows = new Map<string, string | null>();
  for await (const page of models.copy(id)) for (const { address, content } of page) rows.set(address, content);
  return rows;
}
