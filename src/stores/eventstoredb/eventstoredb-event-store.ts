import { randomUUID } from 'node:crypto';
import { StreamDeletedError, UnknownError } from '@eventstore/db-client';
import { EVENT_ID } from '../../kernel/identifiers.js';
import { StartError } from '../../kernel/start-error.js';
import { type NewEvent, type Position, type RecordedEvent, START } from '../../kernel/event.js';
import { Problem } from '../../kernel/problems.js';
import { pause } from '../../kernel/turn.js';
import { checkAppend } from '../ports/event-encoding.js';
import {
  type Appended,
  AppendRefused,
  type EventStore,
  type ExpectedRevision,
  type SliceOptions,
  StoreUnavailable,
  WrongExpectedRevision,
} from '../ports/event-store.js';
import { checkMarker, LogMarker } from '../ports/log-marker.js';
import { AppendPipe } from './append-pipe.js';
import { readServerStream, type ServerStream } from './server-stream.js';
import { breaksConnection, closedError, Connection, isDefinite, LogReplaced, type Patience } from './connection.js';
import { connectionReplaced } from './pulse.js';
import { AppendAdmission } from './admission.js';
import type { Link } from './link.js';
import { readAll, readStream } from './calls.js';
import type { ServerRecord } from './messages.js';
import { cutStream, isDomain, isReserved, LOG_STREAM, recordedEvent, unreadable } from './records.js';

const DEFAULT_SLICE = 1_000;
/** While the server takes longer than this for a slice, ms, or fails in the middle of one, slices get smaller. */
const SLOW_SLICE_MS = 1_000;
const LEAST_SLICE = 50;
/** Records read backwards from the end at a time, to find the last domain event. */
const HEAD_PAGE = 32;
/** Events that `countAfter` counts one by one, and the newest records by which it tells how many more there are. */
const COUNTED = 1_000;
/** A call on a connection that works is given up after this time, ms. */
const LONGEST_CALL_MS = 8_000;
/**
 * How long it takes, ms, from the start of a read at the head to the start of the next: after one that found events, and
 * after one that found none. What is appended meanwhile is read and applied together: a read and a batch cost much more
 * than an event in them.
 */
const TOGETHER_MS = 20;
const LOOK_MS = 50;

export interface EventStoreDbOptions {
  /** Connection string, `esdb://…` or `esdb+discover://…`, as in the client's documentation. */
  url: string;
  /** Path of the file with the id of the log and the position that it had at least reached; see LogMarker. */
  marker?: string;
  /** Called for each append with the number of events made durable and the time to the answer, in milliseconds. */
  onCommit?: (commit: { events: number; milliseconds: number }) => void;
  /** Called with the client's warnings about the connection string. */
  onWarning?: (message: string) => void;
  /** How long the server may be silent; default 2 s. */
  answerMs?: number;
  /** How long a caller waits for a definite answer before StoreUnavailable; default 8 s. */
  patienceMs?: number;
  /** Once the log is open, callers wait until there is a definite answer. */
  waits?: boolean;
  /** A database without a log is refused; otherwise it is given an id. */
  mustExist?: boolean;
}

/** The place of a reader in the log. */
interface Cursor {
  /** Events up to this position have been read. */
  after: Position;
  /** Where the server should continue: `after`, or one of its own records beyond it. START if unknown. */
  from: Position;
}

/**
 * The log in EventStoreDB or KurrentDB. A position is an event's commit position. Whatever has no definite answer is
 * repeated identically until it has one or the time limit is reached. No fault requires a restart of this process.
 */
export class EventStoreDbEventStore implements EventStore {
  logId = '';
  private marker: LogMarker | undefined;
  readonly admission: AppendAdmission;
  readonly connection: Connection;
  private readonly pipe: AppendPipe;
  private readonly onCommit: EventStoreDbOptions['onCommit'];
  /** The last domain event when the log's last record was `scanned`. */
  private knownHead = { position: START, scanned: START };
  /** The furthest event that was acknowledged or seen: the log must always contain it. */
  private furthest: { position: Position; id: string } | undefined;
  /** The streams that were cut by any record up to a position. */
  private readonly cut = { streams: new Set<string>(), to: START };
  private lastLook: Promise<unknown> = Promise.resolve();
  private nextLook: Promise<Position> | undefined;

  /** @throws StartError if there is no answer, or a different log than before */
  static async open(options: EventStoreDbOptions): Promise<EventStoreDbEventStore> {
    const store = new EventStoreDbEventStore(options);
    try {
      await store.identify(options);
      if (options.waits) store.connection.patience.patienceMs = Infinity;
      return store;
    } catch (error) {
      store.connection.close();
      if (error instanceof StoreUnavailable) throw new StartError(`${error.message}.`);
      if ((error as { type?: unknown }).type === 'access-denied') {
        throw new StartError(
          `EventStoreDB at ${store.connection.place} refuses the credentials of EVENTSTORE_URL, or they may not read and append.`,
        );
      }
      throw error;
    }
  }

