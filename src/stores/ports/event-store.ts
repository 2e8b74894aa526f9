import type { NewEvent, Position, RecordedEvent } from '../../kernel/event.js';

/** The port to the log: the truth of the system. An adapter must pass `test/contracts/event-store.contract.ts`. */

/** `any` is for tests and tools only: a fact is always appended with `no-stream` or an exact revision. */
export type ExpectedRevision = 'no-stream' | 'any' | number;

export interface Appended {
  /** Position of the last event of the append. */
  position: Position;
  /** Revision of the last event of the append. */
  revision: number;
}

/** What a look at the index of streams found. */
export interface IndexCheck {
  /** Events that were looked up, and entries that were compared with their event. */
  events: number;
  entries: number;
  /** Events that the index did not lead to, and entries that belong to no event. */
  missing: number;
  stray: number;
}

export interface EventStore {
  /** Identifies this log for ever; part of every position on the wire. Available once the store is open. */
  readonly logId: string;

  /**
   * Appends all events or none. Resolves only after the disk sync; nothing is visible to any reader before.
   * @throws WrongExpectedRevision, AppendRefused (nothing written), StoreUnavailable (outcome settled as "not written
   * as far as can be told"; repeating the identical append is safe)
   */
  append(stream: string, expected: ExpectedRevision, events: readonly NewEvent[]): Promise<Appended>;

  /** Events of one stream; an unknown stream is empty. `from` is a revision, inclusive, in the direction read. */
  readStream(
    stream: string,
    options?: { direction?: 'forward' | 'backward'; from?: number; limit?: number },
  ): Promise<RecordedEvent[]>;

  /**
   * All domain events after a position, in order, in slices that end at append boundaries; ends at the head
   * (as of each slice). System events of the server behind are skipped.
   */
  readAll(after: Position, options?: { sliceSize?: number; signal?: AbortSignal }): AsyncIterable<RecordedEvent[]>;

  /**
   * As readAll, and then live: waits for further events (also those of other processes) without a gap or a
   * duplicate at the seam, until the signal aborts (then it ends without an error).
   */
  subscribe(after: Position, options: { sliceSize?: number; signal: AbortSignal }): AsyncIterable<RecordedEvent[]>;

  /** The last domain event's position; START for an empty log. */
  head(): Promise<Position>;

  /** The event at exactly this position, if there is one. */
  readAt(position: Position): Promise<RecordedEvent | undefined>;

  /** How many domain events lie after a position: the lag of a reader that has applied it. */
  countAfter(position: Position): Promise<number>;

  /**
   * Another number whenever a new connection was made, behind which the log may be an older copy of itself. Absent where
   * nothing can take the log's place under a running process.
   */
  readonly connections?: number;
  /** Why nothing is read or appended although there is a server: it holds another log, or an older copy of this one. */
  readonly refusal?: StoreUnavailable | undefined;

  /** Where this adapter keeps an index of streams: compares it with the log; `repair` makes it what it should be. */
  checkIndex?(repair: boolean, onProgress?: (done: number, total: number) => void): Promise<IndexCheck>;

  /** Where this adapter keeps checksums: gives one to every event that an older build has stored. Answers to how many. */
  upgrade?(onProgress?: (done: number, total: number) => void): Promise<number>;

  close(): Promise<void>;
}
export const EVENT_STORE = Symbol('EventStore');

/** The stream is not where the writer thought: read it and decide again, or answer from what is there. */
export class WrongExpectedRevision extends Error {
  constructor(
    readonly stream: string,
    readonly expected: ExpectedRevision,
    readonly actual: number | 'no-stream',
  ) {
    super(`stream ${stream} is at ${actual}, expected ${expected}`);
    this.name = 'WrongExpectedRevision';
  }
}

/** The append itself is not acceptable (bad JSON value, too large): a bug of the caller, nothing was written. */
export class AppendRefused extends Error {
  override readonly name = 'AppendRefused';
}

/**
 * Why a store gives no answer: it is away; it has more to do than it can; or what is there is not what it should be, so
 * that any answer would be wrong.
 */
export type StoreFailure =
  'store_unavailable' | 'store_busy' | 'log_replaced' | 'read_models_foreign' | 'read_models_damaged';

/** No definite answer from the store. The identical append may be repeated. */
export class StoreUnavailable extends Error {
  override readonly name = 'StoreUnavailable';

  readonly code: StoreFailure;
  /** Seconds after which it may be worth while to try again. */
  readonly retryAfter: number;

  constructor(message: string, options: { code?: StoreFailure; retryAfter?: number; cause?: unknown } = {}) {
    const { code = 'store_unavailable', retryAfter = 1, ...rest } = options;
    super(message, rest);
    this.code = code;
    this.retryAfter = retryAfter;
  }
}
