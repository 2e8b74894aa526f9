import { randomUUID } from 'node:crypto';
import { Inject, Injectable, type Type } from '@nestjs/common';
import { type Actor, type CommandContext, ownerOfTurns } from '../../commands/context.js';
import type { Scope } from '../../credentials/caller.js';
import { CLOCK, type Clock } from '../../kernel/clock.js';
import type { Json, JsonObject } from '../../kernel/json.js';
import { idempotencyKeyReused, Problem } from '../../kernel/problems.js';
import { JOBS, type Job, type Jobs, type RunningJob } from '../../stores/ports/jobs.js';
import { FOREVER_MS, KEY_VALUE, type KeyValue, changeValue } from '../../stores/ports/key-value.js';

/** The maximum number of queued or running jobs of one kind and organization, or key without one. */
const MAX_OPEN = 5;
/** A job that was counted but is not there after this time, ms, never will be: its process has ended before. */
const ENQUEUED_WITHIN_MS = 60_000;

/** A kind of job that `/v1/jobs` shows. */
export interface JobKind<T extends object | string = object | string> {
  /** Its name on the Jobs port, and `kind` in answers. */
  kind: string;
  /** The ids of its jobs begin with this and "_". */
  prefix: string;
  /** The scope that starts such a job. It is also needed to read or cancel one, unless the key has `ops`. */
  scope: Scope;
  /**
   * Whether keys of this organization may read the job, and cancel it. Keys without an organization may. Absent: if its
   * input names the `organization`.
   */
  isOf?(organization: string, job: Job): boolean | Promise<boolean>;
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

/** The jobs of one kind and owner that were started and may be open, by id: when, ms. A type, not an interface: it is stored as JSON. */
type Started = Record<string, number>;

/** The last job of a slot, `pending` until the queue has it. A type, not an interface: it is stored as JSON. */
type Slot = { id: string; input: JsonObject; pending?: true };

/** Every kind of job that clients can read and cancel, and how such jobs start. */
@Injectable()
export class JobKinds {
  private readonly byPrefix = new Map<string, JobKind>();

  constructor(
    @Inject(JOBS) private readonly jobs: Jobs,
    @Inject(KEY_VALUE) private readonly keyValue: KeyValue,
    @Inject(CLOCK) private readonly clock: Clock,
  ) {}

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
   * @param refusal makes the refusal of an id
   * @throws Problem job_not_found, so that nobody learns which ids other callers' jobs have
   */
  async find(jobId: string, actor: Actor, refusal = unknownJob): Promise<{ kind: JobKind; job: Job }> {
    const { scopes, organization } = actor;
    const kind = this.byPrefix.get(jobId.slice(0, jobId.indexOf('_')));
    if (!kind || !(scopes.has(kind.scope) || scopes.has('ops'))) throw refusal(jobId);
    const job = await this.jobs.get(kind.kind, jobId);
    if (!job || (organization !== null && !(await isOf(kind, organization, job)))) throw refusal(jobId);
    return { kind, job: await this.shownTo(actor, kind, job, refusal) };
  }

  /** The part of a job that the actor may read. @throws what `refusal` makes */
  private async shownTo(actor: Actor, kind: JobKind, job: Job, refusal: typeof unknownJob): Promise<Job> {
    const shown = kind.shownTo ? await kind.shownTo(actor, job) : job;
    if (!shown) throw refusal(job.id);
    return shown;
  }

  /** Cancels a queued or running job; does nothing to a finished one. @throws Problem as `find`; forbidden */
  async cancel(jobId: string, actor: Actor, refusal = unknownJob): Promise<Job> {
    const { kind, job: found } = await this.find(jobId, actor, refusal);
    if (actor.organization !== null && kind.mayCancel?.(actor.organization, found) === false) {
      throw new Problem('forbidden', 'Somebody else started this job: only they and operators can cancel it.');
    }
    const job = await this.jobs.cancel(kind.kind, jobId);
    if (!job) throw refusal(jobId);
    return this.shownTo(actor, kind, job, refusal);
  }

  get all(): JobKind[] {
    return [...this.byPrefix.values()];
  }

  /**
   * Starts a job over the whole population for a caller. A retry with the same Idempotency-Key gets the first one.
   * @param plural what such jobs are called
   * @throws Problem idempotency_key_reused; rate_limited, since each reads all identities and all callers share the workers
   */
  async start(
    { kind, prefix, plural }: { kind: string; prefix: string; plural: string },
    input: JsonObject,
    context: CommandContext,
  ): Promise<Job> {
    const id = jobId(prefix, context);
    const known = await this.jobs.get(kind, id);
    if (known) return repeated(known, context);
    const { actor, body_hash } = context;
    const owner = ownerOfTurns(actor);
    await this.take(kind, plural, id, owner);
    const job = await this.jobs.enqueue(kind, id, { caller: actor.name, ...input, body_hash }, owner);
    return unlessReused(job, context);
  }

