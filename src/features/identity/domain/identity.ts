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

/** Selects grants of a status. null: any issuer, any scheme. */
type GrantFilter = Omit<Decoded<typeof verificationRevoked>['data'], 'tris_id'>;

/** What an operator, or an organization by a key, states about an identity. */
export type Statement =
  | { kind: 'set_bad_status'; level: number; reason_code: string }
  | { kind: 'clear_bad_status' }
  | { kind: 'grant'; grant: Omit<Decoded<typeof verificationGranted>['data'], 'tris_id' | 'scheme' | 'operator'> }
  | { kind: 'revoke'; grants: GrantFilter };

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

function isGrant(held: Verification, { status, issuer, scheme }: GrantFilter): boolean {
  return (
    held.status === status && (issuer === null || held.issuer === issuer) && (scheme === null || held.scheme === scheme)
  );
}

/**
 * Does nothing if a statement changes nothing. A grant replaces the one of the same status, issuer and scheme, so that its
 * expiry can be changed.
 * @param operator whether an operator's key grants it
 * @param now ms: a grant must not have expired by then
 * @throws Problem validation_failed
 */
export function decideStatement(
  { bad_status, verifications }: OperatorState,
  tris_id: string,
  statement: Statement,
  operator: boolean,
  now: number,
): Fact[] {
  switch (statement.kind) {
    case 'set_bad_status': {
      const { level, reason_code } = statement;
      const isSet = bad_status?.level === level && bad_status.reason_code === reason_code;
      return isSet ? [] : [fact(badStatusSet, { tris_id, level, reason_code })];
    }
    case 'clear_bad_status':
      return bad_status === null ? [] : [fact(badStatusCleared, { tris_id })];
    case 'grant': {
      const { expires_at } = statement.grant;
      if (expires_at !== null && Date.parse(expires_at) <= now) {
        const message = `expires_at must be in the future; the server's time is ${new Date(now).toISOString()}`;
        throw fieldProblem('/expires_at', 'in_the_past', message);
      }
      return [fact(verificationGranted, { tris_id, scheme: 'operator', ...statement.grant, operator })];
    }
    case 'revoke': {
      const isHeld = verifications.some((held) => isGrant(held, statement.grants));
      return isHeld ? [fact(verificationRevoked, { tris_id, ...statement.grants })] : [];
    }
  }
}
