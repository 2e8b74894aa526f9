import { setImmediate } from 'node:timers/promises';
import { crc32 } from 'node:zlib';
import type { LmdbEnvironment } from './environment.js';
import { type IndexCheck, StoreUnavailable } from '../ports/event-store.js';
import { isTooLong } from '../ports/event-encoding.js';
import { headPosition } from './log-reader.js';
import { placeOf } from './stored-event.js';
import { failureOf } from '../../kernel/failures.js';
import type { Position } from '../../kernel/event.js';

/**
 * The positions of the events of a stream: (stream, revision) -> position.
 *
 * Stream names are hashes, so an index entry written with its event would change one random page per event, four times
 * the work of the event itself. Instead, the entries of the newest events are kept in memory (after a crash they are
 * read again from the log) and written in bulk, neighbouring keys together, once there are enough.
 */
export const INDEX_DATABASES = {
  index: { keyEncoding: 'binary', encoding: 'binary' },
  meta: { encoding: 'json' },
} as const;

/**
 * Entries kept in memory before they are written: about 5 MB, and 150 ms to read again at start. The more entries are
 * written together, the more of them share a page.
 */
const BULK = 60_000;
/**
 * The same while a great many events are appended: about 50 MB. A write of fewer entries changes nearly as many pages as
 * there are entries, once the stored index has some millions.
 */
const LARGE_BULK = 400_000;
/** Entries written in one transaction. Appends and other work can run between two. */
const SLICE = 2_000;

/** An entry of the stored index is damaged. Nothing that depends on it can be decided before the index is repaired. */
export class IndexDamaged extends StoreUnavailable {
  constructor(stream: string) {
    super(`the index of streams is damaged at ${stream}, and is being repaired`);
  }
}

export class StreamIndex {
  private newest = new StreamPositions();
  /** Entries being written, which are looked up here meanwhile. */
  private leaving: StreamPositions | undefined;
  /** Every event up to here is indexed: the last position of the log. */
  known: Position;
  private bulkUsers = 0;

  /** @param ordinaryBulk entries kept in memory before they are written */
  constructor(
    private readonly env: LmdbEnvironment,
    private readonly ordinaryBulk = BULK,
  ) {
    this.known = this.readStored();
  }

  /** Keeps more entries in memory, until the function that is returned is called. */
  startBulk(): () => void {
    this.bulkUsers++;
    return () => void this.bulkUsers--;
  }

  /** Indexes events of the log up to its last one, also past positions without an event, since that event is damaged. */
  async catchUpTo(head: Position): Promise<void> {
    while (this.known < head) {
      while (this.env.read(() => this.catchUp())) {
        if (this.due) await this.store();
        else await setImmediate();
      }
      if (this.known < head) this.known++;
    }
  }

  /** Indexes the next slice. @returns whether there may be more */
  private catchUp(): boolean {
    const events = this.env.database<Buffer, number>('events');
    for (let learned = 0; learned < SLICE; learned++) {
      const position = this.known + 1;
      const entry = events.getBinary(position);
      if (entry === undefined) return false;
      const place = placeOf(entry);
      if (place) this.newest.add(place.stream, place.revision, position);
      this.known = position;
    }
    return true;
  }

  /** Adds the next `count` events of the log, which have just been committed. */
  add(committed: StreamPositions, count: number): void {
    this.newest.take(committed);
    this.known += count;
  }

  position(stream: string, revision: number): Position | undefined {
    // There is no such stream, and the library may refuse its key, also on reading.
    if (isTooLong(stream)) return undefined;
    return (
      this.newest.position(stream, revision) ??
      this.leaving?.position(stream, revision) ??
      this.storedPosition(stream, revision)
    );
  }

  /** Revision of the last event, if that is among the newest of the log. */
  lastOfNewest(stream: string): number | undefined {
    return this.newest.last(stream) ?? this.leaving?.last(stream);
  }

  /** Revision of the last event; undefined for a stream that does not exist. @param stream checked by `checkAppend` */
  last(stream: string): number | undefined {
    const newest = this.lastOfNewest(stream);
    if (newest !== undefined) return newest;
    if (this.storedPosition(stream, 0) === undefined) return undefined;
    // Most streams have one event, and a second look-up is cheaper than a cursor.
    if (this.storedPosition(stream, 1) === undefined) return 0;
    const index = this.env.database<Buffer, Buffer>('index');
    const range = { start: indexKey(stream, 0xffff_ffff), end: indexKey(stream, 0), reverse: true, limit: 1 };
    const [key] = index.getKeys(range);
    return key?.readUInt32BE(key.length - 4) ?? 0;
  }

  /** Whether there are enough entries in memory to write, and no write is under way. */
  get due(): boolean {
    const bulk = this.bulkUsers > 0 ? LARGE_BULK : this.ordinaryBulk;
    return this.newest.size >= bulk && !this.leaving;
  }

  /** Whether the next start would have more to read again than an ordinary bulk. */
  get isLarge(): boolean {
    return this.newest.size > BULK;
  }

