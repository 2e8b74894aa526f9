import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { BullmqJobs } from '../../src/stores/redis/bullmq-jobs.js';
import { becomes } from '../contracts/harness.js';
import { Child } from '../embedded/processes/child.js';
import { Proxy } from '../servers/proxy.js';
import { describeRedis } from '../servers/redis.js';
import { bullmqPlaces, reaches } from './bullmq.js';

/** Of a worker on its job: much less than where nobody waits for it. */
const LOCK_MS = 2_000;

describeRedis('workers of BullMQ that die, are paused, take long or lose their connections', () => {
  const place = bullmqPlaces();

  let at: ReturnType<typeof place>;
  let jobs: BullmqJobs;
  beforeEach(async () => {
    at = place();
    jobs = new BullmqJobs(at.url, { prefix: at.prefix, lockMs: LOCK_MS });
  });
  afterEach(async () => {
    await jobs.close();
    await at.clear();
  });

  test('a cancelled job that is put back while a worker takes it is run', async () => {
    let release = () => {};
    jobs.handle('work', ({ id }) =>
      id.startsWith('before') ? new Promise<null>((resolve) => (release = () => resolve(null))) : Promise.resolve(null),
    );
    await jobs.start();
    for (let n = 0; n < 60; n++) {
      await jobs.enqueue('work', `before-${n}`, {});
      await jobs.enqueue('work', `n-${n}`, {});
      await jobs.cancel('work', `n-${n}`);
      await reaches(jobs, `before-${n}`, 'running');
      const putBack = jobs.retry('work', `n-${n}`);
      for (let turn = 0; turn < n % 20; turn++) await new Promise((resolve) => setImmediate(resolve));
      release();
      await putBack;
      await reaches(jobs, `n-${n}`, 'completed');
    }
  });

  test('a job whose worker died is run by another worker as a further attempt', async () => {
    await jobs.enqueue('work', 'one', {});
    const child = new Child(new URL('./processes/job-runner.ts', import.meta.url), [at.url, at.prefix, `${LOCK_MS}`]);
    expect(await child.printed(1)).toEqual([{ id: 'one', attempt: 1 }]);
    const attempts: number[] = [];
    jobs.handle('work', async ({ attempt }) => attempts.push(attempt));
    await jobs.start();
    // Longer than a lock that nobody renews.
    await sleep(1.5 * LOCK_MS);
    expect([attempts, (await jobs.get('work', 'one'))?.attempts]).toEqual([[], 1]);

    await child.kill();
    await reaches(jobs, 'one', 'completed');
    expect(await jobs.get('work', 'one')).toMatchObject({ status: 'completed', attempts: 2 });
    expect(attempts).toEqual([2]);
  });

  test('a job whose worker was paused beyond its lock is run by another; the first is stopped when it goes on', async () => {
    await jobs.enqueue('work', 'one', {});
    const child = new Child(new URL('./processes/job-runner.ts', import.meta.url), [at.url, at.prefix, `${LOCK_MS}`]);
    await child.printed(1);
    child.signal('SIGSTOP');
    jobs.handle('work', async ({ attempt }) => attempt);
    await jobs.start();
    await reaches(jobs, 'one', 'completed');
    const done = await jobs.get('work', 'one');
    expect(done).toMatchObject({ status: 'completed', attempts: 2, result: 2 });
    child.signal('SIGCONT');
    expect((await child.printed(2))[1]).toEqual({ stopped: expect.any(String) });
    expect(await jobs.get('work', 'one')).toEqual(done);
    await child.kill();
  });

  test('a worker that was paused beyond its lock, and then ends the job, changes nothing for the one that runs it', async () => {
    await jobs.enqueue('work', 'late', {});
    const child = new Child(new URL('./processes/job-runner.ts', import.meta.url), [at.url, at.prefix, `${LOCK_MS}`]);
    await child.printed(1);
    child.signal('SIGSTOP');
    jobs.handle('work', ({ progress, signal }) => {
      progress(5, 10);
      return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason as Error)));
    });
    await jobs.start();
    await becomes(
      () => jobs.get('work', 'late'),
      (job) => job?.progress.done === 5,
    );
    await jobs.enqueue('work', 'next', {});
    child.signal('SIGCONT');
    // It takes the next one only when it has ended this one.
    expect((await child.printed(2))[1]).toEqual({ id: 'next', attempt: 1 });
    expect(await jobs.get('work', 'late')).toMatchObject({ status: 'running', attempts: 2, progress: { done: 5 } });
    expect(await jobs.cancel('work', 'late')).toMatchObject({ status: 'cancelled' });
    await child.kill();
  });

  test('a process whose connections are dead without being closed makes new ones, and soon runs jobs again', async () => {
    const proxy = await Proxy.to(Number(new URL(at.url).port));
    const url = `redis://127.0.0.1:${proxy.port}`;
    const remote = new BullmqJobs(url, { prefix: at.prefix, lockMs: LOCK_MS });
    remote.handle('work', async ({ id }) => id, { attempts: Number.MAX_SAFE_INTEGER });
    await remote.start();
    await remote.enqueue('work', 'one', {});
    await reaches(jobs, 'one', 'completed');

    proxy.freeze();
    await jobs.enqueue('work', 'two', {});
    // Many workers have died while they ran it. A long pause would follow if it failed now.
    const client = new Redis(at.url);
    await client.hset(`${at.prefix}:work:id-two`, 'ats', 30);
    await client.quit();
    await reaches(jobs, 'two', 'completed');
    const found = await becomes(
      () => remote.get('work', 'two').catch(() => undefined),
      (job) => job !== undefined,
    );
    expect(found?.status).toBe('completed');
    await remote.close();
    await proxy.close();
  });

  test('a job whose worker died in its last attempt is a dead letter with that reason, and can be put back', async () => {
    await jobs.enqueue('work', 'one', {});
    const child = new Child(new URL('./processes/job-runner.ts', import.meta.url), [at.url, at.prefix, `${LOCK_MS}`]);
    await child.printed(1);
    await child.kill();
    let runs = 0;
    jobs.handle('work', async () => ++runs, { attempts: 1 });
    await jobs.start();
    await reaches(jobs, 'one', 'failed');
    expect(await jobs.get('work', 'one')).toMatchObject({
      status: 'failed',
      attempts: 1,
      error: expect.stringMatching(/process ended/),
    });
    expect(runs).toBe(0);
    expect(await jobs.retry('work', 'one')).toMatchObject({ attempts: 0, error: null });
    await reaches(jobs, 'one', 'completed');
    expect(await jobs.get('work', 'one')).toMatchObject({ attempts: 1, result: 1 });
  });

  test('a computation longer than the lock is run once if it yields', async () => {
    const other = new BullmqJobs(at.url, { prefix: at.prefix, lockMs: LOCK_MS });
    let runs = 0;
    for (const worker of [jobs, other]) {
      worker.handle('work', async () => {
        runs++;
        for (const until = Date.now() + 1.5 * LOCK_MS; Date.now() < until;) {
          for (const turn = Date.now() + LOCK_MS / 12; Date.now() < turn;) Math.sqrt(turn);
          await new Promise(setImmediate);
        }
        return runs;
      });
      await worker.start();
    }
    await jobs.enqueue('work', 'one', {});
    await reaches(jobs, 'one', 'completed');
    expect(await jobs.get('work', 'one')).toMatchObject({ status: 'completed', attempts: 1, result: 1 });
    await other.close();
  });
});
