import type { RecordedEvent } from '../../../kernel/event.js';
import { type Decoded, type Fact, fact, hashedStream, streamDecoderFor } from '../../../kernel/event-definition.js';
import type { GrantableStatus, Verification } from './identity.js';
import { accreditationWithdrawn, issuerAccredited } from './accreditation.events.js';

/** The statuses that an issuer is or was accredited for, with the range of log positions of each accreditation. */
export interface Accreditation {
  issuer: string;
  /** `to`: the position of the withdrawal; null: not withdrawn. */
  spans: { status: GrantableStatus; from: number; to: number | null }[];
}

export function accreditationStream(issuer: string): string {
  return hashedStream('accreditation', issuer);
}

const EVENTS = [issuerAccredited, accreditationWithdrawn] as const;
type AccreditationEvent = Decoded<(typeof EVENTS)[number]>;
const decode = streamDecoderFor(EVENTS);

/** Folds an `accreditation-<hash>` stream. @throws Problem history_unreadable */
export function accreditationOf(history: readonly RecordedEvent[]): Accreditation | undefined {
  return decode(history).reduce(evolve, undefined as Accreditation | undefined);
}

/** Applies one event. The read model uses it too. */
export function evolve(before: Accreditation | undefined, event: AccreditationEvent): Accreditation {
  const { issuer, statuses } = event.data;
  const ended = (before?.spans ?? []).map((span) =>
    span.to === null && statuses.includes(span.status) ? { ...span, to: event.position } : span,
  );
  if (event.type === 'AccreditationWithdrawn') return { issuer, spans: ended };
  return { issuer, spans: [...ended, ...statuses.map((status) => ({ status, from: event.position, to: null }))] };
}

/** The statuses that it is accredited for now. */
export function statusesOf(accreditation: Accreditation | undefined): GrantableStatus[] {
  return (accreditation?.spans ?? []).filter(({ to }) => to === null).map(({ status }) => status);
}

/** Does nothing for statuses that the issuer is already accredited for. */
export function decideAccredit(
  accreditation: Accreditation | undefined,
  issuer: string,
  statuses: readonly GrantableStatus[],
): Fact[] {
  const known = statusesOf(accreditation);
  const added = statuses.filter((status) => !known.includes(status));
  return added.length === 0 ? [] : [fact(issuerAccredited, { issuer, statuses: added })];
}

/** @param statuses null: all that the issuer is accredited for */
export function decideWithdraw(
  accreditation: Accreditation | undefined,
  issuer: string,
  statuses: readonly GrantableStatus[] | null,
): Fact[] {
  const ended = statusesOf(accreditation).filter((status) => statuses?.includes(status) ?? true);
  return ended.length === 0 ? [] : [fact(accreditationWithdrawn, { issuer, statuses: ended })];
}

/**
 * Whether a verification counts for a policy that names no issuer. Proofs and operators' grants always count, other
 * grants while their issuer is accredited for the status.
 * @param position the position that the answer is as of
 */
export function isTrusted(
  { status, scheme, operator }: Verification,
  accreditation: Accreditation | undefined,
  position: number,
): boolean {
  if (scheme !== 'operator' || operator) return true;
  return (accreditation?.spans ?? []).some(
    (span) => span.status === status && span.from <= position && (span.to === null || position < span.to),
  );
}
