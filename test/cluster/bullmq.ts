import type { BullmqJobs } from '../../src/stores/redis/bullmq-jobs.js';
import { becomes } from '../contracts/harness.js';
import { startRedis } from '../servers/redis.js';

/** A Redis for the tests of a `describe`. @returns places in it, each for the jobs of one test */
export function bullmqPlaces() {
  let redis: Awaited<ReturnType<typeof startRedis>>;
  beforeAll(async () => void (redis = await startRedis()));
  afterAll(() => redis?.stop());
  return () => {
    const { url, prefix, clear } = redis.place();
    return { url, prefix: `{${prefix}}`, clear };
  };
}

/** Waits for a job of the kind `work`, two minutes at most: another worker takes over only when a lock has ended. */
export const reaches = (jobs: BullmqJobs, id: string, status: string) =>
  becomes(
    () => jobs.get('work', id),
    (job) => job?.status === status,
  );