  /** Counts a job before it is enqueued, in one step for all processes. @throws Problem rate_limited */
  private async take(kind: string, plural: string, id: string, owner: string): Promise<void> {
    await changeValue<Started>(this.keyValue, `jobs-started:${kind}:${owner}`, FOREVER_MS, async (stored = {}) => {
      const now = this.clock();
      const next: Started = { [id]: now };
      for (const [other, at] of Object.entries(stored)) {
        const job = await this.jobs.get(kind, other);
        if (job ? isOpen(job) : Math.abs(now - at) < ENQUEUED_WITHIN_MS) next[other] = at;
      }
      if (Object.keys(next).length > MAX_OPEN) {
        const detail = `${MAX_OPEN} ${plural} of ${owner} are queued or running. Wait for one to finish, or cancel one.`;
        throw new Problem('rate_limited', detail, { headers: { 'retry-after': '10' } });
      }
      return next;
    });
  }

  /**
   * Starts a job in a slot, in which at most one job is queued or running. One that the queue had, and does not have any
   * more, is neither. A retry with the same Idempotency-Key gets the first one.
   * @param id of `jobId`
   * @param meet called with the open job of another request: returns it if it does for this one, too
   * @throws Problem idempotency_key_reused, and what `meet` throws
   */
  async startInSlot(
    slot: string,
    { kind, id, input }: { kind: string; id: string; input: JsonObject },
    context: CommandContext,
    meet: (open: Job) => Job | Promise<Job>,
  ): Promise<Job> {
    const { jobs, keyValue } = this;
    const known = await jobs.get(kind, id);
    if (known) return repeated(known, context);
    const mine: Slot = { id, input: { ...input, body_hash: context.body_hash }, pending: true };
    for (;;) {
      const last = (await keyValue.get(slot)) as Slot | undefined;
      let job = last && !last.pending ? await jobs.get(kind, last.id) : undefined;
      if (last?.pending) {
        // Also if a crash, or a concurrent request, left only the slot.
        job = await jobs.enqueue(kind, last.id, last.input, ownerOfTurns(context.actor));
        await keyValue.replace(slot, last, { id: last.id, input: last.input }, FOREVER_MS);
      }
      if (job && last!.id === id) return unlessReused(job, context);
      if (job && isOpen(job)) return meet(job);
      if (last) await keyValue.replace(slot, last, mine, FOREVER_MS);
      else await keyValue.putIfAbsent(slot, mine, FOREVER_MS);
    }
  }

  /** Starts a job that the service itself needs done, once for an id. One that used up its attempts starts again. */
  async startUntilDone(kind: string, id: string, input: JsonObject): Promise<void> {
    const job = await this.jobs.enqueue(kind, id, input);
    if (job.status === 'failed') await this.jobs.retry(kind, id);
  }
}

const isOf = (kind: JobKind, organization: string, job: Job) =>
  kind.isOf ? kind.isOf(organization, job) : job.input['organization'] === organization;

/** The id of a job that a command starts. A retry with the same Idempotency-Key has the same. */
export function jobId(prefix: string, { idempotency }: CommandContext): string {
  return `${prefix}_${idempotency?.slice(0, 32) ?? randomUUID().replaceAll('-', '')}`;
}

/** In whose name a job was started, as `ownerOfTurns` says of its caller. */
export const ownerOfJob = ({ input }: Pick<Job, 'input'>): string =>
  (input['organization'] ?? input['caller']) as string;

const isOpen = ({ status }: Job): boolean => status === 'queued' || status === 'running';

/** The job that an earlier request with the same Idempotency-Key started. @throws as `unlessReused` */
function repeated(job: Job, context: CommandContext): Job {
  unlessReused(job, context);
  context.onRepeated?.();
  return job;
}

/** @throws Problem idempotency_key_reused if the job was started by another body */
function unlessReused(job: Job, { body_hash }: CommandContext): Job {
  if (job.input['body_hash'] !== body_hash) throw idempotencyKeyReused();
  return job;
}

/** What a DTO says of its job, whatever the kind. */
export function stateOfJob<R>({ status, progress, result, error, enqueued_at, finished_at }: Job) {
  return { status, progress, result: result as R | null, error, started_at: enqueued_at, finished_at };
}

const unknownJob = (jobId: string) => new Problem('job_not_found', `There is no job ${jobId}.`);
