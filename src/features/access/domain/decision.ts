import { type Decoded, type Fact, fact, streamDecoderFor } from '../../../kernel/event-definition.js';
import type { RecordedEvent } from '../../../kernel/event.js';
import { accessChecked, eligibilityRevoked } from './ap.events.js';

/** The id of a decision, and of its token if it granted. */
export const JTI = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** Stream of a decision. */
export function accessStream(jti: string): string {
  return `access-${jti}`;
}

/** When a decision was made, ms: its facts may be of a later time, if the clock that recorded one of them was ahead. */
export function checkedAt({ as_of }: { as_of: string }, occurredAt: number): number {
  return Math.min(Date.parse(as_of), occurredAt);
}

/** A decision as it was recorded, and whether its token was revoked since. */
export interface RecordedDecision {
  event: Decoded<typeof accessChecked>;
  /** Who asked. */
  actor: string;
  revoked: boolean;
}

const decode = streamDecoderFor([accessChecked, eligibilityRevoked]);

/** Reads an `access-<jti>` stream; undefined if it is empty. @throws Problem history_unreadable */
export function decisionOf(history: readonly RecordedEvent[]): RecordedDecision | undefined {
  const [event, ...later] = decode(history);
  if (event?.type !== 'AccessChecked') return undefined;
  const { actor } = history[0]!.metadata;
  return { event, actor, revoked: later.some(({ type }) => type === 'EligibilityRevoked') };
}

/** The recorded decision, if it is a grant: a denial has no token. */
export function grantOf(history: readonly RecordedEvent[]): RecordedDecision | undefined {
  const decision = decisionOf(history);
  return decision?.event.data.granted ? decision : undefined;
}

/** Does nothing if the token is already revoked. */
export function decideRevoke({ event, revoked }: RecordedDecision): Fact[] {
  return revoked ? [] : [fact(eligibilityRevoked, { jti: event.data.jti })];
}
