import { TextBuffers } from '../../kernel/text-buffers.js';
import type { RowKey, RowSink } from './read-models.js';
import { rowAddress, rowContent } from './row-key.js';

/** See `EncodedRows.forEach`. */
export type VisitRow = (chunk: Buffer, start: number, middle: number, end: number) => void;

/**
 * Rows to be written to a store, each as the bytes of its address and its content. They are encoded as they arrive, so
 * that a batch keeps no references to their values.
 */
export class EncodedRows implements RowSink {
  /** Free bytes after each content, for what a store adds to it. */
  static readonly ROOM = 4;

  private readonly chunks = new TextBuffers();
  /**
   * For each row: its chunk, and the offsets of the start of the address, the start of the content and the end of the
   * content.
   */
  private readonly places: number[] = [];
  private byteCount = 0;

  static of(rows: Iterable<{ row: RowKey; value: unknown }>): EncodedRows {
    const encoded = new EncodedRows();
    for (const { row, value } of rows) encoded.put(row, value);
    return encoded;
  }

  get size(): number {
    return this.places.length / 4;
  }

  /** The bytes of all addresses and contents. */
  get bytes(): number {
    return this.byteCount;
  }

  /** @throws TypeError, RangeError for an invalid row, of which nothing is kept */
  put(row: RowKey, value: unknown): void {
    const address = rowAddress(row);
    const content = rowContent(value);
    this.chunks.withRoomFor(address.length + content.length + EncodedRows.ROOM);
    const start = this.chunks.used;
    const middle = this.chunks.write(address);
    const end = this.chunks.write(content);
    this.chunks.used += EncodedRows.ROOM;
    this.byteCount += end - start;
    this.places.push(this.chunks.current, start, middle, end);
  }

  /**
   * The rows in the order in which they were put: the address is chunk[start, middle), the content chunk[middle, end),
   * followed by ROOM free bytes.
   */
  forEach(visit: VisitRow): void {
    for (let n = 0; n < this.size; n++) this.visit(n, visit);
  }

  /** The row that was put as the n-th, from 0. */
  visit(n: number, visit: VisitRow): void {
    const places = this.places;
    const i = 4 * n;
    visit(this.chunks.at(places[i]!), places[i + 1]!, places[i + 2]!, places[i + 3]!);
  }

  /** Whether the address of the a-th row is before that of the b-th. */
  isBefore(a: number, b: number): boolean {
    const places = this.places;
    const [i, j] = [4 * a, 4 * b];
    const other = this.chunks.at(places[j]!);
    const chunk = this.chunks.at(places[i]!);
    return chunk.compare(other, places[j + 1]!, places[j + 2]!, places[i + 1]!, places[i + 2]!) < 0;
  }
}

/** Encoded rows that are in buffers of others, which must not change until the rows are written. */
export class PlacedRows {
  private readonly chunks: Buffer[] = [];
  private readonly places: number[] = [];
  private byteCount = 0;

  get size(): number {
    return this.chunks.length;
  }

  /** The bytes of all addresses and contents. */
  get bytes(): number {
    return this.byteCount;
  }

  /** The address is chunk[start, middle), the content chunk[middle, end), followed by `EncodedRows.ROOM` free bytes. */
  add(chunk: Buffer, start: number, middle: number, end: number): void {
    this.chunks.push(chunk);
    this.places.push(start, middle, end);
    this.byteCount += end - start;
  }

  forEach(visit: VisitRow): void {
    const places = this.places;
    this.chunks.forEach((chunk, n) => visit(chunk, places[3 * n]!, places[3 * n + 1]!, places[3 * n + 2]!));
  }
}
