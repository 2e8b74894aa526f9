import type { Projection } from './projection.js';

/** Where an action is in the log: its identity and its position. Small, since there is one for each action. */
export type ActionRow = [trisId: string, position: number];

/** Actions by the id of their event, from which their stream is found. */
export const actions: Projection = {
  name: 'actions',
  version: 1,
  views: ['actions'],
  share: {
    ofEvent: (event) => (event.type === 'ActionRelayed' ? event.data.tris_id : undefined),
    ofRow: (_row, value) => (value as ActionRow)[0],
  },
  reads: () => [],
  apply(event, rows) {
    if (event.type !== 'ActionRelayed') return;
    const row: ActionRow = [event.data.tris_id, event.position];
    rows.insert(actionRow(event.id), row);
  },
};

export function actionRow(actionId: string) {
  return { view: 'actions', key: actionId };
}
