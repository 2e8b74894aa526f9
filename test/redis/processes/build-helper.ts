import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { BUILD_JOB, helpBuild } from '../../../src/read-side/shared-build.js';
import { BullmqJobs } from '../../../src/stores/redis/bullmq-jobs.js';
import { RedisReadModels } from '../../../src/stores/redis/redis-read-models.js';
import { type SharingSizes, openLog, watchClaims } from '../sharing.js';

/** Helps with builds. Says which part it has claimed, and waits for a line before it works on the first of them. */
const [folder, url, prefix, sizes] = process.argv.slice(2) as [string, string, string, string];
const say = (line: unknown) => process.stdout.write(`${JSON.stringify(line)}\n`);
const input = createInterface({ input: process.stdin });
const go = once(input, 'line');
const store = await openLog(folder);
const models = watchClaims(await RedisReadModels.open({ url, prefix }), async (part) => {
  say({ part });
  await go;
});
const jobs = await BullmqJobs.open(url, { prefix: `{${prefix}-jobs}` });
jobs.handle(BUILD_JOB, async ({ input, signal }) => {
  const { generation, build } = input as { generation: string; build: string };
  await helpBuild(generation, build, store, models, { signal, sizes: JSON.parse(sizes) as SharingSizes });
  say({ ended: build });
  return null;
});
await jobs.start();
say({ ready: true });
