import { BoundedMap } from '../../kernel/bounded-map.js';
import type { Clock } from '../../kernel/clock.js';
import { hashOf } from '../../kernel/hash.js';
import { sealedJson, unsealedJson } from '../ports/sealed-json.js';
import type { JsonObject } from '../../kernel/json.js';
import { LmdbEnvironment } from './environment.js';
import { type Job, type JobStatus, LONGEST_WAIT_MS } from '../ports/jobs.js';
import { isDue, yieldIfDue } from '../../kernel/turn.js';
import { finishedBefore } from '../sweeper.js';

export interface StoredJob extends Job {
  /** Order of enqueueing, from 1. */
  sequence: number;
  /** Not to be run before, ms since the epoch; 0 unless it waits for its next attempt. */
  run_at: number;
  owner?: string | undefined;
}

type Name = [kind: string, id: string];
type OpenKey = [kind: string, sequence: number];

const LIST_SLICE = 1_000;
const OPEN_SLICE = 100;
const MAX_NAME_LENGTH = 300;
/** Owners whose turns are remembered. */
const MAX_OWNERS = 10_000;

/**
 * The jobs on disk and every change of state they may make, each in one durable transaction. A job that is not what was
 * written is absent, as if the folder had been deleted.
 */
export class JobStore {
  /** By kind and owner: when, in the order of all, a job was taken last. */
  private readonly turns = new BoundedMap<string, number>(MAX_OWNERS);
  private lastTurn = 0;

  static async open(folder: string, clock: Clock): Promise<JobStore> {
    const text = { encoding: 'string' } as const;
    const databases = { jobs: text, job_order: text, open_of_kind: text };
    return new JobStore(await LmdbEnvironment.open(folder, { databases }), clock);
  }

  private constructor(
    private readonly env: LmdbEnvironment,
    private readonly clock: Clock,
  ) {}

  async add(kind: string, id: string, input: JsonObject, owner?: string): Promise<StoredJob> {
    return this.env.grow(() => {
      const existing = this.get(kind, id);
      if (existing) return existing;
      const [last = 0] = this.order.getKeys({ reverse: true, limit: 1 });
      const sequence = last + 1;
      const job: StoredJob = {
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
      };
      this.order.putSync(sequence, JSON.stringify([kind, id]));
      this.put(job);
      return job;
    });
  }

  get(kind: string, id: string): StoredJob | undefined {
    const key = keyOf(kind, id);
    const text = this.env.read(() => this.jobs.get(key));
    return unsealedJson(key.join(), text);
  }

  async list({ status, limit = 100 }: { status?: JobStatus; limit?: number }): Promise<StoredJob[]> {
    const found: StoredJob[] = [];
    for await (const page of this.env.pages<string, number>('job_order', LIST_SLICE, { reverse: true })) {
      for (const { key } of page) {
        const job = this.jobAt(key);
        if (job && (status === undefined || job.status === status)) found.push(job);
        if (found.length >= limit) return found;
        if (isDue()) await yieldIfDue();
      }
    }
    return found;
  }

  /** The number of queued jobs of a kind. */
  async queued(kind: string): Promise<number> {
    let count = 0;
    for await (const job of this.openOf(kind)) if (job.status === 'queued') count++;
    return count;
  }

  /**
   * Takes a job of a kind that is due: the oldest one of the owner whose last turn is longest ago. None of this kind may be
   * running: one that is so in the store was interrupted by the end of its process, or its outcome could not be written.
   */
  async take(kind: string, maxAttempts: number): Promise<StoredJob | undefined> {
    for (let next; (next = await this.nextOf(kind)) !== undefined;) {
      const { id, owner } = next;
      const taken = await this.env.write(() => {
        // It may have been cancelled meanwhile.
        const job = this.get(kind, id);
        if (!job || !this.isDue(job)) return undefined;
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
      if (turn < least && this.isDue(job)) [next, least] = [job, turn];
      if (least === 0) break;
    }
    return next;
  }

  /** Changes a job that runs; no effect if it was cancelled meanwhile, also if it was put back since. */
  async change(job: StoredJob, changes: Partial<StoredJob>): Promise<void> {
    await this.env.write(() => {
      const stored = this.get(job.kind, job.id);
      if (stored?.status === 'running') this.put({ ...stored, ...changes });
    });
  }

  /** Ends a job that runs, as `change` does. */
  async end(job: StoredJob, changes: Partial<StoredJob>): Promise<void> {
    await this.change(job, { ...changes, finished_at: this.now() });
  }

  /** Queues a job that runs again, to be run after a time. */
  async queueAgain(job: StoredJob, waitMs: number, changes: Partial<StoredJob>): Promise<void> {
    await this.change(job, { ...changes, status: 'queued', run_at: this.clock() + waitMs });
  }

  async cancel(kind: string, id: string): Promise<StoredJob | undefined> {
    return this.env.write(() => {
      const job = this.get(kind, id);
      if (job?.status !== 'queued' && job?.status !== 'running') return job;
      return this.put({ ...job, status: 'cancelled', finished_at: this.now() });
    });
  }

  async reset(kind: string, id: string): Promise<StoredJob | undefined> {
    return this.env.write(() => {
      const job = this.get(kind, id);
      if (job?.status !== 'failed' && job?.status !== 'cancelled') return job;
      return this.put({
        ...job,
        status: 'queued',
        progress: { done: 0, total: 0 },
        attempts: 0,
        error: null,
        finished_at: null,
        run_at: 0,
      });
    });
  }

  /** Removes the jobs that finished before this time. */
  async sweep(before: string): Promise<void> {
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

  async close(): Promise<void> {
    await this.env.close();
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
    const job = name && this.get(...name);
    return job?.sequence === sequence ? job : undefined;
  }

  private isDue({ status, run_at }: StoredJob): boolean {
    const wait = run_at - this.clock();
    // A wait longer than any job may have means that the clock was set back.
    if (status === 'queued') return wait <= 0 || wait > LONGEST_WAIT_MS;
    return status === 'running';
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
