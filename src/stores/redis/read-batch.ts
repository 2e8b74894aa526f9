import type { Json } from '../../kernel/json.js';
import type { Checkpoint, GenerationStatus, RangeRow, ReadResult, RowKey, RowQuery } from '../ports/read-models.js';
import { rowAddress } from '../ports/row-key.js';

/** What the script READ returns. */
export type ReadAnswer = [
  status: string,
  checkpoint: string,
  rows: (string | null)[],
  ...others: (string | string[])[],
];

interface Found {
  at: Omit<ReadResult, 'results'>;
  rows: (string | null)[];
  others: (string | string[])[];
}

/** Queries of several callers that are sent as one script. */
export class ReadBatch {
  /** Approximate number of rows that the server has to read. */
  weight = 0;
  private readonly rows: string[] = [];
  private readonly others: (string | number)[][] = [];
  private readonly answer: Promise<Found | undefined>;

  /** @param send gets the arguments when no more queries can be added */
  constructor(send: (args: () => (string | number)[]) => Promise<ReadAnswer | null>) {
    this.answer = send(() => [this.rows.length, ...this.rows, ...this.others.flat()]).then((found) => {
      if (!found) return undefined;
      const [status, checkpoint, rows, ...others] = found;
      return { at: { status: status as GenerationStatus, checkpoint: checkpointOf(checkpoint) }, rows, others };
    });
  }

  async ask(queries: readonly RowQuery[]): Promise<ReadResult | undefined> {
    const places = queries.map((query) => this.add(query));
    const answer = await this.answer;
    if (!answer) return undefined;
    const { at, rows, others } = answer;
    const results = queries.map((query, n) => resultOf(query, (isPlainRow(query) ? rows : others)[places[n]!]));
    return { status: at.status, checkpoint: at.checkpoint, results };
  }

  /** The place of its answer: among the rows, or among the others. */
  private add(query: RowQuery): number {
    this.weight += 'get' in query ? 1 : query.range.limit;
    if (isPlainRow(query)) return this.rows.push(rowAddress(query.get)) - 1;
    return this.others.push(queryArguments(query)) - 1;
  }
}

function isPlainRow(query: RowQuery): query is { get: RowKey } {
  return 'get' in query && query.get.sort === undefined;
}

/** One text for one checkpoint, so that equal checkpoints are equal texts. */
export function checkpointText({ log, position, event_id }: Checkpoint): string {
  return JSON.stringify([log, position, event_id]);
}

export function checkpointOf(text: string): Checkpoint {
  const [log, position, event_id] = JSON.parse(text) as [string, number, string | null];
  return { log, position, event_id };
}

function queryArguments(query: RowQuery): (string | number)[] {
  if ('get' in query) return ['s', rowAddress(query.get)];
  const { view, key, after, reverse = false, limit } = query.range;
  const first = `${rowAddress({ view, key })}\0`;
  const beyond = `(${view}\0${key}\x01`;
  const size = Math.max(0, limit);
  if (reverse) return ['b', after === undefined ? beyond : `(${first}${after}\0`, `[${first}`, size];
  return ['f', after === undefined ? `[${first}` : `(${first}${after}\x01`, beyond, size];
}

/** @param found null or empty if the row does not exist */
function resultOf(query: RowQuery, found: string | string[] | null | undefined): Json | undefined | RangeRow[] {
  if ('range' in query) {
    const { view, key } = query.range;
    const start = view.length + key.length + 2;
    return (found as string[]).map((member) => {
      const end = member.indexOf('\0', start);
      return { sort: member.slice(start, end), value: JSON.parse(member.slice(end + 1)) as Json };
    });
  }
  if (typeof found !== 'string' || found === '') return undefined;
  const content = query.get.sort === undefined ? found : found.slice(found.lastIndexOf('\0') + 1);
  return JSON.parse(content) as Json;
}
