import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { LmdbEventStore } from '../../src/stores/lmdb/lmdb-event-store.js';
import { Logger } from '../../src/kernel/logger.js';
import { PROJECTIONS } from '../../src/read-side/all-projections.js';
import { Follower } from '../../src/read-side/follower.js';
import { drop, generationProgress, rebuild, rollback, swap } from '../../src/read-side/generations.js';
import { ensureManifest } from '../../src/read-side/manifest.js';
import { Projector } from '../../src/read-side/projector.js';
import { Views } from '../../src/read-side/views.js';
import { EncodedRows } from '../../src/stores/ports/encoded-rows.js';
import { LmdbReadModels } from '../../src/stores/lmdb/lmdb-read-models.js';
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
    expect(await generationProgress(other, models, Date.now)).toMatchObject([
      { id: 'g1', isOwn: false, lag: { events: 5 }, applied: 0 },
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

    await expect(rollback(other, models)).rejects.toThrow(
      'g1, which served before, is ready or belongs to another log.',
    );
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
    for (let waited = 0; lines.length === 0 && waited < 5_000; waited += 50) await sleep(50);
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

describe('a swap', () => {
  beforeEach(async () => {
    await rebuild('all', store, models, signal);
    await append(2);
    await apply('g1');
  });

  test('to a generation that no worker updates is refused while it is behind the serving one', async () => {
    await expect(swap('g2', store, models)).rejects.toThrow(
      'g2 is behind the serving generation, so reads would go back in time: let a worker of this build bring it up to date ' +
        '(credence status shows its lag), or build another with credence rebuild.',
    );
    expect((await models.manifest())!.views).toMatchObject({ identities: 'g1' });
    await apply('g2');
    await swap('g2', store, models);
    expect((await models.manifest())!.views).toMatchObject({ identities: 'g2' });
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

  test('waits for a generation that is being updated; a rollback does not wait', async () => {
    const swapped = swap('g2', store, models);
    await sleep(200);
    expect((await models.manifest())!.views).toMatchObject({ identities: 'g1' });
    await apply('g2');
    expect((await swapped).views).toMatchObject({ identities: 'g2' });
    await append(1);
    await apply('g2');
    expect((await rollback(store, models)).views).toMatchObject({ identities: 'g1' });
  });
});

describe('generations that do not serve', () => {
  const warnings: string[] = [];
  const logger = new Logger('warn', (line) => void warnings.push((JSON.parse(line) as { msg: string }).msg));
  const projector = () => new Projector(PROJECTIONS, store, models, logger, 2);
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
});
