import type { DomainEvent } from './events.js';
import { type Projection, rowAt, rowIn } from './projection.js';

/** Where an action is in the log: its identity and its position. Small, since there is one for each action. */
export type ActionRow = [trisId: string, position: number];

/**
 * Actions by the id of their event, from which their stream is found. `actions.named`: by identity, the events that name
 * it and are in no other list of what is about it. `actions.withdrawn`: by identity, the ids of those that are withdrawn.
 */
export const actions: Projection = {
  name: 'actions',
  version: 3,
  views: ['actions', 'actions.named', 'actions.withdrawn'],
  share: (event) => namesIn(event)?.tris_id,
  reads: (event) => (isChange(event) ? [withdrawnRow(event)] : []),
  apply(event, rows) {
    const names = namesIn(event);
    if (!names) return;
    const row: ActionRow = [names.tris_id, event.position];
    if (event.type === 'ActionRelayed') rows.insert(actionRow(event.id), row);
    if (names.other !== undefined) rows.insert(rowAt(eventsNaming(names.other), event.position), row);
    if (event.type === 'ActionWithdrawn') rows.put(withdrawnRow(event), true);
    if (event.type === 'ActionReinstated') rows.delete(withdrawnRow(event));
  },
};

type Change = Extract<DomainEvent, { type: 'ActionWithdrawn' | 'ActionReinstated' }>;
const isChange = (event: DomainEvent): event is Change =>
  event.type === 'ActionWithdrawn' || event.type === 'ActionReinstated';
const withdrawnRow = ({ data }: Change) => rowIn(withdrawnOf(data.tris_id), data.action_id);

/** The subject of an event, and the identity that finds it by this projection only: often the counterparty. */
function namesIn(event: DomainEvent): { tris_id: string; other?: string | undefined } | undefined {
  switch (event.type) {
    case 'ActionRelayed':
    case 'ActionWithdrawn':
    case 'ActionReinstated':
    case 'CredonationRecorded':
      return { tris_id: event.data.tris_id, other: event.data.counterparty };
    case 'TroveContentCounted':
    case 'NullifierUsed':
      return { tris_id: event.data.tris_id, other: event.data.tris_id };
    default:
      return undefined;
  }
}

export function actionRow(actionId: string) {
  return { view: 'actions', key: actionId };
}

export function eventsNaming(trisId: string) {
  return { view: 'actions.named', key: trisId };
}

export function withdrawnOf(trisId: string) {
  return { view: 'actions.withdrawn', key: trisId };
}
