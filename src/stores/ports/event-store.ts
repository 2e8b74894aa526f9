import type { NewEvent, Position, RecordedEvent } from '../../kernel/event.js';

/** The port to the log, the system's source of truth. An adapter must pass `test/contracts/event-store.contract.ts`. */

/** `any` is for tests and tools only: a fact is always appended with `no-stream` or an exact revision. */
export type ExpectedRevision = 'no-stream' | 'any' | number;

/** Where the last event of an append is. */
export interface Appended {
  position: Position;
  revision: number;
}

/** The result of a check of the index of streams. */
export interface IndexCheck {
  /** The number of events looked up, and of entries compared with their event. */
  events: number;
  entries: number;
  /** The number of the newest events, which the stored index does not contain yet. */
  newest: number;
  /** The number of events missing in the index, and of entries without an event. */
  missing: number;
  stray: number;
}

/** Limits how many requests append at a time, so that a slow log makes them wait a little instead of failing them. */
export interface Admission {
  /** @throws StoreUnavailable if so many requests, or of this owner, wait that another one need not begin */
  refuseIfFull(owner: string): void;
  /**
   * Undefined if the request is admitted; otherwise a promise that resolves once it is. Call `leave` when an admitted
   * request has ended.
   * @param owner owners take turns
   * @throws StoreUnavailable store_busy after a bounded time; nothing was written
   */
  enter(owner: string): Promise<void> | undefined;
  leave(): void;
}

/** Of a read of the whole log: how many events a slice has, about, and what ends it. */
export interface SliceOptions {
  sliceSize?: number;
  signal?: AbortSignal;
}

export interface EventStore {
  /** Permanent id of this log; part of every position on the wire. Available once the store is open. */
  readonly logId: string;

  /**
   * Appends all events or none. Resolves only after the disk sync; nothing is visible to any reader before.
   * @param events must not be changed afterwards: subscribers of this process may get these objects
   * @throws WrongExpectedRevision, AppendRefused (nothing written), StoreUnavailable (no definite outcome; repeating
   * the identical append is safe)
   */
  append(stream: string, expected: ExpectedRevision, events: readonly NewEvent[]): Promise<Appended>;

  /** Events of one stream, in order, from a revision on; an unknown stream is empty. */
  readStream(stream: string, options?: { from?: number; limit?: number }): Promise<RecordedEvent[]>;

  /**
   * All domain events after a position, in order, in slices that end at append boundaries; ends at the head (as of each
   * slice). System events of the server are skipped.
   */
  readAll(after: Position, options?: SliceOptions): AsyncIterable<RecordedEvent[]>;

  /**
   * As readAll, then live: waits for further events (also those of other processes), without a gap or a duplicate in
   * the transition, until the signal aborts (then it ends without an error).
   */
  subscribe(after: Position, options: SliceOptions & { signal: AbortSignal }): AsyncIterable<RecordedEvent[]>;

  /** The last domain event's position; START for an empty log. */
  head(): Promise<Position>;

  /** The event at exactly this position, if there is one. */
  readAt(position: Position): Promise<RecordedEvent | undefined>;

  /**
   * The number of domain events after a position: the lag of a reader that has applied it. Beyond 1,000 it may be an
   * estimate, since not every store can count.
   */
  countAfter(position: Position): Promise<number>;

  /**
   * Changes with every new connection, behind which the log may be an older copy. Absent if the log cannot be replaced
   * under a running process.
   */
  readonly connections?: number;
  /** Why nothing is read or appended although the server responds: it has another log, or an older copy of this one. */
  readonly refusal?: StoreUnavailable | undefined;

  /** How many appends may be in flight, how many are, and how many requests wait. Absent as `admission` is. */
  readonly load?: { window: number; appends: number; requests: number };

  /** Absent if the log cannot be overloaded: its appends wait in this process only. */
  readonly admission?: Admission;

  /**
   * The streams whose first event cannot be read, or will not be once the server has freed its space: an operator has
   * deleted or truncated them. Reads the rest of the log, if it was not read to its end yet. Absent where nothing can
   * be deleted.
   */
  hiddenStreams?(): Promise<string[]>;

  /** For a great many appends: uses more memory and writes less until what is returned is called. May be absent. */
  startBulk?(): () => void;

  /** Compares the index of streams with the log; `repair` corrects the index. Only in adapters that have an index. */
  checkIndex?(repair: boolean, onProgress?: (done: number, total: number) => void): Promise<IndexCheck>;

  /**
   * If the log is unavailable: every call that waits for it ends with StoreUnavailable, as every later one, since the
   * process is to end. Absent if calls do not wait.
   */
  abandon?(): void;

  close(): Promise<void>;
}
export const EVENT_STORE = Symbol('EventStore');

/** The stream is not at the expected revision: read it and decide again, or return the earlier answer. */
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

/** The append is invalid (bad JSON value, too large). This is a bug of the caller; nothing was written. */
export class AppendRefused extends Error {
  override readonly name = 'AppendRefused';
}

/** Why a store gives no answer: unavailable, overloaded, or with a content that would make any answer wrong. */
export type StoreFailure =
  'store_unavailable' | 'store_busy' | 'store_full' | 'log_replaced' | 'read_models_foreign' | 'read_models_damaged';

/** No definite answer from the store. The identical append may be repeated. */
export class StoreUnavailable extends Error {
  override readonly name = 'StoreUnavailable';

  readonly code: StoreFailure;

  constructor(message: string, { code = 'store_unavailable', ...rest }: { code?: StoreFailure; cause?: unknown } = {}) {
    super(message, rest);
    this.code = code;
  }

  /** Its message with those of its causes, such as a full disk, without a full stop. For operators: it may name folders. */
  get explanation(): string {
    const messages = [this.message];
    for (let { cause } = this as Error; cause instanceof Error; { cause } = cause) messages.push(cause.message);
    return messages.join(': ').replace(/\.$/, '');
  }

  /** Whether the store may work again without anyone's help: work that can wait should wait. */
  get isPassing(): boolean {
    return this.code === 'store_unavailable' || this.code === 'store_busy';
  }
}
