import { Inject, Injectable } from '@nestjs/common';
import { backoff } from '../kernel/backoff.js';
import type { Position, RecordedEvent } from '../kernel/event.js';
import { Logger } from '../kernel/logger.js';
import { pause } from '../kernel/turn.js';
import { EVENT_STORE, type EventStore, StoreUnavailable } from '../stores/ports/event-store.js';
import { Views } from './views.js';

/** Events read at once. */
const SLICE = 500;
/** How often a consumer that has everything looks for more, ms. */
const POLL_MS = 50;
/** The longest that a consumer which cannot handle an event is left alone, ms. */
const MOST_PAUSE_MS = 60_000;

/** What is done with the log behind the read models. It has a position of its own, and stores it if it is to last. */
export interface Consumer {
  /** Names it where a failure is logged. */
  readonly id: string;
  /** Everything up to here is handled. */
  readonly position: Position;
}

/** Some events of the log that follow each other. */
export interface LogPart {
  /** The events follow this position. */
  after: Position;
  events: readonly RecordedEvent[];
}

type Handler<C extends Consumer> = (part: LogPart, consumers: readonly C[]) => Promise<void>;

/**
 * Reads the log for all who do something with it besides the read models: deliveries of webhooks, ends of sessions, live
 * streams. None gets an event that the read models have not applied, and none waits for another that is slow or fails.
 */
@Injectable()
export class Consumers {
  /** Consumers that could not handle the next events: how often in a row, and until when they are left alone. */
  private readonly paused = new WeakMap<Consumer, { failures: number; until: number }>();

  constructor(
    @Inject(EVENT_STORE) private readonly store: EventStore,
    private readonly views: Views,
    private readonly logger: Logger,
  ) {}

  /**
   * Calls `take` again and again until the signal aborts: at once while it returns true, since there is more, and after
   * a failure or at the end of the log a little later.
   * @param what names it, in the plural, where a failure is logged
   */
  async follow(what: string, take: () => Promise<boolean>, signal: AbortSignal): Promise<void> {
    let failures = 0;
    while (!signal.aborted) {
      try {
        const isMore = await take();
        failures = 0;
        if (!isMore) await pause(POLL_MS, signal);
      } catch (error) {
        if (signal.aborted) return;
        // A store itself logs when it becomes unavailable and when it is back.
        if (++failures === 1 && !(error instanceof StoreUnavailable)) this.logger.warn(`${what} wait`, { error });
        await pause(backoff(failures), signal);
      }
    }
  }

  /**
   * Hands parts of the log to consumers that share what is read: the part after the one that is furthest, and the part
   * after the one that is furthest behind.
   * @param handle is called with the consumers whose positions are in the part, and moves these positions. If it fails,
   *   it is called for each of them alone, and those for which it fails again are left alone for a time
   * @param upTo no event after this position is handed over, nor one that the read models have not applied
   * @returns whether there is more
   * @throws StoreUnavailable, for which all wait
   */
  async hand<C extends Consumer>(consumers: readonly C[], handle: Handler<C>, upTo = Infinity): Promise<boolean> {
    const now = performance.now();
    const ready = consumers.filter((consumer) => (this.paused.get(consumer)?.until ?? 0) <= now);
    if (ready.length === 0) return false;
    const end = Math.min(upTo, await this.views.applied());
    const behind = ready.filter(({ position }) => position < end);
    if (behind.length === 0) return false;
    const positions = behind.map(({ position }) => position);
    for (const after of new Set([Math.max(...positions), Math.min(...positions)])) {
      const concerned = behind.filter(({ position }) => position >= after);
      try {
        const events = await this.eventsAfter(after, end);
        await this.attempt({ after, events }, concerned, handle);
      } catch (error) {
        if (error instanceof StoreUnavailable) throw error;
        for (const consumer of concerned) if (consumer.position === after) this.leave(consumer, error);
      }
    }
    return behind.some(({ position }, n) => position !== positions[n] && position < end);
  }

  private async eventsAfter(after: Position, end: Position): Promise<RecordedEvent[]> {
    for await (const slice of this.store.readAll(after, { sliceSize: SLICE })) {
      return slice.filter(({ position }) => position <= end);
    }
    return [];
  }

  private async attempt<C extends Consumer>(part: LogPart, consumers: readonly C[], handle: Handler<C>): Promise<void> {
    const last = part.events.at(-1)?.position ?? part.after;
    const concerned = consumers.filter(({ position }) => position < last);
    if (concerned.length === 0) return;
    try {
      await handle(part, concerned);
      for (const consumer of concerned) this.paused.delete(consumer);
    } catch (error) {
      if (error instanceof StoreUnavailable) throw error;
      if (concerned.length === 1) return this.leave(concerned[0]!, error);
      for (const consumer of concerned) await this.attempt(part, [consumer], handle);
    }
  }

  /** Leaves a consumer alone for a time. */
  private leave(consumer: Consumer, error: unknown): void {
    const failures = (this.paused.get(consumer)?.failures ?? 0) + 1;
    this.paused.set(consumer, { failures, until: performance.now() + backoff(failures, { most: MOST_PAUSE_MS }) });
    if (failures > 1) return;
    this.logger.warn('the next event of the log cannot be handled, and is tried again', { by: consumer.id, error });
  }
}
