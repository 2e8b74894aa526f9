import { randomUUID } from 'node:crypto';
import { setImmediate } from 'node:timers/promises';
import { TextBuffers } from '../../kernel/text-buffers.js';
import { bytesAsValue, isDamage, LmdbEnvironment } from './environment.js';
import { endOfTurn } from '../../kernel/turn.js';
import { checkAppend } from '../ports/event-encoding.js';
import type { NewEvent, Position, RecordedEvent } from '../../kernel/event.js';
import {
  StoreUnavailable,
  WrongExpectedRevision,
  type Appended,
  type EventStore,
  type ExpectedRevision,
  type IndexCheck,
  type SliceOptions,
} from '../ports/event-store.js';
import { checkMarker, type LogExtent, LogMarker, markerPath } from '../ports/log-marker.js';
import { headPosition, LogReader, MAX_POSITION, MAX_SLICE } from './log-reader.js';
import { INDEX_DATABASES, IndexDamaged, StreamIndex, StreamPositions } from './stream-index.js';
import { Problem } from '../../kernel/problems.js';
import { StartError } from '../../kernel/start-error.js';
import { mostBytes, writeEntry } from './stored-event.js';

/** How often to check that the log is still in its folder, besides each commit. */
const PLACE_CHECK_MS = 1_000;
/** The index of a log of at most this many events is checked before the log is used, which takes half a second. */
const INDEX_CHECKED_FIRST = 500_000;
/** A larger queue is committed in several steps. */
const MAX_BATCH_APPENDS = 4_096;
/** The key of the id of the log. */
const LOG_ID = 'log';
const DATABASES = { events: { keyEncoding: 'uint32', encoding: 'binary' }, ...INDEX_DATABASES } as const;

export interface LmdbEventStoreOptions {
  /** Told when the folder of the log was removed or replaced, and when it is back. */
  onWarning?: (message: string) => void;
  /** Called for each commit with the number of events made durable and the time it took, in milliseconds. */
  onCommit?: (commit: { events: number; milliseconds: number }) => void;
  /** Whether to check the stored index of streams at the start, and repair it. */
  checksIndex?: boolean | undefined;
  /** Entries of the stream index held in memory before they are written; default 60,000. */
  indexBulk?: number;
}

/** A batch of appends as it is to be written. */
interface Staged {
  /** The position before its first event. */
  base: Position;
  positions: StreamPositions;
  events: readonly RecordedEvent[];
  /** For each event: the bytes that it takes at most. */
  bytes: number[];
}

interface PendingAppend {
  stream: string;
  expected: ExpectedRevision;
  events: readonly NewEvent[];
  /** What `checkAppend` returned. */
  units: number[];
  outcome: Appended | Error | undefined;
  resolve: (appended: Appended) => void;
  reject: (error: Error) => void;
}

/**
 * The log in an LMDB environment: position -> entry of the event (stored-event.ts), positions dense from 1. A
 * damaged event is returned with a mark, and does not stop readers. Appends that arrive together share one commit. The
 * log of a folder may be open once: its appends are numbered here.
 */
export class LmdbEventStore implements EventStore {
  private static readonly opened = new Set<string>();

  private readonly reader: LogReader;
  private readonly index: StreamIndex;
  private readonly marker: LogMarker;
  private readonly placeCheck: NodeJS.Timeout;
  /** Why nothing is read or appended: the folder of the log, or a file in it, was removed or replaced while it was open. */
  refusal: StoreUnavailable | undefined;
  /** The entries of the batch being written. */
  private readonly buffers = new TextBuffers();
  private queue: PendingAppend[] = [];
  private draining: Promise<void> | undefined;
  /** Whether a commit has failed: the log may have its events all the same. */
  private isUncertain = false;
  private catchingUp: Promise<void> | undefined;
  private storing: Promise<void> | undefined;
  private repairing: Promise<unknown> | undefined;
  private readonly closing = new AbortController();

  /**
   * @throws StartError if the folder contains a different or shorter log than before (see LogMarker), or one of an earlier form
   */
  static async open(folder: string, options: LmdbEventStoreOptions = {}): Promise<LmdbEventStore> {
    const env = await LmdbEnvironment.open(folder, { databases: DATABASES });
    if (LmdbEventStore.opened.has(env.folder)) {
      await env.close();
      throw new Error(`the log in ${folder} is open already`);
    }
    LmdbEventStore.opened.add(env.folder);
    try {
      const [head, known] = readAtStart(folder, () => [headPosition(env), logIdIn(env)] as const);
      refuseText(folder, env);
      await checkMarker(markerPath(folder), folder, known, head);
      const logId = await env.write(() => {
        if (known !== undefined) return known;
        const created = randomUUID();
        env.database<string>('meta').putSync(LOG_ID, created);
        return created;
      });
      const store = new LmdbEventStore(folder, env, logId, options);
      await store.index.catchUpTo(head);
      if (options.checksIndex) {
        store.repairing = store.checkStoredIndex().finally(() => (store.repairing = undefined));
        if (head <= INDEX_CHECKED_FIRST) await store.repairing;
      }
      return store;
    } catch (error) {
      LmdbEventStore.opened.delete(env.folder);
      await env.close();
      throw error;
    }
  }