  private constructor({ url, onCommit, onWarning = () => undefined, ...patience }: EventStoreDbOptions) {
    const { answerMs = 2_000, patienceMs = 8_000 } = patience;
    const asked: Patience = { answerMs, patienceMs, callMs: Math.min(patienceMs, LONGEST_CALL_MS) };
    this.connection = new Connection(url, asked, onWarning);
    this.pipe = new AppendPipe(this.connection);
    // As many again may wait in this process, so that the window is always used.
    this.admission = new AppendAdmission(
      () => 2 * this.pipe.window.size,
      () => this.pipe.refusal('requests are waiting to append'),
    );
    this.onCommit = onCommit;
  }

  get connections(): number {
    return this.connection.connections;
  }

  get load(): { window: number; appends: number; requests: number } {
    return { window: this.pipe.window.size, appends: this.pipe.waiting, requests: this.admission.waiting };
  }

  get refusal(): StoreUnavailable | undefined {
    return this.connection.refusal;
  }

  async append(stream: string, expected: ExpectedRevision, events: readonly NewEvent[]): Promise<Appended> {
    checkAppend(stream, events);
    if (isReserved(stream)) throw new AppendRefused(`stream names that start with $, and ${LOG_STREAM}, are reserved`);
    for (const [index, { id, type }] of events.entries()) {
      if (!EVENT_ID.test(id)) throw new AppendRefused(`events[${index}].id must be a UUID in lower case`);
      if (type.startsWith('$'))
        throw new AppendRefused(`events[${index}].type starts with $, which is reserved for the server`);
    }
    const started = performance.now();
    const appended = await this.pipe.append(stream, expected, events);
    this.note(appended.position, events.at(-1)!.id);
    const commit = { events: events.length, milliseconds: performance.now() - started };
    queueMicrotask(() => this.onCommit?.(commit));
    return appended;
  }

  async readStream(
    stream: string,
    { from = 0, limit = Number.MAX_SAFE_INTEGER }: { from?: number; limit?: number } = {},
  ): Promise<RecordedEvent[]> {
    if (isReserved(stream) || stream === '' || limit <= 0) return [];
    const events = await this.connection
      .persist((link) => this.collect(link, () => readStream(link, stream, from, limit), recordedEvent))
      .catch((error: unknown) => {
        throw error instanceof StreamDeletedError ? unreadable(stream) : error;
      });
    // Without its first events, what is left may mean something else: a session would not seem to have ended.
    if (events.length > 0 && events[0]!.revision !== from) throw unreadable(stream);
    return events;
  }

  readAll(after: Position, options: SliceOptions = {}): AsyncGenerator<RecordedEvent[]> {
    return this.toHead({ after, from: after }, options);
  }

  async *subscribe(after: Position, options: SliceOptions & { signal: AbortSignal }): AsyncGenerator<RecordedEvent[]> {
    const { signal } = options;
    const cursor = { after, from: after };
    while (!signal.aborted) {
      const began = performance.now();
      const before = cursor.after;
      try {
        yield* this.toHead(cursor, options);
      } catch (error) {
        // A follower waits for the server without a limit.
        if (!(error instanceof StoreUnavailable) || this.connection.closed) throw error;
        await this.connection.pause(Infinity, signal);
        continue;
      }
      if (this.connection.closed) throw closedError();
      const next = began + (cursor.after > before ? TOGETHER_MS : LOOK_MS);
      await pause(Math.max(0, next - performance.now()), signal);
    }
  }

  /** Concurrent callers share one read, which starts after they called. */
  head(): Promise<Position> {
    return (this.nextLook ??= this.lastLook.then(() => {
      this.nextLook = undefined;
      const looking = this.connection.persist((link) => this.readHead(link));
      this.lastLook = looking.catch(() => undefined);
      return looking;
    }));
  }

  async readAt(position: Position): Promise<RecordedEvent | undefined> {
    if (!Number.isSafeInteger(position) || position <= START) return undefined;
    return this.connection.persist(async (link) => {
      const event = await this.recordAt(link, position);
      if (!event || !isDomain(event)) return undefined;
      this.note(position, event.id);
      return recordedEvent(event);
    });
  }

