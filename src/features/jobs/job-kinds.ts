import { Inject, Injectable, type Type } from '@nestjs/common';
import type { Actor } from '../../commands/context.js';
import type { Scope } from '../../credentials/caller.js';
import type { Json } from '../../kernel/json.js';
import { Problem } from '../../kernel/problems.js';
import { JOBS, type Job, type Jobs, type RunningJob } from '../../stores/ports/jobs.js';

/** A kind of job that `/v1/jobs` shows. */
export interface JobKind<T extends object | string = object | string> {
  /** Its name on the Jobs port, and `kind` in answers. */
  kind: string;
  /** The ids of its jobs begin with this and "_". */
  prefix: string;
  /** The scope that starts such a job. It is also needed to read or cancel one, unless the key has `ops`. */
  scope: Scope;
  /** Whether keys of this organization may read the job, and cancel it. Keys without an organization may. */
  isOf(organization: string, job: Job): boolean | Promise<boolean>;
  /** Whether keys of this organization that may read the job may also cancel it. Absent: yes. */
  mayCancel?(organization: string, job: Job): boolean;
  /** The part of the job that this actor may read; undefined: none, nor may it cancel the job. Absent: all of it. */
  shownTo?(actor: Actor, job: Job): Promise<Job | undefined>;
  /** What describes the result of a completed job to clients: a DTO, or the schema of a text. */
  result: Type<T> | { type: 'string'; description: string };
  /**
   * The result of a completed job as lines of JSON, if it is more than `result` says. Each text has whole lines.
   * @throws Problem job_result_expired
   */
  lines?(job: Job): Promise<AsyncIterable<string>>;
}

/** Every kind of job that clients can read and cancel. */
@Injectable()
export class JobKinds {
  private readonly byPrefix = new Map<string, JobKind>();

  constructor(@Inject(JOBS) private readonly jobs: Jobs) {}

  /** Adds a kind, with what runs its jobs, as `Jobs.handle` does for other kinds. */
  add<T extends object | string>(
    kind: JobKind<T>,
    run: (job: RunningJob) => Promise<T>,
    retries?: { attempts?: number; backoffMs?: number },
  ): void {
    this.jobs.handle(kind.kind, async (job) => (await run(job)) as Json, retries);
    this.byPrefix.set(kind.prefix, kind);
  }

  /**
   * A job with its kind, as far as the actor may read it.
   * @throws Problem job_not_found, so that nobody learns which ids other callers' jobs have
   */
  async find(jobId: string, actor: Actor): Promise<{ kind: JobKind; job: Job }> {
    const { scopes, organization } = actor;
    const kind = this.byPrefix.get(jobId.slice(0, jobId.indexOf('_')));
    if (!kind || !(scopes.has(kind.scope) || scopes.has('ops'))) throw unknownJob(jobId);
    const job = await this.jobs.get(kind.kind, jobId);
    if (!job || (organization !== null && !(await kind.isOf(organization, job)))) throw unknownJob(jobId);
    return { kind, job: await this.shownTo(actor, kind, job) };
  }

  /** The part of a job that the actor may read. @throws Problem job_not_found */
  async shownTo(actor: Actor, kind: JobKind, job: Job): Promise<Job> {
    const shown = kind.shownTo ? await kind.shownTo(actor, job) : job;
    if (!shown) throw unknownJob(job.id);
    return shown;
  }

  get all(): JobKind[] {
    return [...this.byPrefix.values()];
  }

  isShown(kind: string): boolean {
    return this.all.some((shown) => shown.kind === kind);
  }
}

/** What a DTO says of its job, whatever the kind. */
export function stateOfJob<R>({ status, progress, result, error, enqueued_at, finished_at }: Job) {
  return { status, progress, result: result as R | null, error, started_at: enqueued_at, finished_at };
}

export function unknownJob(jobId: string): Problem {
  return new Problem('job_not_found', `There is no job ${jobId}.`);
}
