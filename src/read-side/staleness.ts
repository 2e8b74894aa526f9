import type { OnModuleDestroy, OnModuleInit } from '@nestjs/common';
import type { Position } from '../kernel/event.js';
import { Problem } from '../kernel/problems.js';
import { inTime, pause } from '../kernel/turn.js';
import type { EventStore } from '../stores/ports/event-store.js';
import type { Views } from './views.js';

/** How often the head of the log is looked at, ms. */
const SAMPLE_MS = 500;
/** How long a check waits for a log that has been silent, ms. */
const ASK_MS = 500;
/** Batches are held back while the read models are further behind than this, ms. */
const CLOSE_MS = 1_000;
/** For how long a batch is held back at most, ms for each of its items. */
const HELD_MS = 2;
/** Nothing is held back for read models that have not moved for so long, ms: nobody applies the log to them. */
const STILL_MS = 3_000;
/** A sample is dropped if those beside it are closer together than this part of their age. */
const PRECISION = 1 / 32;

/**
 * How long the read models have been behind the log, by the monotonic clock of this process. It looks at the head of the
 * log again and again, and remembers when it first found each one.
 */
export class Staleness implements OnModuleInit, OnModuleDestroy {
  /** How far what is served is behind, in whole seconds, if that is more than a check allows; otherwise 0. */
  seconds = 0;
  private readonly maxMs: number;
  /** The head at each look that found another one than the look before, and when that was, in order. */
  private readonly samples: { head: Position; at: number }[] = [];
  /** When the log has last answered. */
  private answeredAt = performance.now();
  private applied: Position = 0;
  /** When that has last changed. */
  private movedAt = -Infinity;
  private looking: Promise<void> | undefined;
  private timer: NodeJS.Timeout | undefined;
  private readonly stopping = new AbortController();

  constructor(
    private readonly store: Pick<EventStore, 'head'>,
    private readonly views: Pick<Views, 'applied'>,
    maxSeconds: number,
  ) {
    this.maxMs = maxSeconds * 1_000;
  }

  onModuleInit(): void {
    this.timer = setInterval(() => void this.look(), SAMPLE_MS).unref();
    void this.look();
  }

  onModuleDestroy(): void {
    this.stopping.abort();
    clearInterval(this.timer);
  }

  /** @throws Problem projection_behind if what was read at a position is older than a check allows */
  async refuse(position: Position): Promise<void> {
    const lag = this.lagAt(position);
    if (lag > this.maxMs) throw behind(`The read models have been behind the log for ${secondsOf(lag)} s`);
    if (this.silence() <= this.maxMs) return;
    // This process may have stood still meanwhile.
    await inTime(this.look(), ASK_MS).catch(() => undefined);
    const silence = this.silence();
    if (silence > this.maxMs) {
      throw behind(
        `The log has given no answer for ${secondsOf(silence)} s, so that the read models may be as far behind`,
      );
    }
  }

  /**
   * Holds a batch back while the read models catch up, but not for long. A flood of batches would otherwise leave them so
   * far behind that the checks of all callers are refused.
   */
  async holdBack(items: number): Promise<void> {
    const { signal } = this.stopping;
    for (let ms = items * HELD_MS; ms > 0 && !signal.aborted && this.isCatchingUp(); ms -= SAMPLE_MS) {
      await pause(Math.min(ms, SAMPLE_MS), signal);
    }
  }

  private isCatchingUp(): boolean {
    return this.lagAt(this.applied) > CLOSE_MS && performance.now() - this.movedAt < STILL_MS;
  }

  /** Looks at the log and at what is served. Concurrent callers share one look. */
  look(): Promise<void> {
    // Also while the stores keep a look waiting.
    this.update();
    // The silence of the log counts; read models that do not answer are where they were, or reads are refused.
    return (this.looking ??= Promise.allSettled([this.lookAtHead(), this.lookAtApplied()])
      .then(() => this.update())
      .finally(() => (this.looking = undefined)));
  }

  private async lookAtHead(): Promise<void> {
    const head = await this.store.head();
    const at = (this.answeredAt = performance.now());
    const { samples } = this;
    if (head <= (samples.at(-1)?.head ?? -1)) return;
    samples.push({ head, at });
    for (let n = samples.length - 2; n > 0; n--) {
      const [before, after] = [samples[n - 1]!, samples[n + 1]!];
      if (after.at - before.at < (at - after.at) * PRECISION) samples.splice(n, 1);
    }
  }

  private async lookAtApplied(): Promise<void> {
    const applied = await this.views.applied();
    if (applied !== this.applied) this.movedAt = performance.now();
    this.applied = applied;
  }

  private update(): void {
    const lag = Math.max(this.lagAt(this.applied), this.silence());
    this.seconds = lag > this.maxMs ? secondsOf(lag) : 0;
  }

  /** For how long the log has been beyond a position, ms: since the first look that found it there. */
  private lagAt(position: Position): number {
    const { samples } = this;
    let n = samples.length;
    while (n > 0 && samples[n - 1]!.head > position) n--;
    return n === samples.length ? 0 : performance.now() - samples[n]!.at;
  }

  /** For how long the log has given no answer, ms. */
  private silence(): number {
    return performance.now() - this.answeredAt;
  }
}

const secondsOf = (ms: number): number => Math.floor(ms / 1_000);

function behind(since: string): Problem {
  const detail = `${since}, which is longer than a check allows (CREDENCE_MAX_STALENESS_SECONDS). Nothing was recorded.`;
  return new Problem('projection_behind', detail, { headers: { 'retry-after': '1' } });
}
