import type { ReadModels } from '../stores/ports/read-models.js';

/**
 * Lifetime of a lease, ms; it is renewed after a third of it. After a process is killed, its read models do not advance
 * for this long.
 */
const LEASE_MS = 2_000;

/** The right to apply batches to a generation, renewed until it is released. */
export interface HeldLease {
  /** Aborted when the lease has been lost. */
  lost: AbortSignal;
  release(): Promise<void>;
}

/** Undefined while another process holds it, or if the generation is gone or belongs to another log. */
export async function takeLease(
  id: string,
  holder: string,
  readModels: ReadModels,
  log: string,
): Promise<HeldLease | undefined> {
  const take = () => readModels.acquireLease(id, holder, LEASE_MS, log);
  if (!(await take())) return undefined;
  const lost = new AbortController();
  const renewal = setInterval(
    () =>
      take().then(
        (held) => !held && lost.abort(),
        () => lost.abort(),
      ),
    LEASE_MS / 3,
  );
  return {
    lost: lost.signal,
    release: async () => {
      clearInterval(renewal);
      await readModels.releaseLease(id, holder);
    },
  };
}
