import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { LmdbReadModels } from '../../src/read-models/lmdb-read-models.js';
import { describeReadModels } from '../contracts/read-models.contract.js';
import { Child } from './processes/child.js';
import { temporaryFolder } from './temporary-folder.js';

describeReadModels('LMDB', async (clock) => {
  const folder = await temporaryFolder();
  return { open: () => LmdbReadModels.open(folder.path, { clock }), destroy: folder.remove };
});

test('another process sees each batch, and a generation that is dropped under it is gone for it', async () => {
  const folder = await temporaryFolder();
  const models = await LmdbReadModels.open(folder.path, { clock: Date.now });
  const child = new Child(new URL('./processes/view-reader.ts', import.meta.url), [folder.path]);
  try {
    const start = { log: 'log', position: 0, event_id: null };
    await models.createGeneration('one', { people: 1 }, 'log');
    await models.acquireLease('one', 'me', 60_000);
    let base: typeof start | { log: string; position: number; event_id: string } = start;
    for (let position = 1; position <= 3; position++) {
      const next = { log: 'log', position, event_id: `event-${position}` };
      const puts = [{ row: { view: 'people', key: 'a' }, value: position }];
      expect(await models.apply('one', { id: `b${position}`, base, holder: 'me', next, puts, deletes: [] })).toBe(
        'applied',
      );
      base = next;
      child.send('one');
      expect((await child.printed(position)).at(-1)).toEqual({
        status: 'building',
        checkpoint: next,
        results: [position],
      });
    }
    await models.dropGeneration('one');
    expect(existsSync(join(folder.path, 'g-one'))).toBe(false);
    child.send('one');
    expect((await child.printed(4)).at(-1)).toBe('gone');
    expect(existsSync(join(folder.path, 'g-one'))).toBe(false);
  } finally {
    await child.kill();
    await models.close();
    await folder.remove();
  }
});
