import type { Clock } from '../kernel/clock.js';
import type { Job } from './ports/jobs.js';

/** Removes now and then what a store need not keep any more. What cannot be removed now is removed next time. */
export class Sweeper {
  private readonly timer: NodeJS.Timeout;
  private sweeping: Promise<void> | undefined;

  /** @param everyMs when to sweep, from now on */
  constructor(
    private readonly remove: () => Promise<unknown>,
    everyMs: number,
  ) {
    this.timer = setInterval(() => this.sweep(), everyMs).unref();
  }

  /** Sweeps now, unless that is under way. */
  sweep(): void {
    this.sweeping ??= this.remove()
      .catch(() => undefined)
      .then(() => (this.sweeping = undefined));
  }

  /** Resolves when a sweep that is under way has ended. */
  async stop(): Promise<void> {
    clearInterval(this.timer);
    await this.sweeping;
  }
}

/** How long a finished job is kept, ms. */
const KEPT_MS = 30 * 86_400_000;
const JOBS_EVERY_MS = 3_600_000;

/**
 * Removes jobs that finished long ago, for the first time at once.
 * @param remove those that finished before this time
 * @param keptMs how long they are kept, for tests
 */
export function jobSweeper(remove: (before: string) => Promise<void>, clock: Clock, keptMs = KEPT_MS): Sweeper {
  const sweeper = new Sweeper(() => remove(new Date(clock() - keptMs).toISOString()), Math.min(JOBS_EVERY_MS, keptMs));
  sweeper.sweep();
  return sweeper;
}

/** @param before a time as jobs have it */
export function finishedBefore(job: Job | undefined, before: string): boolean {
  return job !== undefined && job.finished_at !== null && job.finished_at < before;
}
