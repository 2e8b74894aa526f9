import type { EncodedRows } from '../ports/encoded-rows.js';

/**
 * Rows as arguments of scripts. Each list is one MessagePack array of texts, which a script decodes with one call and
 * passes to commands as it is: a text for each row would cost Redis and this process more than the rows themselves.
 */
export interface PackedRows {
  /** Of rows without a sort key: address, content, ... Of a row that was put several times, the last content counts. */
  plain: Buffer;
  /** Of rows with one, each once: score, entry, ... An entry is the address, NUL, and the content. */
  entries: Buffer;
  /** So many of the entries, the first ones, are of rows that do not exist yet. */
  inserted: number;
}

interface Place {
  chunk: Buffer;
  start: number;
  middle: number;
  end: number;
}

/** @param inserted so many of the rows, the first ones, do not exist yet and are not put again */
export function packRows(rows: EncodedRows, inserted = 0): PackedRows {
  const plain = new TextArray();
  const entries = new TextArray();
  const places: Place[] = [];
  let visited = 0;
  let insertedEntries = 0;
  rows.forEach((chunk, start, middle, end) => {
    visited++;
    if (isOfRange(chunk, start, middle)) {
      places.push({ chunk, start, middle, end });
      if (visited <= inserted) insertedEntries++;
      return;
    }
    plain.add(chunk, start, middle);
    plain.add(chunk, middle, end);
  });
  const kept = isAscending(places) ? places : lastOfEach(places);
  for (const place of kept) entries.addEntry(place);
  const isEachOnce = kept.length === places.length;
  return { plain: plain.take(), entries: entries.take(), inserted: isEachOnce ? insertedEntries : 0 };
}

/** Whether an address has three parts (see `rowAddress`), so that it is that of a row with a sort key. */
function isOfRange(chunk: Buffer, start: number, middle: number): boolean {
  let parts = 0;
  for (let i = start; i < middle; i++) if (chunk[i] === 0 && ++parts === 2) return true;
  return false;
}

/** Whether each address is beyond the one before. Each is then there once. */
function isAscending(places: readonly Place[]): boolean {
  for (let n = 1; n < places.length; n++) {
    const [before, next] = [places[n - 1]!, places[n]!];
    if (before.chunk.compare(next.chunk, next.start, next.middle, before.start, before.middle) >= 0) return false;
  }
  return true;
}

function lastOfEach(places: readonly Place[]): readonly Place[] {
  return [...new Map(places.map((place) => [addressOf(place), place])).values()];
}

function addressOf({ chunk, start, middle }: Place): string {
  return chunk.toString('latin1', start, middle);
}

const FIRST_BYTES = 4_096;
/** Marks of MessagePack: an array, and a text of up to 2^16 - 1 and of more bytes. */
const [ARRAY, TEXT, LONG_TEXT] = [0xdd, 0xda, 0xdb];
/** The text "0": the score of each member of a sorted set by bytes. */
const ZERO = [0xa1, 0x30] as const;
/** The most bytes that are written beside a text. */
const HEAD = 8;

class TextArray {
  private bytes = Buffer.allocUnsafe(FIRST_BYTES);
  private used = 5;
  private texts = 0;

  add(chunk: Buffer, start: number, end: number): void {
    this.begin(end - start);
    this.copy(chunk, start, end);
  }

  addEntry({ chunk, start, middle, end }: Place): void {
    this.begin(end - start + 1, ZERO);
    this.copy(chunk, start, middle);
    this.bytes[this.used++] = 0;
    this.copy(chunk, middle, end);
  }

  take(): Buffer {
    this.bytes[0] = ARRAY;
    this.bytes.writeUInt32BE(this.texts, 1);
    return this.bytes.subarray(0, this.used);
  }

  /** Makes room for a text and writes its length, after another text. */
  private begin(length: number, before: readonly number[] = []): void {
    const most = this.used + before.length + HEAD + length;
    if (most > this.bytes.length) {
      const more = Buffer.allocUnsafe(2 * most);
      this.bytes.copy(more, 0, 0, this.used);
      this.bytes = more;
    }
    for (const byte of before) this.bytes[this.used++] = byte;
    this.texts += before.length > 0 ? 2 : 1;
    const isLong = length > 0xffff;
    this.bytes[this.used++] = isLong ? LONG_TEXT : TEXT;
    this.used = isLong ? this.bytes.writeUInt32BE(length, this.used) : this.bytes.writeUInt16BE(length, this.used);
  }

  private copy(chunk: Buffer, start: number, end: number): void {
    chunk.copy(this.bytes, this.used, start, end);
    this.used += end - start;
  }
}
