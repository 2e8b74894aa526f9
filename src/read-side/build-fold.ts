import { crc32 } from 'node:zlib';
import type { DomainEvent } from '../../projections/events.js';
import type { Projection, Rows } from '../../projections/projection.js';
import type { Json } from '../kernel/json.js';
import { IS_MEMORY_SHORT } from '../kernel/memory.js';
import { EncodedRows, type VisitRow } from '../stores/ports/encoded-rows.js';
import type { RowKey, RowSink } from '../stores/ports/read-models.js';

/**
 * The folds of a build: the log from its start, divided into partitions by `Projection.share`. Each partition is
 * folded in memory, without the rows of the others, and each row is written once.
 *
 * What has no share is folded while the log is divided. Its events that changed rows are part of every partition, since
 * the rows of a share depend on them.
 */

/** More rows than these are kept as JSON: as objects they would take several times the memory. */
const MAX_OBJECTS = IS_MEMORY_SHORT ? 20_000 : 200_000;

class Packed {
  constructor(readonly text: string) {}
}

function unpacked(value: unknown): unknown {
  return value instanceof Packed ? JSON.parse(value.text) : value;
}

/** The rows of a fold from the start of the log. Rows that later events may change are kept until `finish`. */
export class FreshRows implements Rows {
  /** By view and key. */
  private readonly single = new Map<string, Map<string, unknown>>();
  /** By view, key and sort. */
  private readonly ranges = new Map<string, Map<string, Map<string, unknown>>>();
  private objects = 0;

  constructor(private readonly sink: RowSink) {}

  /** Called before each change. */
  protected note(_row: RowKey): void {}

  /** Whether the rows of a view are given to the sink. */
  protected isWritten(_view: string): boolean {
    return true;
  }

  get<T>({ view, key, sort }: RowKey): T | undefined {
    const rows = sort === undefined ? this.single.get(view) : this.ranges.get(view)?.get(key);
    const value = rows?.get(sort ?? key);
    if (!(value instanceof Packed)) return value as T | undefined;
    const object = JSON.parse(value.text) as T;
    rows!.set(sort ?? key, object);
    this.objects++;
    return object;
  }

  find<T>(row: RowKey): T | undefined {
    return this.get(row);
  }

  put(row: RowKey, value: unknown): void {
    this.note(row);
    const { view, key, sort } = row;
    const rows = sort === undefined ? memberOf(this.single, view) : memberOf(memberOf(this.ranges, view), key);
    const before = rows.size;
    rows.set(sort ?? key, value);
    this.objects += rows.size - before;
  }

  insert(row: RowKey, value: unknown): void {
    this.note(row);
    if (this.isWritten(row.view)) this.sink.put(row, value);
  }

  delete(row: RowKey): void {
    this.note(row);
    const { view, key, sort } = row;
    if (sort === undefined) this.single.get(view)?.delete(key);
    else this.ranges.get(view)?.get(key)?.delete(sort);
  }

  /** To be called between events. Other work can run after some rows. */
  *saveMemory(): Generator<void> {
    if (this.objects <= MAX_OBJECTS) return;
    this.objects = 0;
    let visited = 0;
    const groups = [...this.ranges.values()].flatMap((ranges) => [...ranges.values()]);
    for (const rows of [...this.single.values(), ...groups]) {
      for (const [name, value] of rows) {
        if (!(value instanceof Packed)) rows.set(name, new Packed(JSON.stringify(value as Json)));
        if (++visited % KEPT_BETWEEN === 0) yield;
      }
    }
  }

  /** Writes the rows that were kept. Other work can run after some of them. */
  *finish(): Generator<void> {
    let written = 0;
    for (const row of this.all()) {
      this.sink.put(row, row.value);
      if (++written % KEPT_BETWEEN === 0) yield;
    }
    this.single.clear();
    this.ranges.clear();
  }

  private *all(): Generator<RowKey & { value: unknown }> {
    for (const [view, rows] of this.single) {
      if (this.isWritten(view)) for (const [key, value] of rows) yield { view, key, value: unpacked(value) };
    }
    for (const [view, ranges] of this.ranges) {
      if (!this.isWritten(view)) continue;
      for (const [key, rows] of ranges) {
        for (const [sort, value] of rows) yield { view, key, sort, value: unpacked(value) };
      }
    }
  }
}

/** Finds the partition of a share. The last one is kept, since most projections name the same share of an event. */
function partitionsOf(count: number): (share: string) => number {
  let [last, part] = ['', 0];
  return (share) => {
    if (share !== last) [last, part] = [share, crc32(share) % count];
    return part;
  };
}

function memberOf<V>(maps: Map<string, Map<string, V>>, name: string): Map<string, V> {
  let member = maps.get(name);
  if (!member) maps.set(name, (member = new Map()));
  return member;
}

/** Divides the log into partitions, and folds what has no share. */
export class Divider extends FreshRows {
  private readonly partitionOf: (share: string) => number;
  private changes = 0;

  /** @param sink gets the rows without a share */
  constructor(
    private readonly projections: readonly Projection[],
    partitions: number,
    sink: RowSink,
  ) {
    super(sink);
    this.partitionOf = partitionsOf(partitions);
  }

  /**
   * Takes the next event.
   * @returns the partitions that it belongs to, and whether it changed rows without a share. All partitions may depend
   * on such an event, and a Divider that gets only these is in the same state.
   */
  take(event: DomainEvent): { parts: readonly number[]; isShared: boolean } {
    const parts: number[] = [];
    let isShared = false;
    for (const projection of this.projections) {
      const share = projection.share?.(event);
      if (share !== undefined) {
        const part = this.partitionOf(share);
        if (!parts.includes(part)) parts.push(part);
        continue;
      }
      const before = this.changes;
      projection.apply(event, this);
      if (this.changes > before && !projection.isApart) isShared = true;
    }
    return { parts, isShared };
  }

