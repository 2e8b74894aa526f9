import { BullmqJobs } from '../../../src/stores/redis/bullmq-jobs.js';

/** Runs jobs of kind `work`: says so and never ends. */
const [url, prefix, lockMs] = process.argv.slice(2) as [string, string, string];
const jobs = await BullmqJobs.open(url, { prefix, lockMs: Number(lockMs) });
jobs.handle('work', ({ id, attempt }) => {
  process.stdout.write(`${JSON.stringify({ id, attempt })}\n`);
  return new Promise(() => {});
});
await jobs.start();
