import { internalActor } from '../../src/commands/context.js';
import { Ingestion, type IngestionInput } from '../../src/features/ingestion/ingestion.js';
import { JobKinds } from '../../src/features/jobs/job-kinds.js';
import { BullmqJobs } from '../../src/stores/redis/bullmq-jobs.js';
import { RedisKeyValue } from '../../src/stores/redis/redis-key-value.js';
import { eventually } from '../contracts/harness.js';
import { describeRedis, startRedis } from '../servers/redis.js';

describeRedis('ingestion by several processes', () => {
  let redis: Awaited<ReturnType<typeof startRedis>>;
  beforeAll(async () => void (redis = await startRedis()));
  afterAll(() => redis?.stop());

  test('a wallet has at most one waiting or running job for a chain', async () => {
    const { url, prefix, clear } = redis.place();
    const open = async () => {
      const jobs = new BullmqJobs(url, { prefix: `{${prefix}-jobs}` });
      const keyValue = await RedisKeyValue.open({ url, prefix, clock: Date.now });
      const none = undefined as never; // to ask for a reading takes the queue and the short-lived state only
      const kinds = new JobKinds(jobs, keyValue, Date.now);
      return {
        jobs,
        keyValue,
        ingestion: new Ingestion(none, none, none, none, none, none, kinds, none, none, none, keyValue, jobs),
      };
    };
    const processes = [await open(), await open()] as const;
    const input: IngestionInput = { wallet: `0x${'1'.repeat(40)}`, chain_id: 1, from_block: null, tris_id: 'tris:a' };
    const enqueue = (n: number) =>
      processes[n % 2]!.ingestion.enqueue(input, {
        actor: internalActor('cli'),
        body_hash: 'same',
        idempotency: `key${n}`,
      } as never);
    const ids = async (from: number) =>
      new Set((await Promise.all(Array.from({ length: 20 }, (_, n) => enqueue(from + n)))).map(({ id }) => id));
    const [{ jobs }] = processes;
    try {
      const [first, ...more] = await ids(0);
      expect([more, await jobs.list()]).toEqual([[], [expect.objectContaining({ id: first, status: 'queued' })]]);
      jobs.handle('chain_ingestion', async () => null);
      await jobs.start();
      await eventually(async () => (await jobs.get('chain_ingestion', first!))?.status === 'completed', 'completed');
      expect((await enqueue(100)).id).toBe('ing_key100');
    } finally {
      for (const { jobs, keyValue } of processes) await Promise.all([jobs.close(), keyValue.close()]);
      await clear();
    }
  });
});
