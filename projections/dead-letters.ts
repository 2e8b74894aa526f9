import { type Projection, type Rows, rowAt } from './projection.js';

/** An event that could not be decoded. Times in ms. */
export interface DeadLetterRow {
  event_id: string;
  event_type: string;
  stream: string;
  position: number;
  tris_id: string | null;
  reason: string;
  /** Who acknowledged it, and why; null: not acknowledged, and its identity is incomplete. */
  acknowledged: { at: number; by: string; reason_code: string } | null;
}

/** Open and acknowledged dead letters in log order, and `dead_letters.events`: each by its event's id. */
export const deadLetters: Projection = {
  name: 'dead_letters',
  version: 2,
  views: ['dead_letters', 'dead_letters.events'],

  reads: (event) => (event.type === 'DeadLetterAcknowledged' ? [deadLetterRow(event.data.event_id)] : []),

  apply(event, rows) {
    if (event.type === 'Undecodable') {
      const { tris_id, event_type, reason } = event.data;
      const { id: event_id, stream, position } = event;
      put({ event_id, event_type, stream, position, tris_id, reason, acknowledged: null }, rows);
    }
    if (event.type === 'DeadLetterAcknowledged') {
      const { event_id, acknowledged_by: by, reason_code } = event.data;
      // Absent if this build can decode the event.
      const letter = rows.get<DeadLetterRow>(deadLetterRow(event_id));
      if (!letter) return;
      rows.delete(rowAt(OPEN_DEAD_LETTERS, letter.position));
      put({ ...letter, acknowledged: { at: event.recorded_at, by, reason_code } }, rows);
    }
  },
};

function put(letter: DeadLetterRow, rows: Rows): void {
  const list = letter.acknowledged ? ACKNOWLEDGED_DEAD_LETTERS : OPEN_DEAD_LETTERS;
  rows.put(rowAt(list, letter.position), letter);
  rows.put(deadLetterRow(letter.event_id), letter);
}

export const OPEN_DEAD_LETTERS = { view: 'dead_letters', key: 'open' };
export const ACKNOWLEDGED_DEAD_LETTERS = { view: 'dead_letters', key: 'acknowledged' };

export function deadLetterRow(eventId: string) {
  return { view: 'dead_letters.events', key: eventId };
}
