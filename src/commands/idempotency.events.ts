import { defineEvent, text, wholeNumber } from '../kernel/event-definition.js';

/**
 * An Idempotency-Key was used for a request that writes to `stream`. Revision 0 of `idem-<hash>`, or of the stream that
 * the request would write to without a name of its own for it.
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
