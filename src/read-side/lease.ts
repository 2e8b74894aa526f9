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
  /** Aborted when what was applied may have been lost with the server of the read models. */
  restarted: AbortSignal;
  release(): Promise<void>;
}

/** Undefined while another process holds it, or if the generation is gone or belongs to another log. */
export async function takeLease(
  id: string,
  holder: string,
  readModels: ReadModels,
  log: string,
): Promise<HeldLease | undefined> {
  const { restarts } = readModels;
  let heldUntil = 0;
  const take = async () => {
    const until = performance.now() + LEASE_MS;
    const isTaken = await readModels.acquireLease(id, holder, LEASE_MS, log);
    if (isTaken) heldUntil = Math.max(heldUntil, until);
    return isTaken;
  };
  if (!(await take())) return undefined;
  const lost = new AbortController();
  const restarted = new AbortController();
  const renew = async () => {
    // Without an answer, it is held for as long as it was taken.
    const isHeld = await take().catch(() => performance.now() < heldUntil);
    if (!isHeld) lost.abort();
    if (readModels.restarts !== restarts) restarted.abort();
  };
  const renewal = setInterval(() => void renew(), LEASE_MS / 3);
  return {
    lost: lost.signal,
    restarted: restarted.signal,
    release: async () => {
      clearInterval(renewal);
      await readModels.releaseLease(id, holder);
    },
  };
}