  private constructor(
    folder: string,
    private readonly env: LmdbEnvironment,
    readonly logId: string,
    private readonly options: LmdbEventStoreOptions,
  ) {
    this.index = new StreamIndex(env, options.indexBulk);
    this.reader = new LogReader(
      env,
      () => this.index.known,
      () => this.refuseIfClosed(),
    );
    this.marker = new LogMarker(markerPath(folder), () => {
      // It is that of whatever has taken the place of this log.
      if (!env.isInPlace) throw new StoreUnavailable('the log is not in its place');
      return { log_id: logId, position: this.index.known };
    });
    this.placeCheck = setInterval(() => this.checkPlace(), PLACE_CHECK_MS).unref();
  }

  private checkPlace(): void {
    const { folder, isInPlace } = this.env;
    if (isInPlace === (this.refusal === undefined)) return;
    if (isInPlace) {
      this.refusal = undefined;
      this.options.onWarning?.(`the log is back in ${folder}`);
      return;
    }
    const what = `the folder of the log, ${folder}, or a file in it, was removed or replaced while it was open, or may not be looked at any more`;
    this.refusal = new StoreUnavailable(what, { code: 'log_replaced' });
    this.options.onWarning?.(
      `log_replaced: ${what}. Nothing is read or recorded. Put it back, or restart every process to use what is there now.`,
    );
  }

  startBulk(): () => void {
    return this.index.startBulk();
  }

  append(stream: string, expected: ExpectedRevision, events: readonly NewEvent[]): Promise<Appended> {
    // An error thrown here rejects the promise.
    return new Promise((resolve, reject) => {
      const units = checkAppend(stream, events);
      this.refuseIfClosed();
      this.queue.push({ stream, expected, events, units, outcome: undefined, resolve, reject });
      this.draining ??= this.drain();
    });
  }

  async readStream(
    stream: string,
    { from = 0, limit = Infinity }: { from?: number; limit?: number } = {},
  ): Promise<RecordedEvent[]> {
    this.refuseIfClosed();
    await this.catchUp();
    const events: RecordedEvent[] = [];
    for (let revision = from; events.length < limit; revision++) {
      const position = this.lookUp(() => this.index.position(stream, revision));
      if (position === undefined) {
        this.refuseGap(stream, revision);
        break;
      }
      events.push(this.readable(stream, revision, position));
      if (events.length % MAX_SLICE === 0) await setImmediate();
    }
    return events;
  }

  readAll(after: Position, options?: SliceOptions): AsyncGenerator<RecordedEvent[]> {
    return this.reader.readAll(after, options);
  }

  subscribe(after: Position, options: SliceOptions & { signal: AbortSignal }): AsyncGenerator<RecordedEvent[]> {
    return this.reader.subscribe(after, options);
  }

  async head(): Promise<Position> {
    this.refuseIfClosed();
    return this.index.known;
  }

  async readAt(position: Position): Promise<RecordedEvent | undefined> {
    this.refuseIfClosed();
    return this.reader.at(position);
  }

  async countAfter(position: Position): Promise<number> {
    return Math.max(0, (await this.head()) - position);
  }

  /** Compares the index of streams with the log, entry by entry, beside appends. */
  async checkIndex(repair: boolean, onProgress?: (done: number, total: number) => void): Promise<IndexCheck> {
    this.refuseIfClosed();
    return this.index.check(repair, onProgress);
  }

  /** Waits for the appends in flight. */
  async close(): Promise<void> {
    if (this.closing.signal.aborted) return;
    this.closing.abort();
    clearInterval(this.placeCheck);
    await this.draining;
    await this.storing;
    if (this.index.isLarge) await this.index.store().catch(() => undefined);
    await this.repairing;
    this.reader.wakeSubscribers();
    await this.marker.close();
    LmdbEventStore.opened.delete(this.env.folder);
    await this.env.close();
  }

