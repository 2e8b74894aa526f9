import { defineEvent, oneOf, text } from '../../../kernel/event-definition.js';

/**
 * A session is over: none of its refresh tokens counts any more, whatever the short-lived state says. Stream
 * `family-<id>`, revision 0.
 */
export const refreshFamilyRevoked = defineEvent('RefreshFamilyRevoked', {
  family_id: text,
  /** Address in small letters. */
  wallet: text,
  /** `reused`: a token that had been replaced was presented again, so it is in the hands of two. */
  reason: oneOf(['signed_out', 'reused']),
});
