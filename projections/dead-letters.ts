import { UNREADABLE } from '../src/kernel/event-definition.js';
import { type Projection, type Rows, keysOf, rowAt } from './projection.js';

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
  version: 4,
  views: ['dead_letters', 'dead_letters.events', 'dead_letters.unattributed'],

  reads(event) {
    if (event.type === 'DeadLetterAcknowledged') return [deadLetterRow(event.data.event_id), UNATTRIBUTED];
    return event.type === 'Undecodable' && isUnattributed(event.data) ? [UNATTRIBUTED] : [];
  },

  apply(event, rows) {
    if (event.type === 'Undecodable') {
      const { tris_id, event_type, reason } = event.data;
      const { id: event_id, stream, position } = event;
      put({ event_id, event_type, stream, position, tris_id, reason, acknowledged: null }, rows);
      if (isUnattributed(event.data)) countUnattributed(1, rows);
    }
    if (event.type === 'DeadLetterAcknowledged') {
      const { event_id, acknowledged_by: by, reason_code } = event.data;
      // Absent if this build can decode the event.
      const letter = rows.get<DeadLetterRow>(deadLetterRow(event_id));
      if (!letter) return;
      if (isUnattributed(letter) && letter.acknowledged === null) countUnattributed(-1, rows);
      rows.delete(rowAt(OPEN_DEAD_LETTERS, letter.position));
      put({ ...letter, acknowledged: { at: event.recorded_at, by, reason_code } }, rows);
    }
  },
};

/**
 * Whether the event may be about any identity. A damaged event may have lost its identity; an undecodable one that
 * names none is about none.
 */
function isUnattributed({ tris_id, event_type }: Pick<DeadLetterRow, 'tris_id' | 'event_type'>): boolean {
  return tris_id === null && event_type === UNREADABLE;
}

function countUnattributed(change: number, rows: Rows): void {
  rows.put(UNATTRIBUTED, (rows.get<number>(UNATTRIBUTED) ?? 0) + change);
}

function put(letter: DeadLetterRow, rows: Rows): void {
  const list = letter.acknowledged ? ACKNOWLEDGED_DEAD_LETTERS : OPEN_DEAD_LETTERS;
  rows.put(rowAt(list, letter.position), letter);
  rows.put(deadLetterRow(letter.event_id), letter);
}

export const OPEN_DEAD_LETTERS = { view: 'dead_letters', key: 'open' };
export const ACKNOWLEDGED_DEAD_LETTERS = { view: 'dead_letters', key: 'acknowledged' };

/** The number of open dead letters about an unknown identity. While there is one, every identity may be incomplete. */
export const UNATTRIBUTED = { view: 'dead_letters.unattributed', key: 'all' };

export const deadLetterRow = keysOf('dead_letters.events');
