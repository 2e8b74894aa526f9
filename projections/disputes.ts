import { type Dispute, disputeIdIn, evolve } from '../src/features/disputes/domain/dispute.js';
import { isActionChange, isOfDispute } from './identity-events.js';
import type { Position } from '../src/kernel/event.js';
import { type Projection, keysOf, rowAt, rowIn } from './projection.js';

/** A dispute that is to change its action, and the position of the event from which that follows. */
export interface DueDispute {
  dispute_id: string;
  position: Position;
}

/**
 * Disputes by id; `disputes.list`: their ids by identity, by whoever made the statement, and all, in the order in which
 * they were opened last; `disputes.due`: by action, the dispute from which a change of it follows, until it is changed. It
 * was upheld, has lapsed, or was rejected after it had lapsed.
 */
export const disputes: Projection = {
  name: 'disputes',
  version: 5,
  views: ['disputes', 'disputes.list', 'disputes.due'],
  share: (event) => (isActionChange(event) || isOfDispute(event) ? event.data.tris_id : undefined),

  reads(event) {
    if (isOfDispute(event)) return [disputeRow(disputeIdIn(event))];
    return isActionChange(event) ? [rowIn(DUE_DISPUTES, event.data.action_id)] : [];
  },

  apply(event, rows) {
    if (isActionChange(event)) {
      const due = rowIn(DUE_DISPUTES, event.data.action_id);
      if (rows.get(due)) rows.delete(due);
      return;
    }
    if (!isOfDispute(event)) return;
    const row = disputeRow(disputeIdIn(event));
    const before = rows.get<Dispute>(row);
    const after = evolve(before, event);
    if (!after) return;
    if (before) for (const listed of listsOf(before)) rows.delete(listed);
    rows.put(row, after);
    for (const listed of listsOf(after)) rows.put(listed, after.dispute_id);
    const { dispute_id, action_id, state } = after;
    if (action_id === null || state === 'open' || (state === 'rejected' && before?.state !== 'lapsed')) return;
    const due: DueDispute = { dispute_id, position: event.position };
    rows.put(rowIn(DUE_DISPUTES, action_id), due);
  },
};

export const disputeRow = keysOf('disputes');

export const DUE_DISPUTES = { view: 'disputes.due', key: 'all' };

/** @param who `about` an identity, or `by` who made the statement; null: all */
export function disputesOf(who: { about: string } | { by: string } | null, open: boolean) {
  const whose = who === null ? '*' : 'about' in who ? `about ${who.about}` : `by ${who.by}`;
  return { view: 'disputes.list', key: `${open ? 'open' : 'any'} ${whose}` };
}

function listsOf({ tris_id, issuer, position, state }: Dispute) {
  const whose = [null, { about: tris_id }, ...(issuer === null ? [] : [{ by: issuer }])];
  return (state === 'open' ? [true, false] : [false]).flatMap((open) =>
    whose.map((who) => rowAt(disputesOf(who, open), position)),
  );
}
