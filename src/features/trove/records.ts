import type { TroveRecord } from './domain/record.js';
import { type TroveEntry, recordRow } from '../../../projections/trove.js';
import { POSITION_SORT } from '../../kernel/positions.js';
import type { Views } from '../../read-side/views.js';

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
): Promise<{ records: TroveRecord[]; last: string | null }> {
  const {
    position,
    page,
    next_cursor: last,
  } = await views.page<TroveEntry>(list, { cursor: after, limit }, POSITION_SORT);
  if (page.length === 0) return { records: [], last };
  const gets = page.map(({ record_id }) => ({ get: recordRow(record_id) }));
  const { results } = await views.readSince(position, gets);
  return { records: results as TroveRecord[], last };
}
