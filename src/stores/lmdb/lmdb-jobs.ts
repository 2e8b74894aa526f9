import { BoundedMap } from '../../kernel/bounded-map.js';
import type { Clock } from '../../kernel/clock.js';
import { hashOf } from '../../kernel/hash.js';
import type { Json, JsonObject } from '../../kernel/json.js';
import { inTime, isDue, yieldIfDue } from '../../kernel/turn.js';
import { LmdbEnvironment } from './environment.js';
import {
  type Job,
  JobGivenUp,
  type JobHandler,
  type Jobs,
  type JobStatus,
  LONGEST_WAIT_MS,
  isPassing,
  waitOf,
} from '../ports/jobs.js';
import { sealedJson, unsealedJson } from '../ports/sealed-json.js';
import { type Sweeper, finishedBefore, jobSweeper } from '../sweeper.js';

/** How often progress is written, and how often to look for jobs whose next attempt is due, ms. */
const POLL_MS = 250;
/** How long closing waits for a handler after its abort signal. */
const GRACE_MS = 5_000;
const LIST_SLICE = 1_000;
const OPEN_SLICE = 100;
const MAX_NAME_LENGTH = 300;
/** Owners whose turns are remembered. */
const MAX_OWNERS = 10_000;

interface StoredJob extends Job {
  /** Order of enqueueing, from 1. */
  sequence: number;
  /** Not to be run before, ms since the epoch; 0 unless it waits for its next attempt. */
  run_at: number;
  owner?: string | undefined;
}

type Name = [kind: string, id: string];
type OpenKey = [kind: string, sequence: number];

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
 * again after the next start. Every change of a job is one durable transaction. A job that is not what was written is
 * absent, as if the folder had been deleted.
 */
export class LmdbJobs implements Jobs {
  private readonly kinds = new Map<string, Registration>();
  private readonly runs = new Map<string, Run>();
  /** By kind and owner: when, in the order of all, a job was taken last. */
  private readonly turns = new BoundedMap<string, number>(MAX_OWNERS);
  private lastTurn = 0;
  private timer: NodeJS.Timeout | undefined;
  private sweeper: Sweeper | undefined;
  private looking: Promise<void> | undefined;
  private lookAgain = false;
  private closing = false;

  /** @param options.keptMs how long finished jobs are kept, for tests */
  static async open(
    folder: string,
    { clock, keptMs }: { clock: Clock; keptMs?: number | undefined },
  ): Promise<LmdbJobs> {
    const text = { encoding: 'string' } as const;
    const databases = { jobs: text, job_order: text, open_of_kind: text };
    return new LmdbJobs(await LmdbEnvironment.open(folder, { databases }), clock, keptMs);
  }

  private constructor(
    private readonly env: LmdbEnvironment,
    private readonly clock: Clock,
    private readonly keptMs: number | undefined,
  ) {}

  handle(kind: string, handler: JobHandler, options: { attempts?: number; backoffMs?: number } = {}): void {
    this.kinds.set(kind, { handler, attempts: options.attempts ?? 3, backoffMs: options.backoffMs ?? 1_000 });
  }

  async start(): Promise<void> {
    this.timer ??= setInterval(() => this.poll(), POLL_MS);
    this.sweeper ??= jobSweeper((before) => this.sweep(before), this.clock, this.keptMs);
    this.look();
    await this.looking;
  }

  async enqueue(kind: string, id: string, input: JsonObject, owner?: string): Promise<Job> {
    const job = await this.env.grow(() => {
      const existing = this.find(kind, id);
      if (existing) return existing;
      const [last = 0] = this.order.getKeys({ reverse: true, limit: 1 });
      const sequence = last + 1;
      this.order.putSync(sequence, JSON.stringify([kind, id]));
      return this.put({
        kind,
        id,
        status: 'queued',
        input,
        progress: { done: 0, total: 0 },
        attempts: 0,
        result: null,
        error: null,
        enqueued_at: this.now(),
        finished_at: null,
        sequence,
        run_at: 0,
        owner,
      });
    });
    this.look();
    return publicJob(job);
  }

  async get(kind: string, id: string): Promise<Job | undefined> {
    const job = this.find(kind, id);
    return job && publicJob(job);
  }