  /** Writes the entries in memory, while others are added. @throws StoreUnavailable, without losing an entry */
  async store(): Promise<void> {
    const upTo = this.known;
    const entries = this.newest;
    this.leaving = entries;
    this.newest = new StreamPositions();
    try {
      for (const slice of entries.slices(SLICE)) await this.put(slice);
      await this.env.write(() => {
        const meta = this.env.database<number>('meta');
        meta.putSync('indexed', upTo);
        meta.putSync('indexed_crc', crc32(String(upTo)));
      });
    } catch (error) {
      entries.take(this.newest);
      this.newest = entries;
      throw error;
    } finally {
      this.leaving = undefined;
    }
  }

  /**
   * Looks up every event through the stored index, and the event of every entry. Runs in slices, beside appends.
   * @param repair adds missing entries and removes stray ones; makes all of it again if that is not enough
   */
  async check(repair: boolean, onProgress?: (done: number, total: number) => void): Promise<IndexCheck> {
    const upTo = this.env.read(() => this.readStored());
    const found: IndexCheck = { events: 0, entries: 0, newest: this.known - upTo, missing: 0, stray: 0 };
    for (let from = 1; from <= upTo; from += SLICE) {
      const to = Math.min(from + SLICE - 1, upTo);
      const entries = this.env.read(() => [...this.entriesFor(from, to)]);
      const missing = this.env.read(() => entries.filter((entry) => !this.isStored(entry)));
      found.events += entries.length;
      found.missing += missing.length;
      if (repair && missing.length > 0) await this.put(missing);
      onProgress?.(to, upTo);
      await setImmediate();
    }
    for await (const entries of this.env.pages<Buffer, Buffer>('index', SLICE)) {
      const stray = this.env.read(() => this.strayKeys(entries));
      found.entries += entries.length;
      found.stray += stray.length;
      if (repair && stray.length > 0) {
        await this.env.batch(() => {
          for (const key of stray) void this.env.database<Buffer, Buffer>('index').remove(key);
        });
      }
    }
    // A damaged key that is out of order cannot be removed, and leads look-ups of others astray.
    if (repair && found.stray > 0 && !(await this.isSound())) await this.env.write(() => this.makeAgain());
    return found;
  }

  /** In one transaction, since an append would take what is missing meanwhile for a stream that does not exist. */
  private makeAgain(): void {
    const index = this.env.database<Buffer, Buffer>('index');
    index.clearSync();
    // Up to the last event, also what is not stored yet: it may be being written.
    for (const { stream, revision, position } of this.entriesFor(1, headPosition(this.env))) {
      const key = indexKey(stream, revision);
      index.putSync(key, entryOf(key, position));
    }
  }

  /** The entries that the index should have for these events, without those that are damaged themselves. */
  private *entriesFor(from: Position, to: Position): Generator<Entry> {
    const events = this.env.database<Buffer, number>('events');
    for (let position = from; position <= to; position++) {
      const event = events.getBinary(position);
      const place = event && placeOf(event);
      if (place) yield { ...place, position };
    }
  }

  /**
   * Whether the stored index has an entry for each event that it should contain, each with the right checksum. Does not
   * read the events. Runs in slices, beside appends.
   */
  async isSound(signal?: AbortSignal): Promise<boolean> {
    const upTo = this.readStored();
    let count = 0;
    for await (const entries of this.env.pages<Buffer, Buffer>('index', SLICE)) {
      if (!entries.every(({ key, value }) => isEntryOf(key, value))) return false;
      count += entries.length;
      if (signal?.aborted) return true;
    }
    return count >= upTo;
  }

  private isStored({ stream, revision, position }: Entry): boolean {
    const key = indexKey(stream, revision);
    return this.env.database<Buffer, Buffer>('index').getBinary(key)?.equals(entryOf(key, position)) ?? false;
  }

  /** The keys of those entries that do not lead to their event. */
  private strayKeys(entries: readonly { key: Buffer; value: Buffer }[]): Buffer[] {
    const events = this.env.database<Buffer, number>('events');
    const stray = entries.filter(({ key, value }) => {
      const event = value.length >= 4 ? events.getBinary(value.readUInt32LE()) : undefined;
      const place = event && placeOf(event);
      return !place || !indexKey(place.stream, place.revision).equals(key);
    });
    return stray.map(({ key }) => key);
  }

  private async put(entries: readonly Entry[]): Promise<void> {
    await this.env.batch(() => {
      const index = this.env.database<Buffer, Buffer>('index');
      for (const { stream, revision, position } of entries) {
        const key = indexKey(stream, revision);
        void index.put(key, entryOf(key, position));
      }
    });
  }

  /** The position up to which the stored index is complete; 0 if unknown, and then all of it is written again. */
  private readStored(): Position {
    const meta = this.env.database<unknown>('meta');
    const indexed = numberIn(meta, 'indexed');
    const check = numberIn(meta, 'indexed_crc');
    return indexed !== undefined && check === crc32(String(indexed)) ? indexed : 0;
  }

