import { crc32 } from 'node:zlib';
import type { EncodedRows, PlacedRows } from '../ports/encoded-rows.js';
import type { RowKey } from '../ports/read-models.js';
import { rowAddress } from '../ports/row-key.js';
import { CopyData, TextArray } from './binary.js';
import type { Statement } from './connection.js';

/**
 * The columns of a row: view, key, sort, content, crc. `sort` is empty for a row without a sort key. A sort key that is
 * empty itself, or begins with this mark, has the mark before it, so that the order of rows stays that of their addresses.
 */
const MARK = 1;
const MARK_TEXT = '\x01';

type Values = NonNullable<Statement['values']>;

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

/** Receives the bytes chunk[start, end) of a column, to be written after a mark if there is one. */
type TakeColumn = (column: number, chunk: Buffer, start: number, end: number, mark?: number) => void;

/** Gives away the columns view, key, sort and content of an encoded row, in this order. @returns its checksum */
function columnsOfRow(chunk: Buffer, start: number, middle: number, end: number, take: TakeColumn): number {
  const key = chunk.indexOf(0, start) + 1;
  const sort = chunk.indexOf(0, key) + 1;
  const hasSort = sort > 0 && sort <= middle;
  const isMarked = hasSort && (sort === middle || chunk[sort] === MARK);
  take(0, chunk, start, key - 1);
  take(1, chunk, key, hasSort ? sort - 1 : middle);
  take(2, chunk, hasSort ? sort : middle, middle, isMarked ? MARK : undefined);
  take(3, chunk, middle, end);
  return crc32(chunk.subarray(start, end)) | 0;
}

/**
 * What a batch changes, as arrays: view, key and sort of the rows that it removes and does not write as well, and the
 * columns of those that it writes.
 */
export function changesOf(puts: EncodedRows, deletes: readonly RowKey[]): Values {
  /** By address: the number of its last row. One statement can write a row once, and the last content counts. */
  const last = new Map<string, number>();
  for (let n = 0; n < puts.size; n++) {
    puts.visit(n, (chunk, start, middle) => void last.set(chunk.toString('latin1', start, middle), n));
  }
  const removed = deletes.filter((row) => !last.has(Buffer.from(rowAddress(row)).toString('latin1')));
  const texts = Array.from({ length: 4 }, () => new TextArray());
  const crcs: number[] = [];
  const take: TakeColumn = (column, chunk, start, end, mark) => texts[column]!.add(chunk, start, end, mark);
  for (const n of last.values()) {
    puts.visit(n, (chunk, start, middle, end) => void crcs.push(columnsOfRow(chunk, start, middle, end, take)));
  }
  return [...addressesOf(removed), ...texts.map((column) => column.take()), `{${crcs.join()}}`];
}

/** The columns of addresses, as arrays. */
export function addressesOf(rows: readonly RowKey[]): Values {
  return [rows.map(({ view }) => view), rows.map(({ key }) => key), rows.map(({ sort }) => sortColumn(sort))];
}

/** Rows of a part as COPY reads them. */
export function copyOf(part: number, rows: PlacedRows): Buffer {
  const data = new CopyData();
  const take: TakeColumn = (_column, chunk, start, end, mark) => data.field(chunk, start, end, mark);
  rows.forEach((chunk, start, middle, end) => {
    data.int16(6);
    data.integer(part);
    data.integer(columnsOfRow(chunk, start, middle, end, take));
  });
  return data.take();
}
