import { EventEmitter, once } from 'node:events';
import { setImmediate } from 'node:timers/promises';
import type { Position, RecordedEvent } from '../../kernel/event.js';
import type { SliceOptions } from '../ports/event-store.js';
import { isDamage, type LmdbEnvironment } from './environment.js';
import { damaged, readEntry } from './stored-event.js';

/** Events read in one turn of the event loop. Their snapshot pins pages, and other work waits. */
export const MAX_SLICE = 5_000;
const DEFAULT_SLICE = 1_000;
/** The newest events that are kept for subscribers: more than are appended between two of their reads. */
const KEPT_EVENTS = 4_096;
/** Positions are keys of 32 bits. */
export const MAX_POSITION = 0xffff_ffff;

type At = (position: Position) => RecordedEvent | undefined;

/** Reads the log by position: one event, all in order, or all and those that follow. */
export class LogReader {
  /** Subscriptions that have not ended. */
  subscribers = 0;
  private readonly appends = new EventEmitter().setMaxListeners(0);
  /** The newest events, by their position modulo KEPT_EVENTS; empty without subscribers. */
  private kept: (RecordedEvent | undefined)[] = [];

  /**
   * @param head the position of the newest event
   * @param refuseIfClosed throws if nothing may be read
   */
  constructor(
    private readonly env: LmdbEnvironment,
    private readonly head: () => Position,
    private readonly refuseIfClosed: () => void,
  ) {}

  /** The event at a position, with a mark if it is damaged; undefined if there is no entry. */
  get(position: Position): RecordedEvent | undefined {
    let bytes: Buffer | undefined;
    try {
      // Valid until the next read: these are the first bytes of the library's own buffer.
      bytes = this.env.read(() => this.env.database<Buffer, number>('events').getBinaryFast(position));
    } catch (error) {
      if (!isDamage(error)) throw error;
      return damaged(position, 'the page it stands on cannot be read');
    }
    return bytes && readEntry(bytes, bytes.length, position);
  }

  /** The event at a position. Every position within the log has one, and no other has. */
  at(position: Position): RecordedEvent | undefined {
    if (!Number.isInteger(position) || position < 1 || position > this.head()) return undefined;
    return this.get(position) ?? damaged(position, 'there is nothing at its place');
  }

  /**
   * See `EventStore.subscribe`. Events that were just appended are not read and decoded again: subscribers get, and share,
   * those that were appended.
   */
  async *subscribe(after: Position, options: SliceOptions & { signal: AbortSignal }): AsyncGenerator<RecordedEvent[]> {
    let position = after;
    const at: At = (wanted) => {
      const kept = this.kept[wanted % KEPT_EVENTS];
      return kept?.position === wanted ? kept : this.at(wanted);
    };
    this.subscribers++;
    try {
      while (!options.signal.aborted) {
        for await (const slice of this.readAll(position, options, at)) {
          position = slice.at(-1)!.position;
          yield slice;
          if (options.signal.aborted) return;
        }
        this.refuseIfClosed();
        if (this.head() > position) continue;
        // Until there may be another event, or on abort.
        await once(this.appends, 'append', { signal: options.signal }).catch(() => undefined);
      }
    } finally {
      if (--this.subscribers === 0) this.kept = [];
    }
  }

  /** Tells subscribers of events that have become durable. */
  announce(events: readonly RecordedEvent[]): void {
    for (const event of events) this.kept[event.position % KEPT_EVENTS] = event;
    this.wakeSubscribers();
  }

  /** Lets subscribers that wait for an append look again. */
  wakeSubscribers(): void {
    this.appends.emit('append');
  }

  /** See `EventStore.readAll`. @param at gives the event at a position */
  async *readAll(
    after: Position,
    options: SliceOptions = {},
    at: At = (position) => this.at(position),
  ): AsyncGenerator<RecordedEvent[]> {
    let position = after;
    while (!options.signal?.aborted) {
      const slice = await this.slice(position, at, options.sliceSize);
      if (slice.length === 0) return;
      position = slice.at(-1)!.position;
      yield slice;
      // Other work can run here, and the library releases the snapshot.
      await setImmediate();
    }
  }

  /** At most `size` events, plus those that complete the last append. */
  private async slice(after: Position, at: At, size = DEFAULT_SLICE): Promise<RecordedEvent[]> {
    this.refuseIfClosed();
    // A reader of the whole log continues after a failed write of others.
    await this.env.ready();
    const slice: RecordedEvent[] = [];
    let wanted = Math.max(1, size);
    while (slice.length < wanted) {
      const event = at(after + slice.length + 1);
      if (!event) break;
      slice.push(event);
      if (slice.length === wanted) wanted += event.metadata.size - event.metadata.index - 1;
      if (slice.length % MAX_SLICE === 0) await setImmediate();
    }
    return slice;
  }
}

/** The position of the newest event; 0 if there is none. */
export function headPosition(env: LmdbEnvironment): Position {
  return env.read(() => {
    const [head = 0] = env.database<Buffer, number>('events').getKeys({ reverse: true, limit: 1 });
    return head;
  });
}
