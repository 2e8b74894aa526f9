import { defineEvent, nullable, text } from '../../../kernel/event-definition.js';

/**
 * An operator lets the service go on without what an event says that cannot be decoded. Stream `dead-letter-<event id>`,
 * revision 0. A build that decodes the event again folds it again: then this changes nothing.
 */
export const deadLetterAcknowledged = defineEvent('DeadLetterAcknowledged', {
  event_id: text,
  event_type: text,
  /** The identity the event is about; null: none that could be told. */
  tris_id: nullable(text),
  /** Why: a code, no free text. */
  reason_code: text,
  /** Who: `key:<id>` or `cli`. */
  acknowledged_by: text,
});
