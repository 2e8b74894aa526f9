import type { RecordedEvent } from '../../../kernel/event.js';
import { type Decoded, type Fact, fact, streamDecoderFor } from '../../../kernel/event-definition.js';
import { type AccessDecision, accessChecked } from './ap.events.js';
import { eligibilityRevoked } from './eligibility.events.js';

/** The format of a token's id. */
export const JTI = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** A decision that granted, and whether its token was revoked. */
export interface Issued {
  decision: AccessDecision;
  revoked: boolean;
}

const EVENTS = [accessChecked, eligibilityRevoked] as const;
const decode = streamDecoderFor(EVENTS);

/** Folds an `access-<jti>` stream; undefined if no token was issued in it. @throws Problem history_unreadable */
export function issuedOf(history: readonly RecordedEvent[]): Issued | undefined {
  return decode(history).reduce(evolve, undefined as Issued | undefined);
}

function evolve(issued: Issued | undefined, event: Decoded<(typeof EVENTS)[number]>): Issued | undefined {
  switch (event.type) {
    case 'AccessChecked':
      return event.data.granted ? { decision: event.data, revoked: false } : issued;
    case 'EligibilityRevoked':
      return issued && { ...issued, revoked: true };
    default:
      return event satisfies never;
  }
}

/** Does nothing if the token is already revoked. */
export function decideRevoke({ decision, revoked }: Issued): Fact[] {
  return revoked ? [] : [fact(eligibilityRevoked, { jti: decision.jti })];
}
