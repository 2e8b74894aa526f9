import type { RecordedEvent } from '../../kernel/event.js';
import { type Fact, fact } from '../../commands/writer.js';
import { type EventOf, decodeStream } from '../../../projections/events.js';
import { eligibilityRevoked } from './eligibility.events.js';

/** The form of a token's id. */
export const JTI = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** What became of a decision that granted. */
export interface Issued {
  decision: EventOf<'AccessChecked'>['data'];
  revoked: boolean;
}

/** Folds an `access-<jti>` stream; undefined if no token was issued in it. @throws Problem history_unreadable */
export function issuedOf(history: readonly RecordedEvent[]): Issued | undefined {
  let issued: Issued | undefined;
  for (const event of decodeStream(history)) {
    if (event.type === 'AccessChecked' && event.data.granted) issued = { decision: event.data, revoked: false };
    if (event.type === 'EligibilityRevoked' && issued) issued.revoked = true;
  }
  return issued;
}

/** Revoking what is revoked changes nothing. */
export function decideRevoke({ decision, revoked }: Issued): Fact[] {
  return revoked ? [] : [fact(eligibilityRevoked, { jti: decision.jti })];
}
