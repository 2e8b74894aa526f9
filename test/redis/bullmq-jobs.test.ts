import { Redis } from 'ioredis';
import { Logger } from '../../src/kernel/logger.js';
import { StoreUnavailable } from '../../src/stores/ports/event-store.js';
import { BullmqJobs } from '../../src/stores/redis/bullmq-jobs.js';
import { becomes, eventually } from '../contracts/harness.js';
import { describeJobs } from '../contracts/jobs.contract.js';
import { describeRedis } from '../servers/redis.js';
import { bullmqPlaces, reaches } from '../cluster/bullmq.js';

describeRedis('BullMQ', () => {
  const place = bullmqPlaces();

  describeJobs('BullMQ', async () => {
    const { url, prefix, clear } = place();
    return { open: (keptMs) => Promise.resolve(new BullmqJobs(url, { prefix, keptMs })), destroy: clear };
  });

  describe('beyond the contract', () => {
    let at: ReturnType<typeof place>;
    let jobs: BullmqJobs;
    beforeEach(async () => {
      at = place();
      jobs = new BullmqJobs(at.url, { prefix: at.prefix });
    });
    afterEach(async () => {
      await jobs.close();
      await at.clear();
    });

    test.each(['17', 'a:b', '{x}', ' ', 'ä', 'x'.repeat(500)])('%j can be an id', async (id) => {
      jobs.handle('work', async (job) => job.id);
      await jobs.start();
      await jobs.enqueue('work', id, {});
      await reaches(jobs, id, 'completed');
      expect(await jobs.get('work', id)).toMatchObject({ id, result: id });
      expect((await jobs.list()).map((job) => job.id)).toEqual([id]);
    });

    test('a job that ends while its progress is being written keeps it', async () => {
      const { client } = jobs as unknown as { client: { eval(...args: unknown[]): Promise<unknown> } };
      const send = client.eval.bind(client);
      let [release, ends] = [() => {}, () => {}];
      const released = new Promise<void>((resolve) => (release = resolve));
      const isWritten = new Promise<void>((resolve) => (ends = resolve));
      let held: Promise<unknown> | undefined;
      client.eval = (...args) => {
        if (held || !args.includes('{"done":3,"total":4}')) return send(...args);
        ends();
        return (held = released.then(() => send(...args)));
      };
      jobs.handle('work', async ({ progress }) => {
        progress(3, 4);
        await isWritten;
        return null;
      });
      await jobs.start();
      await jobs.enqueue('work', 'one', {});
      await reaches(jobs, 'one', 'completed');
      release();
      await held;
      expect((await jobs.get('work', 'one'))?.progress).toEqual({ done: 3, total: 4 });
    });

    test('of a job that was lost while it ran, as in a failover of Redis, nothing is left: it can be enqueued again', async () => {
      let fail = () => {};
      jobs.handle('work', ({ attempt, input }) =>
        input['again'] === true
          ? Promise.resolve(attempt)
          : new Promise((_, reject) => (fail = () => reject(new StoreUnavailable('Redis was lost')))),
      );
      await jobs.start();
      await jobs.enqueue('work', 'lost', {});
      await reaches(jobs, 'lost', 'running');
      await at.clear();
      fail();
      // The worker runs one job at a time: it has ended the lost one.
      await jobs.enqueue('work', 'next', { again: true });
      await reaches(jobs, 'next', 'completed');
      expect(await jobs.get('work', 'lost')).toBeUndefined();
      expect((await jobs.list()).map(({ id }) => id)).toEqual(['next']);
      await jobs.enqueue('work', 'lost', { again: true });
      expect((await reaches(jobs, 'lost', 'completed'))?.result).toBe(1);
    });

    test('a job whose worker died when it had succeeded, but not stored the result, can be cancelled', async () => {
      const client = new Redis(at.url);
      await client.set(`${at.prefix}.fate.work:one`, 'finished');
      await client.quit();
      jobs.handle('work', ({ signal }) => {
        return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason as Error)));
      });
      await jobs.start();
      await jobs.enqueue('work', 'one', {});
      await reaches(jobs, 'one', 'running');
      await becomes(
        () => jobs.cancel('work', 'one'),
        (job) => job?.status === 'cancelled',
      );
    });

    test('an error that all workers of a process get is logged once', async () => {
      const lines: string[] = [];
      const logger = new Logger('warn', (line) => lines.push(line));
      const several = new BullmqJobs(at.url, { prefix: at.prefix, logger });
      for (const kind of ['one', 'two', 'three']) several.handle(kind, async () => null);
      await several.start();
      const redis = new Redis(at.url);
      const blocked = async () =>
        String(await redis.client('LIST'))
          .split('\n')
          .filter((client) => / cmd=bzpopmin/.test(client) && / flags=\w*b/.test(client))
          .map((client) => / ?id=(\d+)/.exec(client)![1]!);
      await eventually(async () => (await blocked()).length === 3);
      for (const id of await blocked()) await redis.client('UNBLOCK', id, 'ERROR');
      await eventually(async () => (await blocked()).length === 3);
      expect(lines).toEqual([expect.stringContaining('UNBLOCKED')]);
      await redis.quit();
      await several.close();
    });
  });
});
