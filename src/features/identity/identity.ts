import { type GrantFilter, type IdentityState, evolve, isGrant, newIdentity } from '../../../projections/identities.js';
import { subjectOf } from '../../../projections/identity-events.js';
import type { RecordedEvent } from '../../kernel/event.js';
import { type Fact, fact } from '../../commands/writer.js';
import { decodeEvent } from '../../../projections/events.js';
import { Problem } from '../../kernel/problems.js';
import {
  type GRANTABLE_STATUSES,
  badStatusCleared,
  badStatusSet,
  verificationGranted,
  verificationRevoked,
} from './identity.events.js';

export type GrantableStatus = (typeof GRANTABLE_STATUSES)[number];

/** What operators state about an identity: its BAD status and the verifications they granted. */
export type OperatorState = Pick<IdentityState, 'bad_status' | 'verifications'>;

export interface Grant {
  status: GrantableStatus;
  issuer: string;
  /** ISO 8601 UTC, or null: does not expire. */
  expires_at: string | null;
  /** SHA-256 of the evidence, hex. */
  evidence_hash: string;
}

export function identityStream(trisId: string): string {
  return `identity-${trisId}`;
}

/** Folds an `identity-<tris>` stream. What cannot be read marks the identity, and is passed over here: see `organizationOf`. */
export function operatorStateOf(history: readonly RecordedEvent[]): OperatorState {
  const state = newIdentity();
  for (const recorded of history) {
    const subject = subjectOf(decodeEvent(recorded));
    if (subject) evolve(state, subject.event);
  }
  return state;
}

/** Setting what is set already changes nothing. */
export function decideSetBadStatus(state: OperatorState, trisId: string, level: number, reasonCode: string): Fact[] {
  if (state.bad_status?.level === level && state.bad_status.reason_code === reasonCode) return [];
  return [fact(badStatusSet, { tris_id: trisId, level, reason_code: reasonCode })];
}

export function decideClearBadStatus(state: OperatorState, trisId: string): Fact[] {
  return state.bad_status === null ? [] : [fact(badStatusCleared, { tris_id: trisId })];
}

/**
 * A grant replaces the one of the same status and issuer, so that its expiry can be moved.
 * @param now ms: the grant must not have expired by then
 * @throws Problem validation_failed
 */
export function decideGrant(trisId: string, grant: Grant, now: number): Fact[] {
  if (grant.expires_at !== null && Date.parse(grant.expires_at) <= now) {
    const message = `expires_at must be in the future; it is ${new Date(now).toISOString()} here`;
    throw new Problem('validation_failed', message, {
      errors: [{ pointer: '/expires_at', code: 'in_the_past', message }],
    });
  }
  return [fact(verificationGranted, { tris_id: trisId, scheme: 'operator', ...grant })];
}

export function decideRevoke(
  state: OperatorState,
  trisId: string,
  grants: GrantFilter & { status: GrantableStatus },
): Fact[] {
  const held = state.verifications.some((grant) => isGrant(grant, grants));
  return held ? [fact(verificationRevoked, { tris_id: trisId, ...grants })] : [];
}
