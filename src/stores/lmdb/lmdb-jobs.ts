import type { Clock } from '../../kernel/clock.js';
import type { Json, JsonObject } from '../../kernel/json.js';
import { inTime } from '../../kernel/turn.js';
import { JobStore, type StoredJob } from './job-store.js';
import { type Job, JobGivenUp, type JobHandler, type Jobs, type JobStatus, isPassing, waitOf } from '../ports/jobs.js';
import { type Sweeper, jobSweeper } from '../sweeper.js';

/** How often progress is written, and how often to look for jobs whose next attempt is due, ms. */
const POLL_MS = 250;
/** How long closing waits for a handler after its abort signal. */
const GRACE_MS = 5_000;

interface Registration {
  handler: JobHandler;
  attempts: number;
  backoffMs: number;
}

interface Run {
  job: StoredJob;
  controller: AbortController;
  progress: { done: number; total: number };
  /** Progress that is not written yet. */
  unwritten: boolean;
  settled: Promise<void>;
}

/**
 * Jobs kept in LMDB and run in this process, one at a time of each kind. A job that runs when the process ends runs
 * again after the next start.
 */
export class LmdbJobs implements Jobs {
  private readonly kinds = new Map<string, Registration>();
  private readonly runs = new Map<string, Run>();
  private timer: NodeJS.Timeout | undefined;
  private sweeper: Sweeper | undefined;
  private looking: Promise<void> | undefined;
  private lookAgain = false;
  private closing = false;

  /** @param options.keptMs how long finished jobs are kept, for tests */
  static async open(folder: string, options: { clock: Clock; keptMs?: number | undefined }): Promise<LmdbJobs> {
    return new LmdbJobs(await JobStore.open(folder, options.clock), options.clock, options.keptMs);
  }

  private constructor(
    private readonly store: JobStore,
    private readonly clock: Clock,
    private readonly keptMs: number | undefined,
  ) {}

  handle(kind: string, handler: JobHandler, options: { attempts?: number; backoffMs?: number } = {}): void {
    this.kinds.set(kind, { handler, attempts: options.attempts ?? 3, backoffMs: options.backoffMs ?? 1_000 });
  }

  async start(): Promise<void> {
    this.timer ??= setInterval(() => this.poll(), POLL_MS);
    this.sweeper ??= jobSweeper((before) => this.store.sweep(before), this.clock, this.keptMs);
    this.look();
    await this.looking;
  }

  async enqueue(kind: string, id: string, input: JsonObject, owner?: string): Promise<Job> {
    const job = await this.store.add(kind, id, input, owner);
    this.look();
    return publicJob(job);
  }

  async get(kind: string, id: string): Promise<Job | undefined> {
    const job = this.store.get(kind, id);
    return job && publicJob(job);
  }

  async list(filter: { status?: JobStatus; limit?: number } = {}): Promise<Job[]> {
    return (await this.store.list(filter)).map(publicJob);
  }

  async waiting(): Promise<Record<string, number>> {
    const counts: Record<string, number> = {};
    for (const kind of this.kinds.keys()) counts[kind] = await this.store.queued(kind);
    return counts;
  }

  async cancel(kind: string, id: string): Promise<Job | undefined> {
    const job = await this.store.cancel(kind, id);
    const run = this.runs.get(kind);
    if (run?.job.id === id && job?.status === 'cancelled') run.controller.abort(new Error('the job was cancelled'));
    return job && publicJob(job);
  }

  async retry(kind: string, id: string): Promise<Job | undefined> {
    const job = await this.store.reset(kind, id);
    this.look();
    return job && publicJob(job);
  }

  async close(): Promise<void> {
    if (this.closing) return;
    this.closing = true;
    clearInterval(this.timer);
    await Promise.all([this.looking, this.sweeper?.stop()]);
    const runs = [...this.runs.values()];
    for (const { controller } of runs) controller.abort(new Error('the process is shutting down'));
    const stopped = runs.map(async ({ job, settled }) => {
      await inTime(settled, GRACE_MS).catch(() => undefined);
      // The next start does, if this fails. The job did not cause its end: the attempt does not count.
      await this.store.queueAgain(job, 0, { attempts: job.attempts - 1 }).catch(() => undefined);
    });
    await Promise.all(stopped);
    await this.store.close();
  }

  private poll(): void {
    for (const run of this.runs.values()) {
      if (!run.unwritten) continue;
      run.unwritten = false;
      this.store.change(run.job, { progress: { ...run.progress } }).catch(() => (run.unwritten = true));
    }
    this.look();
  }

  /** Starts all jobs that can run now. A call during a check causes one more check. */
  private look(): void {
    this.lookAgain = true;
    if (this.timer === undefined || this.closing) return;
    this.looking ??= this.runDue().finally(() => (this.looking = undefined));
  }

  private async runDue(): Promise<void> {
    while (this.lookAgain && !this.closing) {
      this.lookAgain = false;
      for (const [kind, registration] of this.kinds) {
        if (this.runs.has(kind)) continue;
        // If that cannot be written now, the next poll tries again.
        const job = await this.store.take(kind, registration.attempts).catch(() => undefined);
        if (job) this.run(job, registration);
      }
    }
  }

  private run(job: StoredJob, registration: Registration): void {
    const run: Run = {
      job,
      controller: new AbortController(),
      progress: { ...job.progress },
      unwritten: false,
      settled: Promise.resolve(),
    };
    this.runs.set(job.kind, run);
    run.settled = this.execute(run, registration)
      // The outcome could not be written: the job is run again.
      .catch(() => undefined)
      .then(() => {
        this.runs.delete(job.kind);
        this.look();
      });
  }

  private async execute(run: Run, { handler, attempts, backoffMs }: Registration): Promise<void> {
    const { job, controller } = run;
    let result: Json;
    try {
      const answer = await handler({
        id: job.id,
        input: job.input,
        attempt: job.attempts,
        signal: controller.signal,
        progress: (done, total) => {
          run.progress = { done, total };
          run.unwritten = true;
        },
      });
      result = JSON.parse(JSON.stringify(answer ?? null)) as Json;
    } catch (error) {
      if (this.closing) return; // `close` puts it back.
      const failed = { progress: run.progress, error: error instanceof Error ? error.message : String(error) };
      // Such an attempt does not count.
      if (isPassing(error)) {
        return this.store.queueAgain(job, backoffMs, { ...failed, attempts: job.attempts - 1 });
      }
      const waitMs = error instanceof JobGivenUp ? null : waitOf(job.attempts, { attempts, backoffMs });
      if (waitMs !== null) return this.store.queueAgain(job, waitMs, failed);
      return this.store.end(job, { ...failed, status: 'failed' });
    }
    await this.store.end(job, { progress: run.progress, status: 'completed', result, error: null });
  }
}

function publicJob(stored: StoredJob): Job {
  const { sequence: _, run_at: __, owner: ___, ...job } = stored;
  return job;
}
