/** Values in PostgreSQL's binary format, which takes rows as they are encoded already. */

const FIRST_BYTES = 1_024;
const TEXT = 25;
/** Dimensions, whether there are nulls, type, length, first index. */
const ARRAY_HEADER = 20;

/** Bytes that are written one after the other. */
abstract class Bytes {
  protected bytes = Buffer.allocUnsafe(FIRST_BYTES);
  protected used = 0;

  int16(value: number): void {
    this.withRoomFor(2);
    this.used = this.bytes.writeInt16BE(value, this.used);
  }

  int32(value: number): void {
    this.withRoomFor(4);
    this.used = this.bytes.writeInt32BE(value, this.used);
  }

  /** Writes bytes after their length. @param mark a byte before the others */
  field(chunk: Buffer, start: number, end: number, mark?: number): void {
    this.int32(end - start + (mark === undefined ? 0 : 1));
    this.withRoomFor(end - start + 1);
    if (mark !== undefined) this.bytes[this.used++] = mark;
    this.used += chunk.copy(this.bytes, this.used, start, end);
  }

  private withRoomFor(more: number): void {
    if (this.used + more <= this.bytes.length) return;
    const larger = Buffer.allocUnsafe(2 * (this.used + more));
    this.bytes.copy(larger, 0, 0, this.used);
    this.bytes = larger;
  }
}

/** A value of the type `text[]`. */
export class TextArray extends Bytes {
  protected override used = ARRAY_HEADER;
  private length = 0;

  /** See `Bytes.field`. */
  add(chunk: Buffer, start: number, end: number, mark?: number): void {
    this.length++;
    this.field(chunk, start, end, mark);
  }

  take(): Buffer {
    const header = [this.length === 0 ? 0 : 1, 0, TEXT, this.length, 1];
    header.forEach((value, n) => this.bytes.writeInt32BE(value, 4 * n));
    // An array without elements has no dimension.
    return this.bytes.subarray(0, this.length === 0 ? 12 : this.used);
  }
}

/** What COPY reads in binary format. Each row begins with the number of its columns, an `int16`. */
export class CopyData extends Bytes {
  constructor() {
    super();
    this.used = this.bytes.write('PGCOPY\n\xff\r\n\0', 'latin1');
    this.int32(0);
    this.int32(0);
  }

  integer(value: number): void {
    this.int32(4);
    this.int32(value);
  }

  take(): Buffer {
    this.int16(-1);
    return this.bytes.subarray(0, this.used);
  }
}
