import { LmdbJobs } from '../../../src/stores/lmdb/lmdb-jobs.js';

/** Runs jobs of kind `work`: says so and never ends. */
const jobs = await LmdbJobs.open(process.argv[2]!, { clock: Date.now });
jobs.handle('work', ({ id, attempt }) => {
  process.stdout.write(`${JSON.stringify({ id, attempt })}\n`);
  return new Promise(() => {});
});
await jobs.start();
