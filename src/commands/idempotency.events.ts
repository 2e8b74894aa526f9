import { defineEvent, text, wholeNumber } from '../kernel/event-definition.js';

/**
 * An Idempotency-Key was used for a request that writes to `stream`. Revision 0 of `idem-<hash>` or, for an action with
 * an external_id, of the stream that an action without one would have by this key.
 */
export const idempotencyKeyClaimed = defineEvent('IdempotencyKeyClaimed', { stream: text });

/**
 * The request with that key changed nothing in `stream`, which had `events` events then. A retry changes nothing
 * either, whatever has happened since. Recorded in the same stream, after the claim.
 */
export const idempotencyKeyAnswered = defineEvent('IdempotencyKeyAnswered', {
  stream: text,
  events: wholeNumber(0, Number.MAX_SAFE_INTEGER),
});
