import { BullmqJobs } from '../../../src/stores/redis/bullmq-jobs.js';

/** Runs jobs of kind `work`: says so, and never ends them unless it is told to stop. */
const [url, prefix, lockMs] = process.argv.slice(2) as [string, string, string];
const jobs = await BullmqJobs.open(url, { prefix, lockMs: Number(lockMs) });
jobs.handle('work', ({ id, attempt, signal }) => {
  process.stdout.write(`${JSON.stringify({ id, attempt })}\n`);
  return new Promise((_, reject) => {
    signal.addEventListener('abort', () => {
      process.stdout.write(`${JSON.stringify({ stopped: (signal.reason as Error).message })}\n`);
      reject(signal.reason as Error);
    });
  });
});
await jobs.start();
