import type { TroveRecord } from './domain/record.js';
import { type TroveEntry, recordRow } from '../../../projections/trove.js';
import { yieldIfDue } from '../../kernel/turn.js';
import type { Views } from '../../read-side/views.js';
import type { RangeRow } from '../../stores/ports/read-models.js';

/**
 * A page of a list of records, in its order.
 * @param after sort key of the row before the page; undefined: from the start
 * @returns at most `limit` records, and the sort key of the last if more follow
 */
export async function pageOfRecords(
  views: Views,
  list: { view: string; key: string },
  after: string | undefined,
  limit: number,
): Promise<{ records: TroveRecord[]; last: string | undefined }> {
  const listed = await views.read([{ range: { ...list, after, limit: limit + 1 } }]);
  const rows = listed.results[0] as RangeRow[];
  const page = rows.slice(0, limit);
  if (page.length === 0) return { records: [], last: undefined };
  const gets = page.map(({ value }) => ({ get: recordRow((value as TroveEntry).record_id) }));
  await yieldIfDue();
  const { results } = await views.readSince(listed.position, gets);
  return { records: results as TroveRecord[], last: rows.length > limit ? page.at(-1)!.sort : undefined };
}
