/** Values in PostgreSQL's binary format, which takes rows as they are encoded already. */

const FIRST_BYTES = 1_024;
const TEXT = 25;
/** Dimensions, whether there are nulls, type, length, first index. */
const ARRAY_HEADER = 20;

/** Bytes that are written one after the other. */
class Bytes {
  private bytes = Buffer.allocUnsafe(FIRST_BYTES);
  used = 0;

  int16(value: number): void {
    this.withRoomFor(2);
    this.used = this.bytes.writeInt16BE(value, this.used);
  }

  int32(value: number): void {
    this.withRoomFor(4);
    this.used = this.bytes.writeInt32BE(value, this.used);
  }

  copy(chunk: Buffer, start: number, end: number): void {
    this.withRoomFor(end - start);
    chunk.copy(this.bytes, this.used, start, end);
    this.used += end - start;
  }

  /**
   * Writes bytes after their length.
   * @param mark a byte before the others
   */
  field(chunk: Buffer, start: number, end: number, mark?: number): void {
    this.int32(end - start + (mark === undefined ? 0 : 1));
    if (mark !== undefined) {
      this.withRoomFor(1);
      this.bytes[this.used++] = mark;
    }
    this.copy(chunk, start, end);
  }

  setInt32(value: number, at: number): void {
    this.bytes.writeInt32BE(value, at);
  }

  take(): Buffer {
    return this.bytes.subarray(0, this.used);
  }

  private withRoomFor(more: number): void {
    if (this.used + more <= this.bytes.length) return;
    const larger = Buffer.allocUnsafe(2 * (this.used + more));
    this.bytes.copy(larger, 0, 0, this.used);
    this.bytes = larger;
  }
}

/** A value of the type `text[]`. */
export class TextArray {
  private readonly bytes = new Bytes();
  private length = 0;

  constructor() {
    this.bytes.used = ARRAY_HEADER;
  }

  /** See `Bytes.field`. */
  add(chunk: Buffer, start: number, end: number, mark?: number): void {
    this.length++;
    this.bytes.field(chunk, start, end, mark);
  }

  take(): Buffer {
    const header = [this.length === 0 ? 0 : 1, 0, TEXT, this.length, 1];
    header.forEach((value, n) => this.bytes.setInt32(value, 4 * n));
    const all = this.bytes.take();
    // An array without elements has no dimension.
    return this.length === 0 ? all.subarray(0, 12) : all;
  }
}

/** What COPY reads in binary format. */
export class CopyData {
  private readonly bytes = new Bytes();

  constructor() {
    const header = Buffer.from('PGCOPY\n\xff\r\n\0', 'latin1');
    this.bytes.copy(header, 0, header.length);
    this.bytes.int32(0);
    this.bytes.int32(0);
  }

  /** Begins a row of so many columns. */
  row(columns: number): void {
    this.bytes.int16(columns);
  }

  integer(value: number): void {
    this.bytes.int32(4);
    this.bytes.int32(value);
  }

  /** See `Bytes.field`. */
  text(chunk: Buffer, start: number, end: number, mark?: number): void {
    this.bytes.field(chunk, start, end, mark);
  }

  take(): Buffer {
    this.bytes.int16(-1);
    return this.bytes.take();
  }
}
