import type { Json } from '../../kernel/json.js';
import type { Checkpoint, GenerationStatus, RangeRow, RowKey, RowQuery, RowRange } from '../ports/read-models.js';
import { addressOf, rowAddress } from '../ports/row-key.js';
import type { Statement } from './connection.js';
import { addressesOf, isWhole, sortColumn, sortOf } from './rows.js';
import { HEAD, KIND, KINDS, readStatement } from './statements.js';

/** A row of what a statement of reads returns: see `readStatement`. */
export type ReadRow = [n: string, sort: string | null, content: string, crc: number | null];

/** A row is not what was written. */
export class DamagedRow extends Error {
  constructor(view: string) {
    super(`a row of ${view} is not what was written`);
  }
}

/** Beyond every sort key: no address is as long. */
const LAST = '\u{10ffff}'.repeat(500);

/** Queries of several callers that one statement answers. */
export class ReadBatch {
  /** Approximate number of rows that the server has to read. */
  weight = 0;
  private readonly singles: RowKey[] = [];
  private readonly forward: RowRange[] = [];
  private readonly backward: RowRange[] = [];

  /** @returns where the answers will be. @throws TypeError, RangeError for an invalid row key; nothing is kept */
  add(queries: readonly RowQuery[]): number[] {
    for (const query of queries) rowAddress('get' in query ? query.get : query.range);
    return queries.map((query) => {
      this.weight += 'get' in query ? 1 : query.range.limit;
      if ('get' in query) return KINDS * this.singles.push(query.get) + KIND.single;
      if (query.range.reverse) return KINDS * this.backward.push(query.range) + KIND.backward;
      return KINDS * this.forward.push(query.range) + KIND.forward;
    });
  }

  /** @param part whose table is read; null: only status and checkpoint are */
  statement(id: string, part: number | null): Statement {
    const { singles, forward, backward } = this;
    if (part === null) return { ...HEAD, values: [id] };
    const values: Statement['values'] = [id, ...addressesOf(singles)];
    for (const ranges of [forward, backward]) {
      if (ranges.length === 0) continue;
      values.push(
        ranges.map(({ view }) => view),
        ranges.map(({ key }) => key),
        ranges.map(startOf),
        ranges.map(({ limit }) => Math.max(0, limit)),
      );
    }
    return { ...readStatement(part, forward.length > 0, backward.length > 0), values };
  }
}

function startOf({ after, reverse }: RowRange): string {
  if (after !== undefined) return sortColumn(after);
  return reverse ? LAST : '';
}

/** What is stored of a generation beside its rows. */
export interface Head {
  /** Of the manifest, of the same snapshot; null: there is none. */
  manifestVersion: string | null;
  status: GenerationStatus;
  checkpoint: Checkpoint;
  part: number | null;
}

export function headOf([, status, checkpoint, part]: ReadRow): Head {
  type Parts = [string, number, string | null, string | null];
  const [log, position, event_id, manifestVersion] = JSON.parse(checkpoint) as Parts;
  return { status: status as GenerationStatus, checkpoint: { log, position, event_id }, part, manifestVersion };
}

/** The rows that a statement has returned, by the number of their query. */
export function byQuery(rows: readonly ReadRow[]): Map<number, ReadRow[]> {
  const found = new Map<number, ReadRow[]>();
  for (const row of rows) {
    const n = Number(row[0]);
    const others = found.get(n);
    if (others) others.push(row);
    else found.set(n, [row]);
  }
  return found;
}

/** @throws DamagedRow */
export function resultOf(query: RowQuery, rows: readonly ReadRow[] | undefined): Json | undefined | RangeRow[] {
  if ('get' in query) return rows && valueOf(query.get, rows[0]!);
  const { view, key } = query.range;
  return (rows ?? []).map((row) => {
    const sort = sortOf(row[1]!);
    return { sort, value: valueOf({ view, key, sort }, row) };
  });
}

/** The value of a row. @throws DamagedRow */
export function valueOf(key: RowKey, [, , content, crc]: Readonly<ReadRow>): Json {
  if (!isWhole(addressOf(key), content, crc!)) throw new DamagedRow(key.view);
  return JSON.parse(content) as Json;
}
