import { defineEvent, oneOf, text } from '../../../kernel/event-definition.js';

/**
 * A session has ended: none of its refresh tokens is valid any more, whatever the short-lived state says. Stream
 * `family-<id>`, revision 0.
 */
export const refreshFamilyRevoked = defineEvent(
  'RefreshFamilyRevoked',
  {
    family_id: text,
    /** Address in lower case. */
    wallet: text,
    /**
     * `reused`: a replaced token was presented again, so two parties may hold it. `rejected`: the contract wallet no longer
     * accepts the signature of the sign-in.
     */
    reason: oneOf(['signed_out', 'reused', 'rejected']),
  },
  // `rejected` is new in this schema.
  { schema: 2, upcasters: { 1: (data) => data } },
);