  /**
   * The server cannot count, and reads from no place within the log that is not a record's. Of many events, the number is
   * told by the first or the newest ones, whichever are smaller: a build divides the log by it, and needs more memory if
   * there are more events than it was told.
   */
  async countAfter(position: Position): Promise<number> {
    let [count, last] = [0, position];
    for await (const slice of this.readAll(position, { sliceSize: COUNTED })) {
      count += slice.length;
      last = slice.at(-1)!.position;
      if (count >= COUNTED) break;
    }
    if (count < COUNTED) return count;
    const extent = { isBackward: true, most: COUNTED };
    const newest = await this.connection.persist((link) => this.collect(link, () => readAll(link, 'end', extent)));
    const [head, begin] = [newest[0]!.position, newest.at(-1)!.position];
    const others = newest.filter((record) => record.position > last && isDomain(record)).length;
    if (begin <= last) return count + others;
    return count + Math.round((head - last) * Math.max(count / (last - position), others / (head - begin)));
  }

  async hiddenStreams(): Promise<string[]> {
    for await (const _ of this.readAll(this.cut.to));
    const hidden: string[] = [];
    for (const stream of this.cut.streams) {
      const events = await this.readStream(stream, { limit: 1 }).catch((error: unknown) => {
        if (error instanceof Problem) return [];
        throw error;
      });
      if (events.length === 0) hidden.push(stream);
    }
    return hidden.sort();
  }

  abandon(): void {
    if (this.connection.isUnavailable) this.connection.close();
  }

  /** Waits for the appends in flight. */
  async close(): Promise<void> {
    await this.pipe.drained();
    this.connection.close();
    await this.marker?.close();
  }

  /** Reads the id of the log, or gives it one. */
  private async identify({ marker: markerPath, mustExist }: EventStoreDbOptions): Promise<void> {
    const { place } = this.connection;
    const known = await this.connection.persist((link) => this.logIdOn(link));
    const head = await this.head();
    if (markerPath !== undefined) await checkMarker(markerPath, `EventStoreDB at ${place}`, known, head);
    if (known === undefined && mustExist) {
      throw new StartError(`EventStoreDB at ${place} holds no log yet: start the service, or import.`);
    }
    this.logId = known ?? (await this.claimLogId());
    await this.connection.guard((link) => this.check(link));
    if (markerPath !== undefined) {
      this.marker = new LogMarker(markerPath, () => ({
        log_id: this.logId,
        position: this.furthest?.position ?? START,
      }));
    }
  }

  private async logIdOn(link: Link): Promise<string | undefined> {
    const [event] = await this.collect(link, () => readStream(link, LOG_STREAM, 0, 1), recordedEvent);
    return event?.data['log_id'] as string | undefined;
  }

  private note(position: Position, id: string): void {
    if (position > (this.furthest?.position ?? START)) this.furthest = { position, id };
  }

  /** @throws LogReplaced unless the log behind this connection has the known id, and the furthest event seen before */
  private async check(link: Link): Promise<void> {
    const found = await this.logIdOn(link);
    if (found !== this.logId) {
      throw new LogReplaced(
        found ? `holds the log ${found}, not ${this.logId}` : `does not hold the log ${this.logId}`,
      );
    }
    if (!this.furthest) return;
    const { position, id } = this.furthest;
    const there = await this.recordAt(link, position);
    if (there?.id === id) return;
    throw new LogReplaced(`holds an older copy of the log ${found}, which had reached position ${position} before`);
  }

  /** The record at exactly this position. */
  private async recordAt(link: Link, position: Position): Promise<ServerRecord | undefined> {
    try {
      const [record] = await this.collect(link, () => readAll(link, position, { most: 1 }));
      return record?.position === position ? record : undefined;
    } catch (error) {
      if (isWithinRecord(error)) return undefined;
      throw error;
    }
  }

  /** Of several processes that start on an empty database, one sets the id. */
  private async claimLogId(): Promise<string> {
    const id = randomUUID();
    const metadata = { schema: 1, index: 0, size: 1 };
    const event = { id, type: 'LogIdentified', data: { log_id: id }, metadata } as unknown as NewEvent;
    await this.pipe.append(LOG_STREAM, 'no-stream', [event]).catch((error: unknown) => {
      if (!(error instanceof WrongExpectedRevision)) throw error;
    });
    return (await this.connection.persist((link) => this.logIdOn(link)))!;
  }

  /** Reads backwards from the end to the last domain event, or to where the previous read began. */
  private async readHead(link: Link): Promise<Position> {
    let from: 'end' | Position = 'end';
    let scanned: Position | undefined;
    for (;;) {
      const extent = { isBackward: true, most: HEAD_PAGE };
      const page: ServerRecord[] = await this.collect(link, () => readAll(link, from, extent));
      scanned ??= page[0]?.position;
      for (const record of page) {
        if (record.position <= this.knownHead.scanned) return this.seen(this.knownHead.position, scanned!);
        if (isDomain(record)) {
          this.note(record.position, record.id);
          return this.seen(record.position, scanned!);
        }
      }
      if (page.length < HEAD_PAGE) return this.seen(START, scanned ?? START);
      from = page.at(-1)!.position;
    }
  }

