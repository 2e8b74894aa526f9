import type { Clock } from '../../kernel/clock.js';
import type { Logger } from '../../kernel/logger.js';
import { MOST_SKEW_MS, skewOf } from '../ports/clock-skew.js';

/** How often to compare, ms. */
const COMPARE_MS = 5_000;

/**
 * Compares the clock of this process with that of PostgreSQL, and so with those of all processes, since they all ask the same
 * server. Times that a process gives to events are those of its own clock.
 */
export class ClockComparison {
  /** How far this clock is ahead (negative: behind), in ms, at least: the time of the question is not counted. */
  skew = 0;
  private warned = false;
  private readonly timer: NodeJS.Timeout;

  /** @param serverTime asks for the server's time, ms since the epoch */
  constructor(
    private readonly serverTime: () => Promise<number>,
    private readonly clock: Clock,
    private readonly logger: Logger | undefined,
  ) {
    void this.compare();
    this.timer = setInterval(() => void this.compare(), COMPARE_MS).unref();
  }

  async compare(): Promise<void> {
    const asked = this.clock();
    const time = await this.serverTime().catch(() => undefined);
    if (time === undefined) return; // The connection logs that the server is unavailable.
    const answered = this.clock();
    this.skew = time < asked ? asked - time : Math.min(0, answered - time);
    const warns = Math.abs(this.skew) > MOST_SKEW_MS;
    if (warns === this.warned) return;
    this.warned = warns;
    this.logger?.warn(
      warns
        ? `the clock of this process is ${skewOf(this.skew)} that of PostgreSQL: synchronize the clocks of all machines`
        : 'the clocks of this process and of PostgreSQL agree again',
    );
  }

  stop(): void {
    clearInterval(this.timer);
  }
}