  protected override note(): void {
    this.changes++;
  }
}

/** The fold of one partition. Events must arrive in the order of the log. */
export class PartitionFold extends FreshRows {
  private readonly projections: readonly Projection[];
  private readonly partitionOf: (share: string) => number;
  /** Views of rows that events without a share have written. Such rows are written by the Divider. */
  private readonly sharedViews = new Set<string>();
  private isShared = false;

  constructor(
    projections: readonly Projection[],
    private readonly part: number,
    partitions: number,
    sink: RowSink,
  ) {
    super(sink);
    this.projections = projections.filter(({ share }) => share);
    this.partitionOf = partitionsOf(partitions);
  }

  protected override isWritten(view: string): boolean {
    return !this.sharedViews.has(view);
  }

  /** An event of this partition. */
  apply(event: DomainEvent): void {
    for (const projection of this.projections) {
      const share = projection.share!(event);
      if (share !== undefined && this.partitionOf(share) === this.part) projection.apply(event, this);
    }
  }

  /** An event that all partitions depend on. */
  applyShared(event: DomainEvent): void {
    this.isShared = true;
    for (const projection of this.projections) {
      if (projection.share!(event) === undefined) projection.apply(event, this);
    }
    this.isShared = false;
  }

  protected override note({ view }: RowKey): void {
    if (this.isShared) this.sharedViews.add(view);
  }
}

/** Encoded rows that can be read in the order of their addresses. Each row is put once. */
export class SortedRows implements RowSink {
  private rows = new EncodedRows();
  /** By view and key: the place of the row that was put last. */
  private readonly views = new Map<string, Map<string, number>>();
  /** For each row: the place of the row of the same key that was put next; for the last, that of the first. */
  private next: number[] = [];

  get size(): number {
    return this.rows.size;
  }

  get bytes(): number {
    return this.rows.bytes;
  }

  put(row: RowKey, value: unknown): void {
    const place = this.rows.size;
    this.rows.put(row, value);
    const keys = memberOf(this.views, row.view);
    const last = keys.get(row.key);
    keys.set(row.key, place);
    this.next.push(last === undefined ? place : this.next[last]!);
    if (last !== undefined) this.next[last] = place;
  }

  /** Calls `visit` for each row, as `PlacedRows.forEach` does. Other work can run after some rows. */
  *inOrder(visit: VisitRow): Generator<void> {
    let visited = 0;
    for (const view of yield* byBytes([...this.views.keys()])) {
      const keys = this.views.get(view)!;
      for (const key of yield* byBytes([...keys.keys()])) {
        for (const place of yield* this.placesUpTo(keys.get(key)!)) {
          this.rows.visit(place, visit);
          if (++visited % ROWS_BETWEEN === 0) yield;
        }
      }
    }
  }

  clear(): void {
    this.rows = new EncodedRows();
    this.next = [];
    this.views.clear();
  }

  /** The places of the rows of a key, in the order of their addresses. @param last the place of the row that was put last */
  private *placesUpTo(last: number): Generator<void, number[]> {
    const { rows, next } = this;
    const places = [next[last]!];
    let isSorted = true;
    for (let place = places[0]!; place !== last;) {
      const before = place;
      place = next[place]!;
      isSorted &&= rows.isBefore(before, place);
      if (places.push(place) % ROWS_BETWEEN === 0) yield;
    }
    return isSorted ? places : yield* inParts(places, (a, b) => rows.isBefore(a, b));
  }
}

/** Rows between which other work cannot run: as many take less than a millisecond. */
const ROWS_BETWEEN = 256;
/** The same for rows that are encoded meanwhile. */
const KEPT_BETWEEN = 16;
/** Items that are sorted at once. */
const SORTED_AT_ONCE = 1_000;

/** Without surrogates, the order of UTF-16 code units is that of the bytes of UTF-8. */
function isPlain(text: string): boolean {
  return !/[\ud800-\udfff]/.test(text);
}

/** The texts in the order of the bytes of their UTF-8. */
function byBytes(texts: string[]): Generator<void, string[]> {
  const isBefore = texts.every(isPlain)
    ? (a: string, b: string) => a < b
    : (a: string, b: string) => Buffer.compare(Buffer.from(a), Buffer.from(b)) < 0;
  return inParts(texts, isBefore);
}

/** Sorts different items in parts, which are then merged. Other work can run in between. */
function* inParts<T>(items: T[], isBefore: (a: T, b: T) => boolean): Generator<void, T[]> {
  let parts: T[][] = [];
  for (let from = 0; from < items.length; from += SORTED_AT_ONCE) {
    const part = items.slice(from, from + SORTED_AT_ONCE);
    parts.push(part.sort((a, b) => (isBefore(a, b) ? -1 : 1)));
    yield;
  }
  while (parts.length > 1) {
    const merged: T[][] = [];
    for (let n = 0; n < parts.length; n += 2) merged.push(yield* merge(parts[n]!, parts[n + 1] ?? [], isBefore));
    parts = merged;
  }
  return parts[0] ?? [];
}

function* merge<T>(left: readonly T[], right: readonly T[], isBefore: (a: T, b: T) => boolean): Generator<void, T[]> {
  const merged: T[] = [];
  for (let l = 0, r = 0; l < left.length || r < right.length;) {
    const isRight = l === left.length || (r < right.length && isBefore(right[r]!, left[l]!));
    merged.push(isRight ? right[r++]! : left[l++]!);
    if (merged.length % SORTED_AT_ONCE === 0) yield;
  }
  return merged;
}
