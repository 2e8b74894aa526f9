import { LmdbJobs } from '../../src/jobs/lmdb-jobs.js';
import { describeJobs } from '../contracts/jobs.contract.js';
import { temporaryFolder } from './temporary-folder.js';

describeJobs('LMDB', async () => {
  const folder = await temporaryFolder();
  return { open: () => LmdbJobs.open(folder.path, { clock: Date.now }), destroy: folder.remove };
});
