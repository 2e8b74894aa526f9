import { BullmqJobs } from '../../../src/stores/redis/bullmq-jobs.js';

/** Runs jobs of kind `work`: says so, and never ends them unless it is told to stop. It ends `late` ones after a second. */
const [url, prefix, lockMs] = process.argv.slice(2) as [string, string, string];
const jobs = new BullmqJobs(url, { prefix, lockMs: Number(lockMs) });
jobs.handle('work', async ({ id, attempt, signal, progress }) => {
  process.stdout.write(`${JSON.stringify({ id, attempt })}\n`);
  if (id === 'late') {
    await new Promise((resolve) => setTimeout(resolve, 1_000));
    progress(1, 10);
    return null;
  }
  return new Promise((_, reject) => {
    signal.addEventListener('abort', () => {
      process.stdout.write(`${JSON.stringify({ stopped: (signal.reason as Error).message })}\n`);
      reject(signal.reason as Error);
    });
  });
});
await jobs.start();
