import { crc32 } from 'node:zlib';
import type { EncodedRows, PlacedRows } from '../ports/encoded-rows.js';
import type { RowKey } from '../ports/read-models.js';
import { rowAddress } from '../ports/row-key.js';
import { CopyData, IntegerArray, TextArray } from './binary.js';

/**
 * The columns of a row: view, key, sort, content, crc. `sort` is empty for a row without a sort key. A sort key that is
 * empty itself, or begins with this mark, has the mark before it, so that the order of rows stays that of their addresses.
 */
const MARK = 1;
const MARK_TEXT = '\x01';

/** The value of the column `sort`. */
export function sortColumn(sort: string | undefined): string {
  if (sort === undefined) return '';
  return sort === '' || sort.startsWith(MARK_TEXT) ? MARK_TEXT + sort : sort;
}

/** The row of its columns. */
export function rowOf(view: string, key: string, sort: string): RowKey {
  return sort === '' ? { view, key } : { view, key, sort: sortOf(sort) };
}

export function sortOf(column: string): string {
  return column.startsWith(MARK_TEXT) ? column.slice(1) : column;
}

/** Whether a row is what was written. */
export function isWhole(address: string, content: string, crc: number): boolean {
  return (crc32(content, crc32(address)) | 0) === crc;
}

/** @returns where the key and the sort key of an address begin; the latter is -1 if it has none */
function partsOf(chunk: Buffer, start: number, middle: number): [key: number, sort: number] {
  const key = chunk.indexOf(0, start) + 1;
  const sort = chunk.indexOf(0, key) + 1;
  return [key, sort > 0 && sort <= middle ? sort : -1];
}

function markOf(chunk: Buffer, sort: number, middle: number): number | undefined {
  return sort === middle || chunk[sort] === MARK ? MARK : undefined;
}

/**
 * The columns of some rows, as arrays.
 * @param inserted so many of the rows, the first ones, are there once
 */
export function columnsOf(rows: EncodedRows, inserted = 0): Buffer[] {
  const [views, keys, sorts, contents] = [new TextArray(), new TextArray(), new TextArray(), new TextArray()];
  const crcs = new IntegerArray();
  for (const n of lastOfEach(rows, inserted)) {
    rows.visit(n, (chunk, start, middle, end) => {
      const [key, sort] = partsOf(chunk, start, middle);
      views.add(chunk, start, key - 1);
      keys.add(chunk, key, sort < 0 ? middle : sort - 1);
      if (sort < 0) sorts.add(chunk, middle, middle);
      else sorts.add(chunk, sort, middle, markOf(chunk, sort, middle));
      contents.add(chunk, middle, end);
      crcs.add(crc32(chunk.subarray(start, end)) | 0);
    });
  }
  return [views, keys, sorts, contents, crcs].map((column) => column.take());
}

/** The numbers of the rows to be written: one statement can write a row once, and the last content counts. */
function* lastOfEach(rows: EncodedRows, inserted: number): Iterable<number> {
  for (let n = 0; n < inserted; n++) yield n;
  const last = new Map<string, number>();
  for (let n = inserted; n < rows.size; n++) {
    rows.visit(n, (chunk, start, middle) => last.set(chunk.toString('latin1', start, middle), n));
  }
  yield* last.values();
}

/** The addresses of rows that are to be removed and are not written as well, as arrays of view, key and sort. */
export function removedOf(deletes: readonly RowKey[], puts: EncodedRows): Buffer[] {
  const removed = new Map(deletes.map((row) => [Buffer.from(rowAddress(row)).toString('latin1'), row]));
  if (removed.size > 0) {
    puts.forEach((chunk, start, middle) => void removed.delete(chunk.toString('latin1', start, middle)));
  }
  const rows = [...removed.values()];
  return [
    TextArray.of(rows, ({ view }) => view),
    TextArray.of(rows, ({ key }) => key),
    TextArray.of(rows, ({ sort }) => sortColumn(sort)),
  ];
}

/** Rows of a part as COPY reads them. */
export function copyOf(part: number, rows: PlacedRows): Buffer {
  const data = new CopyData();
  rows.forEach((chunk, start, middle, end) => {
    const [key, sort] = partsOf(chunk, start, middle);
    data.row(6);
    data.integer(part);
    data.text(chunk, start, key - 1);
    data.text(chunk, key, sort < 0 ? middle : sort - 1);
    if (sort < 0) data.text(chunk, middle, middle);
    else data.text(chunk, sort, middle, markOf(chunk, sort, middle));
    data.text(chunk, middle, end);
    data.integer(crc32(chunk.subarray(start, end)) | 0);
  });
  return data.take();
}
