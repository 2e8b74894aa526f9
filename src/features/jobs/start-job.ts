import { randomUUID } from 'node:crypto';
import type { CommandContext } from '../../commands/context.js';
import type { JsonObject } from '../../kernel/json.js';
import { idempotencyKeyReused, Problem } from '../../kernel/problems.js';
import type { Job, Jobs, RunningJob } from '../../stores/ports/jobs.js';
import { FOREVER_MS, type KeyValue } from '../../stores/ports/key-value.js';

/** The maximum number of queued or running jobs of one kind and caller. */
const MAX_OPEN = 5;
/** Open jobs that are counted: more than all callers together have in practice. */
const MAX_COUNTED = 1_000;

/** The id of a job that a command starts. A retry with the same Idempotency-Key has the same. */
export function jobId(prefix: string, { idempotency }: CommandContext): string {
  return `${prefix}_${idempotency?.slice(0, 32) ?? randomUUID().replaceAll('-', '')}`;
}

/**
 * Enqueues a job over the whole population for a caller. A retry with the same Idempotency-Key gets the first one.
 * @param of its kind, the prefix of its id, and what such jobs are called
 * @throws Problem idempotency_key_reused; rate_limited, since each reads all identities and all callers share the workers
 */
export async function startJob(
  jobs: Jobs,
  of: { kind: string; prefix: string; plural: string },
  input: JsonObject,
  context: CommandContext,
): Promise<Job> {
  const { actor, body_hash } = context;
  const id = jobId(of.prefix, context);
  const known = await jobs.get(of.kind, id);
  if (!known) await refuseMany(jobs, of, actor.name);
  const job = await jobs.enqueue(of.kind, id, { caller: actor.name, ...input, body_hash });
  return known ? repeated(job, context) : unlessReused(job, context);
}

async function refuseMany(jobs: Jobs, of: { kind: string; plural: string }, caller: string): Promise<void> {
  const filters = (['queued', 'running'] as const).map((status) => ({ kind: of.kind, status, limit: MAX_COUNTED }));
  const open = (await Promise.all(filters.map((filter) => jobs.list(filter)))).flat();
  if (open.filter(({ input }) => input['caller'] === caller).length < MAX_OPEN) return;
  const detail = `${MAX_OPEN} ${of.plural} of this caller are queued or running. Wait for one to finish, or cancel one.`;
  throw new Problem('rate_limited', detail, { headers: { 'retry-after': '10' } });
}

/** The last job that was started in a slot. A type, not an interface: it is stored as JSON. */
type Slot = { id: string; input: JsonObject; finished?: true };

/**
 * Enqueues a job in a slot, in which at most one job is queued or running. A retry with the same Idempotency-Key gets the
 * first one.
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
  const mine: Slot = { id, input: { ...input, body_hash: context.body_hash } };
  for (;;) {
    const last = (await keyValue.get(slot)) as Slot | undefined;
    if (last && !last.finished) {
      // Creates it if a crash, or a concurrent request, left only the slot.
      const job = await jobs.enqueue(kind, last.id, last.input);
      if (last.id === id) return unlessReused(job, context);
      if (job.status === 'queued' || job.status === 'running') return meet(job);
    }
    if (last) await keyValue.replace(slot, last, mine, FOREVER_MS);
    else await keyValue.putIfAbsent(slot, mine, FOREVER_MS);
  }
}

/** Should the queue ever lose a finished job of a slot, the next request does not run it again. */
export async function noteFinished(keyValue: KeyValue, slot: string, { id, input }: RunningJob): Promise<void> {
  const mine: Slot = { id, input };
  await keyValue.replace(slot, mine, { ...mine, finished: true }, FOREVER_MS);
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
