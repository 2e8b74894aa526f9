import { randomUUID } from 'node:crypto';
import type { CommandContext } from '../../commands/context.js';
import type { JsonObject } from '../../kernel/json.js';
import { idempotencyKeyReused, Problem } from '../../kernel/problems.js';
import type { Job, Jobs } from '../../stores/ports/jobs.js';

/** The maximum number of queued or running jobs of one kind and caller. */
const MAX_OPEN = 5;
/** More open jobs than callers have in practice. */
const MOST = 1_000;

/**
 * Enqueues a job over the whole population for a caller. A retry with the same Idempotency-Key gets the first one.
 * @param of its kind, the prefix of its id, and what such jobs are called
 * @throws Problem idempotency_key_reused; rate_limited, since each reads all identities and all callers share the workers
 */
export async function startJob(
  jobs: Jobs,
  of: { kind: string; prefix: string; plural: string },
  input: JsonObject,
  { idempotency, body_hash, actor }: CommandContext,
): Promise<Job> {
  const id = `${of.prefix}_${idempotency?.slice(0, 32) ?? randomUUID().replaceAll('-', '')}`;
  if (!(await jobs.get(of.kind, id))) await refuseMany(jobs, of, actor.name);
  const job = await jobs.enqueue(of.kind, id, { caller: actor.name, ...input, body_hash });
  if (job.input['body_hash'] !== body_hash) throw idempotencyKeyReused();
  return job;
}

async function refuseMany(jobs: Jobs, of: { kind: string; plural: string }, caller: string): Promise<void> {
  const filters = (['queued', 'running'] as const).map((status) => ({ kind: of.kind, status, limit: MOST }));
  const open = (await Promise.all(filters.map((filter) => jobs.list(filter)))).flat();
  if (open.filter(({ input }) => input['caller'] === caller).length < MAX_OPEN) return;
  const detail = `${MAX_OPEN} ${of.plural} of this caller are queued or running. Wait for one to finish, or cancel one.`;
  throw new Problem('rate_limited', detail, { headers: { 'retry-after': '10' } });
}
