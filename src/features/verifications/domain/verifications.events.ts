import { defineEvent, listOf, nullable, object, oneOf, shaped, text } from '../../../kernel/event-definition.js';
import { GRANTABLE_STATUSES } from '../../identity/domain/identity.events.js';

/**
 * The meaning of a public input of a proof. The service fixes the value of each except the nullifier, which comes from
 * the holder, and the expiry, which is only compared with the clock.
 */
export const INPUT_ROLES = ['nullifier', 'root', 'scope', 'subject', 'expires_at', 'constant'] as const;

/** A complete scheme, permanently registered. Stream `scheme-<scheme>`, revision 0. */
export const schemeRegistered = defineEvent(
  'SchemeRegistered',
  {
    scheme: text,
    status: oneOf(GRANTABLE_STATUSES),
    /** TRIS of the organization whose roots prove the credentials. */
    issuer: text,
    /** Schemes with the same scope share its nullifiers. */
    scope: text,
    /** In the order of the public signals. */
    public_inputs: listOf(shaped({ role: oneOf(INPUT_ROLES), value: nullable(text) })),
    /** As snarkjs exports it. */
    verification_key: object,
    /** SHA-256 of the key's RFC 8785 JSON. */
    verification_key_hash: text,
    /** SHA-256 of the transcript of the key's setup, as the operator declares it; null in schemes of schema 1. */
    transcript_hash: nullable(text),
    /** Accepted from the start. */
    roots: listOf(text),
  },
  { schema: 2, upcasters: { 1: (data) => ({ ...data, transcript_hash: null }) } },
);
/** The hash for a scheme that was registered without one. Same stream. */
export const schemeTranscriptDeclared = defineEvent('SchemeTranscriptDeclared', {
  scheme: text,
  transcript_hash: text,
});
/** Same stream. */
export const schemeRootAdded = defineEvent('SchemeRootAdded', { scheme: text, root: text });
export const schemeRootRemoved = defineEvent('SchemeRootRemoved', { scheme: text, root: text });
/** The scheme accepts no more proofs; what it granted stays. Same stream. */
export const schemeRetired = defineEvent('SchemeRetired', { scheme: text });

/** A nullifier belongs to an identity permanently. Stream `nullifier-<scope>-<hash>`, revision 0. */
export const nullifierUsed = defineEvent('NullifierUsed', { scope: text, tris_id: text });
