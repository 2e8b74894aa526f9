import { LmdbReadModels } from '../../src/read-models/lmdb-read-models.js';
import { describeReadModels } from '../contracts/read-models.contract.js';
import { temporaryFolder } from './temporary-folder.js';

describeReadModels('LMDB', async (clock) => {
  const folder = await temporaryFolder();
  return { open: () => LmdbReadModels.open(folder.path, { clock }), destroy: folder.remove };
});
