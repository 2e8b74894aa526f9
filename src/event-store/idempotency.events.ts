import { defineEvent, text } from './codec.js';

/** An Idempotency-Key was used for a request that writes to `stream`. Stream `idem-<hash>`, revision 0. */
export const idempotencyKeyClaimed = defineEvent('IdempotencyKeyClaimed', { stream: text });
