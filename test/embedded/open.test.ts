import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { LmdbEnvironment } from '../../src/stores/lmdb/environment.js';
import { openStores } from '../../src/stores/open.js';
import { temporaryFolder } from './temporary-folder.js';

test('if a store cannot be opened, those opened before it are closed', async () => {
  const folder = await temporaryFolder();
  const data = join(folder.path, 'data');
  mkdirSync(data);
  writeFileSync(join(data, 'state'), 'not a folder');
  await expect(openStores(data, Date.now)).rejects.toThrow(/state/);
  for (const store of ['log', 'views/control']) expect(LmdbEnvironment.isOpenHere(join(data, store))).toBe(false);
  await folder.remove();
});
