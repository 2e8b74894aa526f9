import { type Projection, sortByPosition } from './projection.js';

/** An event that could not be decoded: its identity is marked incomplete until an operator deals with it. */
export interface DeadLetterRow {
  event_id: string;
  event_type: string;
  stream: string;
  tris_id: string | null;
  reason: string;
}

export const deadLetters: Projection = {
  name: 'dead_letters',
  version: 1,
  views: ['dead_letters'],
  reads: () => [],
  apply(event, rows) {
    if (event.type !== 'Undecodable') return;
    const { tris_id, event_type, reason } = event.data;
    const letter: DeadLetterRow = { event_id: event.id, event_type, stream: event.stream, tris_id, reason };
    rows.insert({ ...DEAD_LETTERS, sort: sortByPosition(event.position) }, letter);
  },
};

export const DEAD_LETTERS = { view: 'dead_letters', key: 'all' };
