import { TextBuffers } from '../../kernel/text-buffers.js';
import type { RowKey, RowSink } from './read-models.js';
import { rowAddress, rowContent } from './row-key.js';

/**
 * Rows to be written to a store, each as the bytes of its address and its content. They are encoded as they arrive, so
 * that a batch keeps no references to their values.
 */
export class EncodedRows implements RowSink {
  /** Free bytes after each content, for what a store adds to it. */
  static readonly ROOM = 4;

  readonly #chunks = new TextBuffers();
  /**
   * For each row: its chunk, and the offsets of the start of the address, the start of the content and the end of the
   * content.
   */
  readonly #places: number[] = [];

  static of(rows: Iterable<{ row: RowKey; value: unknown }>): EncodedRows {
    const encoded = new EncodedRows();
    for (const { row, value } of rows) encoded.put(row, value);
    return encoded;
  }

  get size(): number {
    return this.#places.length / 4;
  }

  /** @throws TypeError, RangeError for an invalid row, of which nothing is kept */
  put(row: RowKey, value: unknown): void {
    const address = rowAddress(row);
    const content = rowContent(value);
    this.#chunks.withRoomFor(address.length + content.length + EncodedRows.ROOM);
    const start = this.#chunks.used;
    const middle = this.#chunks.write(address);
    const end = this.#chunks.write(content);
    this.#chunks.used += EncodedRows.ROOM;
    this.#places.push(this.#chunks.current, start, middle, end);
  }

  /**
   * The rows in the order in which they were put: the address is chunk[start, middle), the content chunk[middle, end),
   * followed by ROOM free bytes.
   */
  forEach(visit: (chunk: Buffer, start: number, middle: number, end: number) => void): void {
    const places = this.#places;
    for (let i = 0; i < places.length; i += 4) {
      visit(this.#chunks.at(places[i]!), places[i + 1]!, places[i + 2]!, places[i + 3]!);
    }
  }
}
