import { type Fact, fact } from '../../../kernel/event-definition.js';
import { deadLetterAcknowledged } from './dead-letters.events.js';

/** One stream for each dead letter, so that of two concurrent acknowledgements only one is stored. */
export function deadLetterStream(eventId: string): string {
  return `dead-letter-${eventId}`;
}

export function decideAcknowledge(
  { event_id, event_type, tris_id }: { event_id: string; event_type: string; tris_id: string | null },
  reasonCode: string,
  actor: string,
): Fact[] {
  return [
    fact(deadLetterAcknowledged, {
      event_id,
      event_type,
      tris_id,
      reason_code: reasonCode,
      acknowledged_by: actor,
    }),
  ];
}
