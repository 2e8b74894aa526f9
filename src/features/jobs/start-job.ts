import { randomUUID } from 'node:crypto';
import { type CommandContext, ownerOfTurns } from '../../commands/context.js';
import type { JsonObject } from '../../kernel/json.js';
import { idempotencyKeyReused, Problem } from '../../kernel/problems.js';
import type { Job, Jobs } from '../../stores/ports/jobs.js';
import { FOREVER_MS, type KeyValue, changeValue } from '../../stores/ports/key-value.js';

/** The maximum number of queued or running jobs of one kind and organization, or key without one. */
const MAX_OPEN = 5;
/** A job that was counted but is not there after this time, ms, never will be: its process has ended before. */
const ENQUEUED_WITHIN_MS = 60_000;

/** What starts a job, and the time, ms. */
interface StartsJobs {
  jobs: Jobs;
  keyValue: KeyValue;
  now: number;
}

/** A kind of job, the prefix of its ids, and what such jobs are called. */
interface JobsOf {
  kind: string;
  prefix: string;
  plural: string;
}

/** The id of a job that a command starts. A retry with the same Idempotency-Key has the same. */
export function jobId(prefix: string, { idempotency }: CommandContext): string {
  return `${prefix}_${idempotency?.slice(0, 32) ?? randomUUID().replaceAll('-', '')}`;
}

/**
 * Enqueues a job over the whole population for a caller. A retry with the same Idempotency-Key gets the first one.
 * @throws Problem idempotency_key_reused; rate_limited, since each reads all identities and all callers share the workers
 */
export async function startJob(
  stores: StartsJobs,
  of: JobsOf,
  input: JsonObject,
  context: CommandContext,
): Promise<Job> {
  const { jobs } = stores;
  const { actor, body_hash } = context;
  const id = jobId(of.prefix, context);
  const known = await jobs.get(of.kind, id);
  const owner = ownerOfTurns(actor);
  if (!known) await take(stores, of, id, owner);
  const job = await jobs.enqueue(of.kind, id, { caller: actor.name, ...input, body_hash }, owner);
  return known ? repeated(job, context) : unlessReused(job, context);
}

/** Enqueues a job that the service itself needs done, once for an id. One that used up its attempts starts again. */
export async function enqueueUntilDone(jobs: Jobs, kind: string, id: string, input: JsonObject): Promise<void> {
  const job = await jobs.enqueue(kind, id, input);
  if (job.status === 'failed') await jobs.retry(kind, id);
}

/** In whose name a job was started, as `ownerOfTurns` says of its caller. */
export const ownerOfJob = ({ input }: Pick<Job, 'input'>): string =>
  (input['organization'] ?? input['caller']) as string;

/** The jobs of one kind and owner that were started and may be open, by id: when, ms. A type, not an interface: it is stored as JSON. */
type Started = Record<string, number>;

/** Counts a job before it is enqueued, in one step for all processes. @throws Problem rate_limited */
async function take({ jobs, keyValue, now }: StartsJobs, of: JobsOf, id: string, owner: string): Promise<void> {
  const key = `jobs-started:${of.kind}:${owner}`;
  await changeValue<Started>(keyValue, key, FOREVER_MS, async (stored = {}) => {
    const next: Started = { [id]: now };
    for (const [other, at] of Object.entries(stored)) {
      const job = other === id ? undefined : await jobs.get(of.kind, other);
      const isOpen = job
        ? job.status === 'queued' || job.status === 'running'
        : Math.abs(now - at) < ENQUEUED_WITHIN_MS;
      if (isOpen) next[other] = at;
    }
    if (Object.keys(next).length > MAX_OPEN) {
      const detail = `${MAX_OPEN} ${of.plural} of ${owner} are queued or running. Wait for one to finish, or cancel one.`;
      throw new Problem('rate_limited', detail, { headers: { 'retry-after': '10' } });
    }
    return next;
  });
}

/** The last job of a slot, `pending` until the queue has it. A type, not an interface: it is stored as JSON. */
type Slot = { id: string; input: JsonObject; pending?: true };

/**
 * Enqueues a job in a slot, in which at most one job is queued or running. One that the queue had, and does not have any
 * more, is neither. A retry with the same Idempotency-Key gets the first one.
 * @param id of `jobId`
 * @param meet called with the open job of another request: returns it if it does for this one, too
 * @throws Problem idempotency_key_reused, and what `meet` throws
 */
export async function startInSlot(
  jobs: Jobs,
  keyValue: KeyValue,
  slot: string,
  { kind, id, input }: { kind: string; id: string; input: JsonObject },
  context: CommandContext,
  meet: (open: Job) => Job | Promise<Job>,
): Promise<Job> {
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
    if (job?.status === 'queued' || job?.status === 'running') return meet(job);
    if (last) await keyValue.replace(slot, last, mine, FOREVER_MS);
    else await keyValue.putIfAbsent(slot, mine, FOREVER_MS);
  }
}

/**
 * The job that an earlier request with the same Idempotency-Key started.
 * @throws Problem idempotency_key_reused if that request had another body
 */
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
