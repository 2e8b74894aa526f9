import { defineEvent, flag, nullable, oneOf, text, time, wholeNumber } from '../../../kernel/event-definition.js';

/** The statuses an identity can be granted (requirement 27); "BAD Status validation" is derived, never granted. */
export const GRANTABLE_STATUSES = ['zk-KYH', 'zk-KYC (ID only)', 'zk-KYC (ID + AML)'] as const;

/** Stream `identity-<tris>`: what operators state about an identity. */
export const badStatusSet = defineEvent('BadStatusSet', {
  tris_id: text,
  level: wholeNumber(1, 6),
  reason_code: text,
});
export const badStatusCleared = defineEvent('BadStatusCleared', { tris_id: text });
export const verificationGranted = defineEvent(
  'VerificationGranted',
  {
    tris_id: text,
    status: oneOf(GRANTABLE_STATUSES),
    /** An organization's TRIS or `key:<id>`. */
    issuer: text,
    /** How it was established: `operator` for a grant by a key, or the id of a proof scheme. */
    scheme: text,
    /** Whether an operator granted it: a key with `ops` that is bound to no organization. */
    operator: flag,
    expires_at: nullable(time),
    evidence_hash: text,
  },
  // This schema did not record whether it was an operator's key, and the scheme's name does not show it.
  { schema: 2, upcasters: { 1: (data) => ({ ...data, operator: false }) } },
);
export const verificationRevoked = defineEvent(
  'VerificationRevoked',
  {
    tris_id: text,
    status: oneOf(GRANTABLE_STATUSES),
    /** Issuer of the grants; null: any. */
    issuer: nullable(text),
    /** Scheme of the grants; null: any. */
    scheme: nullable(text),
  },
  { schema: 2, upcasters: { 1: (data) => ({ ...data, scheme: null }) } },
);