  async list({ status, limit = 100 }: { status?: JobStatus; limit?: number } = {}): Promise<Job[]> {
    const found: Job[] = [];
    for await (const page of this.env.pages<string, number>('job_order', LIST_SLICE, { reverse: true })) {
      for (const { key } of page) {
        if (found.length >= limit) return found;
        const job = this.jobAt(key);
        if (job && (status === undefined || job.status === status)) found.push(publicJob(job));
        if (isDue()) await yieldIfDue();
      }
    }
    return found;
  }

  async waiting(): Promise<Record<string, number>> {
    const counts: Record<string, number> = {};
    for (const kind of this.kinds.keys()) {
      let count = 0;
      for await (const job of this.openOf(kind)) if (job.status === 'queued') count++;
      counts[kind] = count;
    }
    return counts;
  }

  async cancel(kind: string, id: string): Promise<Job | undefined> {
    const job = await this.env.write(() => {
      const stored = this.find(kind, id);
      if (stored?.status !== 'queued' && stored?.status !== 'running') return stored;
      return this.put({ ...stored, status: 'cancelled', finished_at: this.now() });
    });
    const run = this.runs.get(kind);
    if (run?.job.id === id && job?.status === 'cancelled') run.controller.abort(new Error('the job was cancelled'));
    return job && publicJob(job);
  }

