import { disputeRow } from '../../../projections/disputes.js';
import type { Position } from '../../kernel/event.js';
import type { Views } from '../../read-side/views.js';
import type { Dispute } from './domain/dispute.js';
import type { DisputedDto } from './disputes.dto.js';

/** The disputes with these ids, which the read models had at a position. */
export async function storedDisputes(views: Views, ids: readonly string[], position: Position): Promise<Dispute[]> {
  if (ids.length === 0) return [];
  const gets = ids.map((id) => ({ get: disputeRow(id) }));
  return (await views.readSince(position, gets)).results as Dispute[];
}

/** Which statement is disputed, as answers and messages show it. */
export function disputedDto({ dispute_id, tris_id, about, action_id, platform_id, status }: Dispute): DisputedDto {
  return { dispute_id, tris_id, about, action_id, platform_id, verification: status };
}