  /** @throws IndexDamaged */
  private storedPosition(stream: string, revision: number): Position | undefined {
    const key = indexKey(stream, revision);
    const value = this.env.database<Buffer, Buffer>('index').getBinaryFast(key);
    if (value === undefined) return undefined;
    if (!isEntryOf(key, value)) throw new IndexDamaged(stream);
    return value.readUInt32LE(0);
  }
}

/** A position, and the CRC-32 of the key, seeded with the position. */
const ENTRY_BYTES = 8;

function entryOf(key: Buffer, position: Position): Buffer {
  const value = Buffer.allocUnsafe(ENTRY_BYTES);
  value.writeUInt32LE(position);
  value.writeUInt32LE(crc32(key, position), 4);
  return value;
}

function isEntryOf(key: Buffer, value: Buffer): boolean {
  return value.length === ENTRY_BYTES && value.readUInt32LE(4) === crc32(key, value.readUInt32LE(0));
}

/** Undefined if the value is absent or not a number. @throws a failure to read it */
function numberIn(database: { get(key: string): unknown }, key: string): number | undefined {
  try {
    const value = database.get(key);
    return Number.isSafeInteger(value) ? (value as number) : undefined;
  } catch (error) {
    if (failureOf(error) !== undefined) throw error;
    return undefined;
  }
}

interface Entry {
  stream: string;
  revision: number;
  position: Position;
}

/** Events of one stream, by their revisions from `first` on. Absent: damaged ones, which no longer name their stream. */
interface Run {
  first: number;
  positions: Position[];
}

/**
 * The whole of a stream whose events follow each other in the log, as nearly all streams do: the position of the first,
 * and the number of further ones times NEXT. Millions of objects would take more memory, and the time of the garbage
 * collector.
 */
type Neighbours = number;
const NEXT = 2 ** 32;

/** (stream, revision) -> position of some events, the revisions of each stream without a gap but for damaged events. */
export class StreamPositions {
  private readonly streams = new Map<string, Neighbours | Run>();
  size = 0;

  /** Adds an entry. Adding it again changes nothing. */
  add(stream: string, revision: number, position: Position): void {
    const entry = this.streams.get(stream);
    if (entry === undefined) {
      this.streams.set(stream, revision === 0 ? position : { first: revision, positions: [position] });
      this.size++;
    } else if (revision > lastOf(entry)) {
      if (typeof entry === 'number' && revision === lastOf(entry) + 1 && position === (entry % NEXT) + revision) {
        this.streams.set(stream, entry + NEXT);
      } else {
        const run = runOf(entry);
        run.positions[revision - run.first] = position;
        this.streams.set(stream, run);
      }
      this.size++;
    }
  }

  position(stream: string, revision: number): Position | undefined {
    const entry = this.streams.get(stream);
    if (typeof entry === 'object') return entry.positions[revision - entry.first];
    return entry !== undefined && revision >= 0 && revision <= lastOf(entry) ? (entry % NEXT) + revision : undefined;
  }

  last(stream: string): number | undefined {
    const entry = this.streams.get(stream);
    return entry === undefined ? undefined : lastOf(entry);
  }

  /**
   * The entries, `size` at a time, grouped so that neighbours in the stored index are together: by category and first
   * character of the id, sorted within a group. Sorting all entries at once would take too long.
   */
  *slices(size: number): Generator<Entry[]> {
    const groups = new Map<string, string[]>();
    for (const stream of this.streams.keys()) {
      const start = stream.slice(0, stream.indexOf('-') + 2);
      const group = groups.get(start);
      if (group) group.push(stream);
      else groups.set(start, [stream]);
    }
    let slice: Entry[] = [];
    for (const group of groups.values()) {
      for (const stream of group.sort()) {
        const { first, positions } = runOf(this.streams.get(stream)!);
        for (let offset = 0; offset < positions.length; offset++) {
          const position = positions[offset];
          if (position === undefined) continue;
          slice.push({ stream, revision: first + offset, position });
          if (slice.length < size) continue;
          yield slice;
          slice = [];
        }
      }
    }
    yield slice;
  }

  /** Adds all of `others`, which must not be used afterwards. */
  take(others: StreamPositions): void {
    for (const [stream, entry] of others.streams) {
      if (this.streams.has(stream)) {
        const { first, positions } = runOf(entry);
        positions.forEach((position, offset) => this.add(stream, first + offset, position));
      } else {
        this.streams.set(stream, entry);
        this.size += typeof entry === 'number' ? lastOf(entry) + 1 : entry.positions.length;
      }
    }
  }
}

function runOf(entry: Neighbours | Run): Run {
  if (typeof entry === 'object') return entry;
  return { first: 0, positions: Array.from({ length: lastOf(entry) + 1 }, (_, revision) => (entry % NEXT) + revision) };
}

/** The last revision. */
function lastOf(entry: Neighbours | Run): number {
  return typeof entry === 'number' ? Math.floor(entry / NEXT) : entry.first + entry.positions.length - 1;
}

/** Stream, NUL, revision (32 bit, big-endian): the revisions of one stream follow each other. */
function indexKey(stream: string, revision: number): Buffer {
  const key = Buffer.from(`${stream}\0____`);
  key.writeUInt32BE(revision, key.length - 4);
  return key;
}
