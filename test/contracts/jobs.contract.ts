import { randomUUID } from 'node:crypto';
import { Problem, rebuilding } from '../../src/kernel/problems.js';
import { StoreUnavailable } from '../../src/stores/ports/event-store.js';
import { type Job, JobGivenUp, type Jobs, type JobStatus, type RunningJob } from '../../src/stores/ports/jobs.js';
import { eventually, type Harness } from './harness.js';

/** `keptMs`: how long finished jobs are kept; by default for longer than a test takes. */
interface JobsHarness extends Harness<Jobs> {
  open(keptMs?: number): Promise<Jobs>;
}

/** The rules of background work that every adapter keeps. Real time: back-offs here are a few milliseconds. */
export function describeJobs(name: string, makeHarness: () => Promise<JobsHarness>): void {
  describe(`${name}: jobs contract`, () => {
    let harness: JobsHarness;
    let jobs: Jobs;
    let kind: string;

    beforeEach(async () => {
      harness = await makeHarness();
      jobs = await harness.open();
      kind = `kind-${randomUUID().slice(0, 8)}`;
    });
    afterEach(async () => {
      await jobs.close();
      await harness.destroy();
    });

    async function reaches(id: string, status: JobStatus, from: Jobs = jobs): Promise<Job> {
      await eventually(async () => (await from.get(kind, id))?.status === status, `${id} ${status}`);
      return (await from.get(kind, id))!;
    }

    /** A handler that runs until it is told to stop, and says so by failing. */
    function untilAborted(started: (job: RunningJob) => void = () => {}) {
      return (job: RunningJob) =>
        new Promise<never>((_, reject) => {
          started(job);
          job.signal.addEventListener('abort', () => reject(job.signal.reason as Error));
        });
    }

    test('a job is queued, run with its input, and completed with its result', async () => {
      const queued = await jobs.enqueue(kind, 'one', { n: 1 });
      expect(queued).toEqual({
        kind,
        id: 'one',
        status: 'queued',
        input: { n: 1 },
        progress: { done: 0, total: 0 },
        attempts: 0,
        result: null,
        error: null,
        enqueued_at: expect.stringMatching(/^\d{4}-.*Z$/),
        finished_at: null,
      });
      jobs.handle(kind, async ({ input, attempt, progress }) => {
        progress(3, 4);
        return { doubled: (input['n'] as number) * 2, attempt };
      });
      await jobs.start();
      const done = await reaches('one', 'completed');
      expect(done).toMatchObject({ result: { doubled: 2, attempt: 1 }, attempts: 1, error: null });
      expect(done.progress).toEqual({ done: 3, total: 4 });
      expect(done.finished_at).not.toBeNull();
    });

    test('enqueueing a known id returns the stored job and does not run it again', async () => {
      let runs = 0;
      jobs.handle(kind, async () => ++runs);
      await jobs.start();
      const answers = await Promise.all(Array.from({ length: 10 }, () => jobs.enqueue(kind, 'one', { n: 1 })));
      expect(new Set(answers.map(({ enqueued_at }) => enqueued_at)).size).toBe(1);
      await reaches('one', 'completed');
      expect(await jobs.enqueue(kind, 'one', { n: 2 })).toMatchObject({
        status: 'completed',
        input: { n: 1 },
        result: 1,
      });
      expect(runs).toBe(1);
    });

    test('the same id of another kind is another job', async () => {
      const other = `${kind}-2`;
      await jobs.enqueue(kind, 'one', { n: 1 });
      await jobs.enqueue(other, 'one', { n: 2 });
      expect([(await jobs.get(kind, 'one'))?.input, (await jobs.get(other, 'one'))?.input]).toEqual([
        { n: 1 },
        { n: 2 },
      ]);
      expect(await jobs.get(kind, 'unknown')).toBeUndefined();
    });

    test('progress is visible while it runs', async () => {
      let finish = () => {};
      const finished = new Promise<void>((resolve) => (finish = resolve));
      jobs.handle(kind, async ({ progress }) => {
        for (let done = 0; done <= 500; done++) progress(done, 1_000);
        await finished;
        return null;
      });
      await jobs.start();
      await jobs.enqueue(kind, 'one', {});
      await eventually(async () => (await jobs.get(kind, 'one'))?.progress.done === 500);
      expect(await jobs.get(kind, 'one')).toMatchObject({ status: 'running', progress: { done: 500, total: 1_000 } });
      finish();
      await reaches('one', 'completed');
    });

    test('a failed attempt is repeated with growing delays', async () => {
      const attempts: { attempt: number; at: number }[] = [];
      jobs.handle(
        kind,
        async ({ attempt }) => {
          attempts.push({ attempt, at: Date.now() });
          if (attempt < 3) throw new Error(`attempt ${attempt} failed`);
          return 'well';
        },
        { attempts: 3, backoffMs: 40 },
      );
      await jobs.start();
      await jobs.enqueue(kind, 'one', {});
      expect(await reaches('one', 'completed')).toMatchObject({ result: 'well', attempts: 3, error: null });
      expect(attempts.map(({ attempt }) => attempt)).toEqual([1, 2, 3]);
      expect(attempts[1]!.at - attempts[0]!.at).toBeGreaterThanOrEqual(39);
      expect(attempts[2]!.at - attempts[1]!.at).toBeGreaterThanOrEqual(79);
    });

    test('after its last attempt a job is a dead letter with the reason, and can be put back', async () => {
      let broken = true;
      jobs.handle(
        kind,
        async () => {
          if (broken) throw new Error('out of luck');
          return 'repaired';
        },
        { attempts: 2, backoffMs: 1 },
      );
      await jobs.start();
      await jobs.enqueue(kind, 'one', {});
      expect(await reaches('one', 'failed')).toMatchObject({ attempts: 2, error: 'out of luck', result: null });
      expect((await jobs.list({ status: 'failed' })).map(({ id }) => id)).toEqual(['one']);
      broken = false;
      expect(await jobs.retry(kind, 'one')).toMatchObject({ attempts: 0, error: null });
      expect(await reaches('one', 'completed')).toMatchObject({ attempts: 1, result: 'repaired' });
    });

    test('an attempt that ends because a store gives no answer yet is repeated and does not count', async () => {
      const attempts: number[] = [];
      const errors = [
        new StoreUnavailable('not now'),
        new StoreUnavailable('not now', { code: 'store_busy' }),
        rebuilding('not yet'),
        new Problem('projection_behind', 'not yet'),
      ];
      jobs.handle(
        kind,
        async ({ attempt }) => {
          const error = errors[attempts.length];
          attempts.push(attempt);
          if (error) throw error;
          return 'well';
        },
        { attempts: 2, backoffMs: 1 },
      );
      await jobs.start();
      await jobs.enqueue(kind, 'one', {});
      expect(await reaches('one', 'completed')).toMatchObject({ result: 'well', attempts: 1, error: null });
      expect(attempts).toEqual([1, 1, 1, 1, 1]);
    });

    test('a job that its handler gives up is a dead letter at once', async () => {
      let runs = 0;
      jobs.handle(
        kind,
        async () => {
          runs++;
          throw new JobGivenUp('this will never work');
        },
        { attempts: 3, backoffMs: 1 },
      );
      await jobs.start();
      await jobs.enqueue(kind, 'one', {});
      expect(await reaches('one', 'failed')).toMatchObject({ attempts: 1, error: 'this will never work' });
      expect(runs).toBe(1);
    });

    test('one job that fails does not stop the next', async () => {
      jobs.handle(
        kind,
        async ({ id }) => {
          if (id === 'bad') throw new Error('bad');
          return id;
        },
        { attempts: 1 },
      );
      await jobs.enqueue(kind, 'bad', {});
      await jobs.enqueue(kind, 'good', {});
      await jobs.start();
      await reaches('bad', 'failed');
      await reaches('good', 'completed');
    });

    describe('cancelling', () => {
      test('a queued job is never run', async () => {
        let runs = 0;
        jobs.handle(kind, async () => ++runs);
        await jobs.enqueue(kind, 'one', {});
        const cancelled = await jobs.cancel(kind, 'one');
        expect(cancelled).toMatchObject({ status: 'cancelled' });
        expect(cancelled!.finished_at).not.toBeNull();
        await jobs.start();
        await jobs.enqueue(kind, 'two', {});
        await reaches('two', 'completed');
        expect(runs).toBe(1);
        expect(await jobs.get(kind, 'one')).toMatchObject({ status: 'cancelled' });
      });

      test('a running job gets an abort signal, and stays cancelled', async () => {
        let running: RunningJob | undefined;
        jobs.handle(
          kind,
          untilAborted((job) => (running = job)),
          { attempts: 3, backoffMs: 1 },
        );
        await jobs.start();
        await jobs.enqueue(kind, 'one', {});
        await eventually(() => running !== undefined);
        await jobs.cancel(kind, 'one');
        await eventually(() => running!.signal.aborted);
        expect(await reaches('one', 'cancelled')).toMatchObject({ attempts: 1 });
        await new Promise((resolve) => setTimeout(resolve, 50));
        expect(await jobs.get(kind, 'one')).toMatchObject({ status: 'cancelled', attempts: 1 });
      });

      test('a finished job stays as it is, an unknown one is undefined', async () => {
        jobs.handle(kind, async () => 1);
        await jobs.start();
        await jobs.enqueue(kind, 'one', {});
        await reaches('one', 'completed');
        expect(await jobs.cancel(kind, 'one')).toMatchObject({ status: 'completed' });
        expect(await jobs.retry(kind, 'one')).toMatchObject({ status: 'completed' });
        expect(await jobs.cancel(kind, 'unknown')).toBeUndefined();
        expect(await jobs.retry(kind, 'unknown')).toBeUndefined();
      });

      test('a cancelled job can be put back', async () => {
        await jobs.enqueue(kind, 'one', {});
        await jobs.cancel(kind, 'one');
        jobs.handle(kind, async () => 1);
        await jobs.start();
        await jobs.retry(kind, 'one');
        await reaches('one', 'completed');
      });
    });

    test('counts the jobs that wait, by kind', async () => {
      jobs.handle(kind, untilAborted());
      expect(await jobs.waiting()).toEqual({ [kind]: 0 });
      for (const id of ['one', 'two', 'three']) await jobs.enqueue(kind, id, {});
      expect(await jobs.waiting()).toEqual({ [kind]: 3 });
      await jobs.start();
      await reaches('one', 'running');
      expect(await jobs.waiting()).toEqual({ [kind]: 2 });
    });

    test('list: newest first, filtered, limited', async () => {
      jobs.handle(kind, async () => 1);
      for (const id of ['a', 'b', 'c', 'd']) await jobs.enqueue(kind, id, {});
      await jobs.cancel(kind, 'b');
      const ids = async (filter?: Parameters<Jobs['list']>[0]) => (await jobs.list(filter)).map(({ id }) => id);
      expect(await ids()).toEqual(['d', 'c', 'b', 'a']);
      expect(await ids({ limit: 2 })).toEqual(['d', 'c']);
      expect(await ids({ status: 'cancelled' })).toEqual(['b']);
      expect(await ids({ status: 'queued', limit: 2 })).toEqual(['d', 'c']);
    });

    test('a job that finished long ago is removed, and its id is a new one; what has not finished stays', async () => {
      await jobs.close();
      jobs = await harness.open(300);
      let runs = 0;
      jobs.handle(kind, async ({ input }) => {
        runs++;
        if (input['fails'] === true) throw new JobGivenUp('in vain');
        return null;
      });
      jobs.handle(`${kind}-held`, untilAborted());
      await jobs.start();
      await jobs.enqueue(`${kind}-held`, 'running', {});
      await jobs.enqueue(`${kind}-held`, 'cancelled', {});
      await jobs.enqueue(`${kind}-held`, 'queued', {});
      await jobs.cancel(`${kind}-held`, 'cancelled');
      await jobs.enqueue(kind, 'one', {});
      await jobs.enqueue(kind, 'two', { fails: true });
      await eventually(() => runs === 2);
      await eventually(async () => (await jobs.list()).length === 2, 'only the open jobs are left');
      expect((await jobs.list()).map(({ id, status }) => [id, status])).toEqual([
        ['queued', 'queued'],
        ['running', 'running'],
      ]);
      expect(await Promise.all(['one', 'two'].map((id) => jobs.get(kind, id)))).toEqual([undefined, undefined]);
      expect(await jobs.get(`${kind}-held`, 'cancelled')).toBeUndefined();
      await jobs.enqueue(kind, 'one', {});
      await eventually(() => runs === 3);
    });

    test('closing aborts running jobs; after the next start they run again from the beginning', async () => {
      let running: RunningJob | undefined;
      jobs.handle(
        kind,
        untilAborted((job) => (running = job)),
      );
      await jobs.start();
      await jobs.enqueue(kind, 'one', { n: 1 });
      await eventually(() => running !== undefined);
      await jobs.close();
      expect(running!.signal.aborted).toBe(true);

      jobs = await harness.open();
      expect((await jobs.get(kind, 'one'))!.status).not.toMatch(/completed|failed|cancelled/);
      // The attempt that was aborted does not count.
      jobs.handle(kind, async ({ input, attempt }) => ({ ...input, attempt }));
      await jobs.start();
      expect(await reaches('one', 'completed')).toMatchObject({ result: { n: 1, attempt: 1 }, attempts: 1 });
    });

    test('two workers do not run the same job at once', async () => {
      const other = await harness.open();
      const runs: string[] = [];
      for (const worker of [jobs, other]) {
        worker.handle(kind, async ({ id }) => {
          runs.push(id);
          await new Promise((resolve) => setTimeout(resolve, 5));
          return id;
        });
      }
      await Promise.all([jobs.start(), other.start()]);
      const ids = Array.from({ length: 20 }, (_, n) => `job-${n}`);
      await Promise.all(ids.map((id, n) => (n % 2 ? jobs : other).enqueue(kind, id, {})));
      for (const id of ids) await reaches(id, 'completed');
      expect(runs.sort()).toEqual([...ids].sort());
      await other.close();
    });

    test('owners of jobs of a kind take turns, and jobs of one owner keep their order', async () => {
      const runs: string[] = [];
      let release = () => {};
      const released = new Promise<void>((resolve) => (release = resolve));
      jobs.handle(kind, async ({ id }) => {
        if (id === 'a1') await released;
        runs.push(id);
        return null;
      });
      await jobs.start();
      await jobs.enqueue(kind, 'a1', {}, 'a');
      await reaches('a1', 'running');
      for (const id of ['a2', 'a3', 'a4']) await jobs.enqueue(kind, id, {}, 'a');
      // Asked for again, it counts once.
      await jobs.enqueue(kind, 'a4', {}, 'a');
      for (const id of ['b1', 'b2']) await jobs.enqueue(kind, id, {}, 'b');
      await jobs.enqueue(kind, 'c1', {}, 'c');
      const queued = await jobs.list({ status: 'queued' });
      expect(queued.map(({ id }) => id)).toEqual(['c1', 'b2', 'b1', 'a4', 'a3', 'a2']);
      expect(await jobs.waiting()).toEqual({ [kind]: 6 });
      release();
      for (const id of ['a4', 'b2', 'c1']) await reaches(id, 'completed');
      expect(runs).toEqual(['a1', 'b1', 'c1', 'a2', 'b2', 'a3', 'a4']);
    });

    test('a job enqueued or cancelled through another handle is noticed', async () => {
      const other = await harness.open();
      let running: RunningJob | undefined;
      jobs.handle(
        kind,
        untilAborted((job) => (running = job)),
      );
      await jobs.start();
      await other.enqueue(kind, 'one', {});
      await eventually(() => running !== undefined);
      await other.cancel(kind, 'one');
      await eventually(() => running!.signal.aborted);
      await reaches('one', 'cancelled', other);
      await other.close();
    });
  });
}
