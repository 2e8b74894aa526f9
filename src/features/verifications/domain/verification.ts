import { decodeStatement, operatorStateOf } from '../../identity/domain/identity.js';
import { verificationGranted } from '../../identity/domain/identity.events.js';
import type { RecordedEvent } from '../../../kernel/event.js';
import { type Decoded, type Fact, fact } from '../../../kernel/event-definition.js';
import { canonicalJson, sha256Hex } from '../../../kernel/hash.js';
import { type FieldError, Problem } from '../../../kernel/problems.js';
import { fieldOf } from './proof-format.js';
import type { Scheme } from './scheme.js';

/** The last second of the year 9999, in seconds since the epoch. */
const LAST_SECOND = 253_402_300_799n;

/**
 * Compares public signals with the values that the scheme fixes. Done before the pairing, since it costs nothing, and
 * with a code for each fault, since the holder can correct each.
 * @returns what they state; `expires_at` in ISO 8601 UTC
 * @throws Problem public_signal_mismatch
 */
export function readSignals({ public_inputs, roots, scope }: Scheme, signals: readonly string[], trisId: string) {
  const errors: FieldError[] = [];
  const statement = { nullifier: '', expires_at: '' };
  for (const [i, { role, value }] of public_inputs.entries()) {
    const signal = signals[i]!;
    const check = (isRight: boolean, code: string, message: string) => {
      if (!isRight) errors.push({ pointer: `/public_signals/${i}`, code, message });
    };
    if (role === 'nullifier') statement.nullifier = signal;
    if (role === 'root') check(roots.includes(signal), 'unknown_root', 'this is not a root the scheme accepts');
    if (role === 'scope') check(signal === fieldOf(scope), 'wrong_scope', `this is not the scope ${scope}`);
    if (role === 'subject') check(signal === fieldOf(trisId), 'wrong_subject', `the proof is not bound to ${trisId}`);
    if (role === 'constant') check(signal === value, 'wrong_constant', `the scheme fixes this signal at ${value}`);
    if (role === 'expires_at') {
      const isTime = BigInt(signal) <= LAST_SECOND;
      check(isTime, 'wrong_expiry', 'this is not a time in seconds since the epoch');
      if (isTime) statement.expires_at = new Date(Number(signal) * 1000).toISOString();
    }
  }
  if (errors.length > 0) {
    const detail = `${errors[0]!.message} at ${errors[0]!.pointer}`;
    throw new Problem('public_signal_mismatch', detail, { errors });
  }
  return statement;
}

/** A verification by proof, as it is granted. */
type ProvenGrant = Omit<Decoded<typeof verificationGranted>['data'], 'operator'> & { expires_at: string };

/** The evidence hash covers the statement, not the proof: anyone can derive further proofs of the same statement. */
export function grantOf(scheme: Scheme, trisId: string, signals: readonly string[], expiresAt: string): ProvenGrant {
  const { status, issuer, scheme: id, verification_key_hash } = scheme;
  const evidence_hash = sha256Hex(canonicalJson({ verification_key_hash, public_signals: [...signals] }));
  return { tris_id: trisId, status, issuer, scheme: id, expires_at: expiresAt, evidence_hash };
}

/**
 * What a proven statement changes about an identity, given its `identity-<tris>` stream: nothing if it holds the same
 * or a longer verification by this scheme; otherwise the verification is granted or extended. After a revocation only a
 * credential that ends later than all earlier ones is accepted, so that repeating a proof does not undo it.
 * @param now ms since the epoch
 * @throws Problem proof_expired, verification_revoked
 */
export function decideProven(history: readonly RecordedEvent[], grant: ProvenGrant, now: number): Fact[] {
  if (Date.parse(grant.expires_at) <= now) {
    const detail = `The proven credential expired at ${grant.expires_at}. Ask the issuer for a new one.`;
    throw new Problem('proof_expired', detail);
  }
  const isThis = (other: { status: string; issuer: string; scheme: string }) =>
    other.status === grant.status && other.issuer === grant.issuer && other.scheme === grant.scheme;
  const held = operatorStateOf(history).verifications.find(isThis);
  if (held?.expires_at && held.expires_at >= grant.expires_at) return [];
  const before = history
    .map(decodeStatement)
    .flatMap((event) => (event.type === 'VerificationGranted' && isThis(event.data) ? [event.data.expires_at] : []));
  if (before.some((expiry) => expiry !== null && expiry >= grant.expires_at)) {
    const detail = 'This verification was revoked. A new one requires a credential that expires later.';
    throw new Problem('verification_revoked', detail);
  }
  return [fact(verificationGranted, { ...grant, operator: false })];
}
