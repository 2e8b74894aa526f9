import { defineEvent, nullable, text } from '../../../kernel/event-definition.js';

/**
 * An operator acknowledged an event that cannot be decoded, so that the service ignores it. Stream
 * `dead-letter-<event id>`, revision 0. It has no effect in a build that can decode the event.
 */
export const deadLetterAcknowledged = defineEvent('DeadLetterAcknowledged', {
  event_id: text,
  event_type: text,
  /** The identity that the event is about; null if it could not be determined. */
  tris_id: nullable(text),
  /** The reason, as a code; no free text. */
  reason_code: text,
  /** `key:<id>`, or `cli:<user>`. */
  acknowledged_by: text,
});
