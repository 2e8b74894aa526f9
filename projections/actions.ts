import type { DomainEvent } from './events.js';
import { isActionChange, isOnPlatform } from './identity-events.js';
import { type Projection, keysOf, rowAt, rowIn, shortId } from './projection.js';

/**
 * The positions of actions by the ids of their events. `actions.named`: by identity, the positions of events that name it
 * and are in no other list of what is about it. `actions.withdrawn`: by identity, the ids of those that are withdrawn.
 */
export const actions: Projection = {
  name: 'actions',
  version: 4,
  views: ['actions', 'actions.named', 'actions.withdrawn'],
  share: (event) => namesIn(event)?.tris_id,
  reads: (event) => (isActionChange(event) ? [withdrawnRow(event.data)] : []),
  apply(event, rows) {
    const names = namesIn(event);
    if (!names) return;
    if (event.type === 'ActionRelayed') rows.insert(actionRow(event.id), event.position);
    if (names.other !== undefined) rows.insert(rowAt(eventsNaming(names.other), event.position), true);
    if (event.type === 'ActionWithdrawn') rows.put(withdrawnRow(event.data), true);
    if (event.type === 'ActionReinstated') rows.delete(withdrawnRow(event.data));
  },
};

/** The subject of an event, and the identity that finds it by this projection only: often the counterparty. */
function namesIn(event: DomainEvent): { tris_id: string; other?: string | undefined } | undefined {
  if (isOnPlatform(event)) return { tris_id: event.data.tris_id, other: event.data.counterparty };
  if (event.type !== 'TroveContentCounted' && event.type !== 'NullifierUsed') return undefined;
  return { tris_id: event.data.tris_id, other: event.data.tris_id };
}

export const actionRow = (id: string) => ({ view: 'actions', key: shortId(id) });
export const eventsNaming = keysOf('actions.named');

const withdrawnRow = (change: { tris_id: string; action_id: string }) =>
  rowIn(withdrawnOf(change.tris_id), change.action_id);

export const withdrawnOf = keysOf('actions.withdrawn');