  /**
   * Commits the queue, batch after batch. The next batch starts before the callers of the last one are notified, so
   * that the library's thread writes while they continue.
   */
  private async drain(): Promise<void> {
    // Appends of the same turn are committed together.
    await endOfTurn();
    let commit: Promise<() => void> | undefined = this.commitNext();
    while (commit) {
      const answer = await commit;
      commit = this.queue.length > 0 ? this.commitNext() : undefined;
      // In the same turn as the check of the queue, so that the next append starts the loop again.
      if (!commit) this.draining = undefined;
      answer();
    }
  }

  /** Resolves with a function that settles the callers. */
  private async commitNext(): Promise<() => void> {
    const started = performance.now();
    const batch = this.queue.splice(0, MAX_BATCH_APPENDS);
    let stored: readonly RecordedEvent[] = [];
    try {
      stored = await this.commit(batch);
    } catch (error) {
      const code = error instanceof StoreUnavailable ? error.code : undefined;
      const refusal = this.refusal ?? new StoreUnavailable('the append was not stored', { code, cause: error });
      for (const append of batch) append.outcome = refusal;
    }
    const milliseconds = performance.now() - started;
    return () => {
      for (const { outcome, resolve, reject } of batch) {
        if (outcome instanceof Error) reject(outcome);
        else resolve(outcome!);
      }
      if (stored.length === 0) return;
      if (this.reader.subscribers > 0) this.reader.announce(stored);
      // Separate, so that an observer that throws cannot stop the appends.
      queueMicrotask(() => this.options.onCommit?.({ events: stored.length, milliseconds }));
      // Beside appends. A failure is harmless: the entries are read again from the log, and the next append reports it.
      if (this.index.due) this.storing = this.index.store().catch(() => undefined);
    };
  }

  /** Decides the appends on the present log, and stores them. */
  private async commit(batch: PendingAppend[]): Promise<readonly RecordedEvent[]> {
    // What is written to a file that was removed is lost.
    this.checkPlace();
    if (this.refusal) throw this.refusal;
    await this.env.ready();
    await this.catchUp();
    const staged = this.stage(batch);
    if (staged.events.length === 0) return [];
    const events = this.env.database<never, number>('events');
    try {
      await this.env.batch(() => {
        this.buffers.reset();
        staged.events.forEach((event, i) => {
          const chunk = this.buffers.withRoomForBytes(staged.bytes[i]!);
          const start = this.buffers.used;
          const end = writeEntry(chunk, start, event);
          this.buffers.used = end;
          void events.put(event.position, bytesAsValue(chunk, start, end));
        });
      });
    } catch (error) {
      this.isUncertain = true;
      throw error;
    }
    this.index.add(staged.positions, staged.events.length);
    return staged.events;
  }

  /** After a failed commit: finds out which of its events are in the log. */
  private async catchUp(): Promise<void> {
    if (!this.isUncertain) return;
    this.catchingUp ??= this.lookAgain().finally(() => (this.catchingUp = undefined));
    await this.catchingUp;
  }

  private async lookAgain(): Promise<void> {
    await this.env.ready();
    await this.index.catchUpTo(headPosition(this.env));
    this.isUncertain = false;
    this.reader.wakeSubscribers();
  }

  /** Settles each append's outcome, and gives its events their places. */
  private stage(batch: PendingAppend[]): Staged {
    const base = this.index.known;
    const events: RecordedEvent[] = [];
    const staged: Staged = { base, positions: new StreamPositions(), events, bytes: [] };
    for (const append of batch) {
      const { stream, expected, units } = append;
      let last: number;
      try {
        last = staged.positions.last(stream) ?? this.lookUp(() => this.index.last(stream)) ?? -1;
        const wanted = expected === 'any' ? last : expected === 'no-stream' ? -1 : expected;
        if (wanted !== last) {
          append.outcome =
            this.repeated(append, wanted, staged) ??
            new WrongExpectedRevision(stream, expected, last === -1 ? 'no-stream' : last);
          continue;
        }
      } catch (error) {
        // The other appends of the batch do not need that entry.
        if (!(error instanceof IndexDamaged)) throw error;
        append.outcome = error;
        continue;
      }
      if (base + events.length + units.length > MAX_POSITION) throw new Error('the log is full');
      let revision = last;
      for (let i = 0; i < units.length; i++) {
        revision++;
        const { id, type, data, metadata } = append.events[i]!;
        const position = base + events.length + 1;
        events.push({ stream, revision, id, type, data, metadata, position });
        staged.bytes.push(mostBytes(stream, units[i]!));
        staged.positions.add(stream, revision, position);
      }
      append.outcome = { position: base + events.length, revision };
    }
    return staged;
  }

