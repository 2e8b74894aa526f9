import { type Dispute, disputeIdIn, evolve } from '../src/features/disputes/domain/dispute.js';
import { isOfDispute } from './identity-events.js';
import { type Projection, rowAt, rowIn } from './projection.js';

/**
 * Disputes by id; `disputes.list`: their ids by identity, by whoever made the statement, and all, in the order in which
 * they were opened last; `disputes.due`: upheld ones by action, until the action is withdrawn.
 */
export const disputes: Projection = {
  name: 'disputes',
  version: 3,
  views: ['disputes', 'disputes.list', 'disputes.due'],
  share: (event) => (event.type === 'ActionWithdrawn' || isOfDispute(event) ? event.data.tris_id : undefined),

  reads(event) {
    if (isOfDispute(event)) return [disputeRow(disputeIdIn(event))];
    return event.type === 'ActionWithdrawn' ? [rowIn(DUE_DISPUTES, event.data.action_id)] : [];
  },

  apply(event, rows) {
    if (event.type === 'ActionWithdrawn') {
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
    const isDue = event.type === 'DisputeAnswered' && event.data.outcome === 'upheld' && after.action_id !== null;
    if (isDue) rows.put(rowIn(DUE_DISPUTES, after.action_id!), after.dispute_id);
  },
};

export function disputeRow(disputeId: string) {
  return { view: 'disputes', key: disputeId };
}

export const DUE_DISPUTES = { view: 'disputes.due', key: 'all' };

/** @param who `about` an identity, or `by` who made the statement; null: all */
export function disputesOf(who: { about: string } | { by: string } | null, open: boolean) {
  const whose = who === null ? '*' : 'about' in who ? `about ${who.about}` : `by ${who.by}`;
  return { view: 'disputes.list', key: `${open ? 'open' : 'any'} ${whose}` };
}

function listsOf({ tris_id, issuer, position, isOpen }: Dispute) {
  const whose = [null, { about: tris_id }, ...(issuer === null ? [] : [{ by: issuer }])];
  return (isOpen ? [true, false] : [false]).flatMap((open) =>
    whose.map((who) => rowAt(disputesOf(who, open), position)),
  );
}
