import { OwnerQueues } from '../kernel/turns.js';

/** How many requests begin in one turn of the event loop while several callers ask. */
const MOST_IN_TURN = 3;
/** A caller is alone if no other has asked for this long, ms. */
const ALONE_AFTER_MS = 1_000;

/**
 * Lets the requests of a process begin. While several callers ask, few requests begin in one turn of the event loop, and
 * the callers take turns, so that a flood of one of them waits for itself. A caller that is alone does not wait.
 */
export class CallerTurns {
  private last: string | undefined;
  private sharedUntil = 0;
  private begun = 0;
  private isScheduled = false;
  private readonly waiting = new OwnerQueues<string, () => void>();

  /** @param now ms, of a clock never set back. @returns resolves when the request may begin; undefined: at once */
  take(caller: string, now: number): Promise<void> | undefined {
    if (caller !== this.last) {
      this.sharedUntil = this.last === undefined ? 0 : now + ALONE_AFTER_MS;
      this.last = caller;
    }
    if (this.waiting.size === 0) {
      if (now >= this.sharedUntil) return undefined;
      this.schedule();
      if (this.begun++ < MOST_IN_TURN) return undefined;
    }
    return new Promise((resolve) => this.waiting.add(caller, resolve));
  }

  private schedule(): void {
    if (this.isScheduled) return;
    this.isScheduled = true;
    setImmediate(() => {
      this.isScheduled = false;
      this.begun = 0;
      while (this.waiting.size > 0 && this.begun++ < MOST_IN_TURN) this.waiting.next()!();
      if (this.waiting.size > 0) this.schedule();
    });
  }
}
