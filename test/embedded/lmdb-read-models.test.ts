import { EncodedRows } from '../../src/stores/ports/encoded-rows.js';
import { LmdbReadModels } from '../../src/stores/lmdb/lmdb-read-models.js';
import { describeReadModels } from '../contracts/read-models.contract.js';
import { oneHandle } from './one-handle.js';
import { temporaryFolder } from './temporary-folder.js';

describeReadModels('LMDB', async (clock) => {
  const folder = await temporaryFolder();
  return { open: oneHandle(() => LmdbReadModels.open(folder.path, { clock })), destroy: folder.remove };
});

test('a lease is checked by the time at which its transaction runs, not by the time of the request', async () => {
  const folder = await temporaryFolder();
  let now = 1_001;
  const models = await LmdbReadModels.open(folder.path, { clock: () => now });
  try {
    await models.createGeneration('one', { people: 1 }, 'log');
    const mine = models.acquireLease('one', 'me', 1_000);
    now = 1_000; // as of a process that asked a moment before
    const yours = models.acquireLease('one', 'you', 1_000);
    now = 1_002;
    expect([await mine, await yours]).toEqual([true, false]);
  } finally {
    await models.close();
    await folder.remove();
  }
});

test('rows are counted over several slices', async () => {
  const folder = await temporaryFolder();
  const models = await LmdbReadModels.open(folder.path, { clock: Date.now });
  try {
    await models.createGeneration('one', { people: 1 }, 'log');
    await models.acquireLease('one', 'me', 60_000);
    const base = { log: 'log', position: 0, event_id: null };
    const next = { log: 'log', position: 1, event_id: 'event-1' };
    const rows = ['friends', 'people', 'persons'].flatMap((view) =>
      Array.from({ length: 10_000 }, (_, n) => ({ row: { view, key: `p${n}` }, value: n })),
    );
    const puts = [...rows, { row: { view: 'people', key: 'q' }, value: 1 }];
    await models.apply('one', { id: 'b', base, holder: 'me', next, puts: EncodedRows.of(puts), deletes: [] });
    expect(await models.count('one', 'friends')).toBe(10_000);
    expect(await models.count('one', 'people')).toBe(10_001);
  } finally {
    await models.close();
    await folder.remove();
  }
});