  /** Returns the first answer again, if exactly these events were appended at the expected revision before. */
  private repeated({ stream, events }: PendingAppend, expected: number, staged: Staged): Appended | undefined {
    let appended: Appended | undefined;
    for (const [index, { id }] of events.entries()) {
      const revision = expected + 1 + index;
      const position =
        staged.positions.position(stream, revision) ?? this.lookUp(() => this.index.position(stream, revision));
      if (position === undefined) return undefined;
      const event = staged.events[position - staged.base - 1] ?? this.reader.get(position);
      if (event?.id !== id || event.metadata.index !== index || event.metadata.size !== events.length) return undefined;
      appended = { position, revision };
    }
    return appended;
  }

  /** The event to which the index leads. @throws Problem history_unreadable; IndexDamaged if it is another stream's */
  private readable(stream: string, revision: number, position: Position): RecordedEvent {
    const event = this.reader.get(position);
    if (!event || event.damage) {
      const reason = event?.damage?.reason ?? 'there is nothing at its place';
      throw unreadable(stream, `at position ${position} is damaged (${reason})`);
    }
    if (event.stream === stream && event.revision === revision) return event;
    this.repair();
    throw new IndexDamaged(stream);
  }

  /**
   * A damaged event may no longer name its stream, which must not seem to end before it.
   * @throws Problem history_unreadable if the stream has events after this revision
   */
  private refuseGap(stream: string, revision: number): void {
    if ((this.index.lastOfNewest(stream) ?? -1) < revision) return;
    throw unreadable(stream, `${revision + 1} is damaged, since the log has later ones`);
  }

  /** Looks up the index. @throws IndexDamaged, and starts a repair, if an entry cannot be right */
  private lookUp<T>(look: () => T): T {
    try {
      return this.env.read(look);
    } catch (error) {
      if (error instanceof IndexDamaged) this.repair();
      throw error;
    }
  }

  private repair(): void {
    this.repairing ??= this.index
      .check(true)
      .catch(() => undefined) // The next look-up that meets it tries again.
      .finally(() => (this.repairing = undefined));
  }

  /** A look-up does not find an entry with a damaged key: its event would count twice if it were sent again. */
  private async checkStoredIndex(): Promise<void> {
    try {
      if (await this.index.isSound(this.closing.signal)) return;
      const { missing, stray } = await this.index.check(true);
      // An event that was damaged before it was indexed has no entry, either.
      if (missing + stray === 0) return;
      this.options.onWarning?.(
        `the index of streams was damaged, and is repaired: ${missing} missing, ${stray} stray entries`,
      );
    } catch (error) {
      this.options.onWarning?.(`the index of streams could not be checked: ${String(error)}`);
    }
  }

  private refuseIfClosed(): void {
    if (this.closing.signal.aborted) throw new StoreUnavailable('the event store is closed');
    if (this.refusal) throw this.refusal;
  }
}

function unreadable(stream: string, which: string): Problem {
  return new Problem('history_unreadable', `${stream} cannot be read: its event ${which}.`);
}

/** Copies a log into an existing folder while it is in use; the only sound way. @returns what the copy contains at least */
export async function copyLog(folder: string, target: string): Promise<LogExtent> {
  const env = await LmdbEnvironment.open(folder, { databases: DATABASES });
  try {
    const extent = { log_id: logIdIn(env) ?? '', position: headPosition(env) };
    await env.backup(target);
    return extent;
  } finally {
    await env.close();
  }
}

function logIdIn(env: LmdbEnvironment): string | undefined {
  return env.database<string | undefined>('meta').get(LOG_ID);
}

/** @throws StartError for a log whose events are JSON text */
function refuseText(folder: string, env: LmdbEnvironment): void {
  let first = '';
  try {
    first = env.read(() => env.database<Buffer, number>('events').getBinary(1))?.toString('latin1') ?? '';
  } catch (error) {
    if (!isDamage(error)) throw error;
  }
  if (!first.startsWith('{') || !first.endsWith('}')) return;
  throw new StartError(
    `The log in ${folder} has events in the form of an earlier build, which this one cannot read: export them with that ` +
      'build, and import the export into an empty folder.',
  );
}

/** Runs a read while a log is opened. @throws StartError if the log is damaged there */
function readAtStart<T>(folder: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    // The id is stored as JSON.
    if (!isDamage(error) && (error as Error).name !== 'SyntaxError') throw error;
    throw new StartError(`The log in ${folder} is damaged (${(error as Error).message}): restore it from a backup.`);
  }
}