  private seen(position: Position, scanned: Position): Position {
    if (scanned > this.knownHead.scanned) this.knownHead = { position, scanned };
    return position;
  }

  /** All records of a short read, each converted as it arrives: its bytes are a part of a whole message. */
  private async collect<R = ServerRecord>(
    link: Link,
    open: () => Promise<ServerStream>,
    convert: (record: ServerRecord) => R = (record) => record as R,
  ): Promise<R[]> {
    const found: R[] = [];
    const take = (record: ServerRecord) => void found.push(convert(record));
    for await (const all of readServerStream<R[]>(link, open, { take, rest: () => found })) return all;
    return found;
  }

  /**
   * Slices up to the head; moves the cursor with each. Continues after failures, unless nothing arrives for too long.
   */
  private async *toHead(cursor: Cursor, { sliceSize, signal }: SliceOptions): AsyncGenerator<RecordedEvent[]> {
    const { patienceMs } = this.connection.patience;
    const pace = new Pace(sliceSize);
    let until = performance.now() + patienceMs;
    for (let attempt = 0; !signal?.aborted; attempt++) {
      if (this.connection.closed) throw closedError();
      const { link } = this.connection;
      try {
        const session = await this.connection.confirm(link);
        for await (const { events, from } of this.slices(link, cursor, pace, signal)) {
          if (link.session !== session) throw connectionReplaced();
          if (cursor.from <= this.cut.to) this.cut.to = Math.max(this.cut.to, from);
          cursor.from = from;
          if (events.length > 0) {
            const last = events.at(-1)!;
            cursor.after = last.position;
            this.note(last.position, last.id);
            yield events;
            if (signal?.aborted) return;
          }
          attempt = 0;
          until = performance.now() + patienceMs;
        }
        return;
      } catch (error) {
        // The position is not one of this log, for example because it is of another one. Read from the start, and find
        // the events after it.
        pace.shrink();
        if (isWithinRecord(error) && cursor.from !== START) cursor.from = START;
        else if (isDefinite(error)) throw error;
        else if (performance.now() > until) throw this.connection.unavailable(error);
        else if (breaksConnection(error)) this.connection.renew(link);
      }
      await this.connection.pause(attempt, signal);
    }
  }

  /** Domain events after the cursor in slices of whole appends, each with the place to continue from. */
  private slices(
    link: Link,
    { after, from }: Cursor,
    pace: Pace,
    signal: AbortSignal | undefined,
  ): AsyncGenerator<{ events: RecordedEvent[]; from: Position }> {
    let events: RecordedEvent[] = [];
    /** How many of the events belong to whole appends, and the last record at which no append was incomplete. */
    let whole = 0;
    let readTo = from;
    let began = performance.now();
    const take = (record: ServerRecord) => {
      const { position } = record;
      if (isDomain(record)) {
        if (position <= after) return undefined;
        const recorded = recordedEvent(record);
        if (events.push(recorded) === 1) began = performance.now();
        if (recorded.metadata.index !== recorded.metadata.size - 1) return undefined;
        whole = events.length;
        readTo = position;
      } else {
        const cut = cutStream(record);
        if (cut !== undefined) this.cut.streams.add(cut);
        if (whole === events.length) readTo = position;
      }
      if (whole < pace.size) return undefined;
      pace.taken(performance.now() - began);
      const slice = { events, from: readTo };
      [events, whole] = [[], 0];
      return slice;
    };
    return readServerStream(link, () => readAll(link, from === START ? 'start' : from), {
      take,
      rest: () => ({ events: events.slice(0, whole), from: readTo }),
      signal,
    });
  }
}

/** The size of the slices of one reader. It shrinks while the server is slow, so that what was read is applied sooner. */
class Pace {
  size: number;
  private readonly most: number;

  constructor(sliceSize = DEFAULT_SLICE) {
    this.size = this.most = Math.max(1, sliceSize);
  }

  taken(ms: number): void {
    if (ms > SLOW_SLICE_MS) this.shrink();
    else this.size = Math.min(this.most, 2 * this.size);
  }

  shrink(): void {
    this.size = Math.max(Math.min(LEAST_SLICE, this.most), Math.floor(this.size / 2));
  }
}

/** The server's answer to a read from the middle of a record. */
function isWithinRecord(error: unknown): boolean {
  return error instanceof UnknownError && error.message.includes('ReadAllResult');
}
