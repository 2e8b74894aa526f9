import type { RecordedEvent } from '../../../kernel/event.js';
import { type Decoded, decoderFor, type Fact, fact } from '../../../kernel/event-definition.js';
import { fieldProblem } from '../../../kernel/problems.js';
import {
  type GRANTABLE_STATUSES,
  badStatusCleared,
  badStatusSet,
  verificationGranted,
  verificationRevoked,
} from './identity.events.js';

export type GrantableStatus = (typeof GRANTABLE_STATUSES)[number];

export interface Verification {
  status: string;
  issuer: string;
  scheme: string;
  /** Granted by an operator's key. */
  operator: boolean;
  /** ISO 8601 UTC, or null: does not expire. */
  expires_at: string | null;
}

/** An operator's explicit status; overrides the computed score. `since` in ms. */
export interface BadStatus {
  level: number;
  reason_code: string;
  since: number;
}

/** State of an identity's own stream: its BAD status and its verifications. */
export interface OperatorState {
  bad_status: BadStatus | null;
  verifications: Verification[];
}

/** A grant by a key. */
export type Grant = Omit<Decoded<typeof verificationGranted>['data'], 'tris_id' | 'scheme'>;

export function identityStream(trisId: string): string {
  return `identity-${trisId}`;
}

const EVENTS = [badStatusSet, badStatusCleared, verificationGranted, verificationRevoked] as const;
/** The events of an `identity-<tris>` stream. */
export type StatementEvent = Decoded<(typeof EVENTS)[number]>;
export const decodeStatement = decoderFor(EVENTS);

export const NOTHING_STATED: OperatorState = { bad_status: null, verifications: [] };

/** Folds an `identity-<tris>` stream. Undecodable events are skipped; they mark the identity as incomplete. */
export function operatorStateOf(history: readonly RecordedEvent[], before = NOTHING_STATED): OperatorState {
  const state = { ...before };
  for (const event of history.map(decodeStatement)) if (event.type !== 'Undecodable') evolve(state, event);
  return state;
}

/** Applies one statement, in place. The read model of identities uses it too. */
export function evolve(state: OperatorState, event: StatementEvent): void {
  switch (event.type) {
    case 'BadStatusSet': {
      const { level, reason_code } = event.data;
      state.bad_status = { level, reason_code, since: event.recorded_at };
      break;
    }
    case 'BadStatusCleared':
      state.bad_status = null;
      break;
    case 'VerificationGranted': {
      const { status, issuer, scheme, operator, expires_at } = event.data;
      const others = state.verifications.filter(
        (held) => held.status !== status || held.issuer !== issuer || held.scheme !== scheme,
      );
      state.verifications = [...others, { status, issuer, scheme, operator, expires_at }];
      break;
    }
    case 'VerificationRevoked':
      state.verifications = state.verifications.filter((held) => !isGrant(held, event.data));
      break;
    default:
      event satisfies never;
  }
}

/** Selects grants of a status. null: any issuer, any scheme. */
export interface GrantFilter {
  status: GrantableStatus;
  issuer: string | null;
  scheme: string | null;
}

export function isGrant(held: Verification, { status, issuer, scheme }: GrantFilter): boolean {
  return (
    held.status === status && (issuer === null || held.issuer === issuer) && (scheme === null || held.scheme === scheme)
  );
}

/** Does nothing if the status is already set. */
export function decideSetBadStatus(state: OperatorState, trisId: string, level: number, reasonCode: string): Fact[] {
  if (state.bad_status?.level === level && state.bad_status.reason_code === reasonCode) return [];
  return [fact(badStatusSet, { tris_id: trisId, level, reason_code: reasonCode })];
}

export function decideClearBadStatus(state: OperatorState, trisId: string): Fact[] {
  return state.bad_status === null ? [] : [fact(badStatusCleared, { tris_id: trisId })];
}

/**
 * A grant replaces the one of the same status, issuer and scheme, so that its expiry can be changed.
 * @param now ms: the grant must not have expired by then
 * @throws Problem validation_failed
 */
export function decideGrant(trisId: string, grant: Grant, now: number): Fact[] {
  if (grant.expires_at !== null && Date.parse(grant.expires_at) <= now) {
    const message = `expires_at must be in the future; the server's time is ${new Date(now).toISOString()}`;
    throw fieldProblem('/expires_at', 'in_the_past', message);
  }
  return [fact(verificationGranted, { tris_id: trisId, scheme: 'operator', ...grant })];
}

export function decideRevoke(state: OperatorState, trisId: string, grants: GrantFilter): Fact[] {
  const held = state.verifications.some((grant) => isGrant(grant, grants));
  return held ? [fact(verificationRevoked, { tris_id: trisId, ...grants })] : [];
}