  async retry(kind: string, id: string): Promise<Job | undefined> {
    const job = await this.env.write(() => {
      const stored = this.find(kind, id);
      if (stored?.status !== 'failed' && stored?.status !== 'cancelled') return stored;
      return this.put({
        ...stored,
        status: 'queued',
        progress: { done: 0, total: 0 },
        attempts: 0,
        error: null,
        finished_at: null,
        run_at: 0,
      });
    });
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
      await this.queueAgain(job, 0, { attempts: job.attempts - 1 }).catch(() => undefined);
    });
    await Promise.all(stopped);
    await this.env.close();
  }

  private poll(): void {
    for (const run of this.runs.values()) {
      if (!run.unwritten) continue;
      run.unwritten = false;
      this.change(run.job, { progress: { ...run.progress } }).catch(() => (run.unwritten = true));
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
        const job = await this.take(kind, registration.attempts).catch(() => undefined);
        if (job) this.run(job, registration);
      }
    }
  }

  /**
   * Takes a job of a kind that is due: the oldest one of the owner whose last turn is longest ago. None of this kind may be
   * running: one that is so in the store was interrupted by the end of its process, or its outcome could not be written.
   */
  private async take(kind: string, maxAttempts: number): Promise<StoredJob | undefined> {
    for (let next; (next = await this.nextOf(kind)) !== undefined;) {
      const { id, owner } = next;
      const taken = await this.env.write(() => {
        // It may have been cancelled meanwhile.
        const job = this.find(kind, id);
        if (!job || !this.mayRun(job)) return undefined;
        if (job.attempts >= maxAttempts) {
          const error = job.error ?? 'its process ended while it ran';
          return this.put({ ...job, status: 'failed', error, finished_at: this.now() });
        }
        return this.put({ ...job, status: 'running', attempts: job.attempts + 1 });
      });
      if (taken?.status !== 'running') continue;
      if (owner !== undefined) this.turns.set(`${kind} ${owner}`, ++this.lastTurn);
      return taken;
    }
    return undefined;
  }

  private async nextOf(kind: string): Promise<StoredJob | undefined> {
    let next: StoredJob | undefined;
    let least = Infinity;
    for await (const job of this.openOf(kind)) {
      const turn = this.turns.get(`${kind} ${job.owner}`) ?? 0;
      if (turn < least && this.mayRun(job)) [next, least] = [job, turn];
      if (least === 0) break;
    }
    return next;
  }

  private mayRun({ status, run_at }: StoredJob): boolean {
    const wait = run_at - this.clock();
    // A wait longer than any job may have means that the clock was set back.
    if (status === 'queued') return wait <= 0 || wait > LONGEST_WAIT_MS;
    return status === 'running';
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
      if (isPassing(error)) return this.queueAgain(job, backoffMs, { ...failed, attempts: job.attempts - 1 });
      const waitMs = error instanceof JobGivenUp ? null : waitOf(job.attempts, { attempts, backoffMs });
      if (waitMs !== null) return this.queueAgain(job, waitMs, failed);
      return this.change(job, { ...failed, status: 'failed', finished_at: this.now() });
    }
    const { progress } = run;
    await this.change(job, { progress, status: 'completed', result, error: null, finished_at: this.now() });
  }

  /** Queues a job that runs again, to be run after a time. */
  private async queueAgain(job: StoredJob, waitMs: number, changes: Partial<StoredJob>): Promise<void> {
    await this.change(job, { ...changes, status: 'queued', run_at: this.clock() + waitMs });
  }

  /** Changes a job that runs; no effect if it was cancelled meanwhile, also if it was put back since. */
  private async change({ kind, id }: StoredJob, changes: Partial<StoredJob>): Promise<void> {
    await this.env.write(() => {
      const stored = this.find(kind, id);
      if (stored?.status === 'running') this.put({ ...stored, ...changes });
    });
  }

  /** Removes the jobs that finished before this time. */
  private async sweep(before: string): Promise<void> {
    for await (const page of this.env.pages<string, number>('job_order', OPEN_SLICE)) {
      for (const { key: sequence } of page) {
        const job = this.jobAt(sequence);
        // Those after it have not finished earlier.
        if (job && job.enqueued_at >= before) return;
        if (!job || !finishedBefore(job, before)) continue;
        await this.env.write(() => {
          // It may have been put back meanwhile.
          if (!finishedBefore(this.jobAt(sequence), before)) return;
          this.jobs.removeSync(keyOf(job.kind, job.id));
          this.order.removeSync(sequence);
        });
      }
    }
  }

  /** The open jobs of a kind, oldest first, in parts between which other work continues. */
  private async *openOf(kind: string): AsyncIterable<StoredJob> {
    const range = { start: [kind, 0], end: [kind, Number.MAX_SAFE_INTEGER] };
    for await (const page of this.env.pages<string, OpenKey>('open_of_kind', OPEN_SLICE, range)) {
      for (const { key } of page) {
        const job = this.jobAt(key[1]);
        if (job?.finished_at === null) yield job;
      }
    }
  }

  /** Undefined if it is damaged, or was enqueued again since then. */
  private jobAt(sequence: number): StoredJob | undefined {
    const name = this.env.read(() => nameIn(this.order.get(sequence)));
    const job = name && this.find(...name);
    return job?.sequence === sequence ? job : undefined;
  }

  private find(kind: string, id: string): StoredJob | undefined {
    const key = keyOf(kind, id);
    const text = this.env.read(() => this.jobs.get(key));
    return unsealedJson(key.join(), text);
  }

  private put(job: StoredJob): StoredJob {
    const key = keyOf(job.kind, job.id);
    this.jobs.putSync(key, sealedJson(key.join(), job));
    if (job.finished_at === null) this.openOfKind.putSync([job.kind, job.sequence], '');
    else this.openOfKind.removeSync([job.kind, job.sequence]);
    return job;
  }

  private now(): string {
    return new Date(this.clock()).toISOString();
  }

  private get jobs() {
    return this.env.database<string, Name>('jobs');
  }
  /** By the order of enqueueing: names of jobs, as JSON. */
  private get order() {
    return this.env.database<string, number>('job_order');
  }
  /** The keys of jobs that have not finished. */
  private get openOfKind() {
    return this.env.database<string, OpenKey>('open_of_kind');
  }
}

function publicJob(stored: StoredJob): Job {
  const { sequence: _, run_at: __, owner: ___, ...job } = stored;
  return job;
}

/** Undefined if it is absent or damaged. A name that is another one by now leads to no job, or to one that is listed elsewhere. */
function nameIn(text: string | undefined): Name | undefined {
  try {
    return JSON.parse(text ?? '') as Name;
  } catch {
    return undefined;
  }
}

/** Long names are stored as their hash: the library refuses keys over 1,978 bytes, also on reading. */
function keyOf(kind: string, id: string): Name {
  return kind.length + id.length > MAX_NAME_LENGTH ? ['#', hashOf(kind, id)] : [kind, id];
}
