import type { Position } from '../../../kernel/event.js';
import { type Decoded, type Fact, fact, hashedStream, streamFold } from '../../../kernel/event-definition.js';
import type { GrantableStatus, Verification } from './identity.js';
import { accreditationWithdrawn, issuerAccredited } from './accreditation.events.js';

/** The statuses that an issuer is or was accredited for, and when each accreditation began and ended. */
export interface Accreditation {
  issuer: string;
  /** `to`: the withdrawal; null: not withdrawn. */
  spans: { status: GrantableStatus; from: Change; to: Change | null }[];
}
/** `recorded_at` in ms. */
interface Change {
  position: Position;
  recorded_at: number;
}

export function accreditationStream(issuer: string): string {
  return hashedStream('accreditation', issuer);
}

const EVENTS = [issuerAccredited, accreditationWithdrawn] as const;
type AccreditationEvent = Decoded<(typeof EVENTS)[number]>;

/** Folds an `accreditation-<hash>` stream. @throws Problem history_unreadable */
export const accreditationOf = streamFold(EVENTS, evolve);

/** Applies one event. The read model uses it too. */
export function evolve(before: Accreditation | undefined, event: AccreditationEvent): Accreditation {
  const { issuer, statuses } = event.data;
  const { position, recorded_at } = event;
  const change: Change = { position, recorded_at };
  const ended = (before?.spans ?? []).map((span) =>
    span.to === null && statuses.includes(span.status) ? { ...span, to: change } : span,
  );
  if (event.type === 'AccreditationWithdrawn') return { issuer, spans: ended };
  return { issuer, spans: [...ended, ...statuses.map((status) => ({ status, from: change, to: null }))] };
}

/** The statuses that it is accredited for now. */
export function statusesOf(accreditation: Accreditation | undefined): GrantableStatus[] {
  return (accreditation?.spans ?? []).filter(({ to }) => to === null).map(({ status }) => status);
}

/** The statuses for which an issuer is accredited, or no longer; null: all that it is accredited for. */
export type AccreditationChange =
  { accredit: readonly GrantableStatus[] } | { withdraw: readonly GrantableStatus[] | null };

/** Does nothing for statuses that the issuer is accredited for, or not accredited for, already. */
export function decideAccreditation(
  accreditation: Accreditation | undefined,
  issuer: string,
  change: AccreditationChange,
): Fact[] {
  const known = statusesOf(accreditation);
  const [definition, statuses] =
    'accredit' in change
      ? [issuerAccredited, change.accredit.filter((status) => !known.includes(status))]
      : [accreditationWithdrawn, known.filter((status) => change.withdraw?.includes(status) ?? true)];
  return statuses.length === 0 ? [] : [fact(definition, { issuer, statuses })];
}

/**
 * Whether a verification counts for a policy that names no issuer. Proofs and operators' grants always count, other
 * grants while their issuer is accredited for the status.
 * @param position the position that the answer is as of
 */
export function isTrusted(
  { status, scheme, operator }: Verification,
  accreditation: Accreditation | undefined,
  position: Position,
): boolean {
  if (scheme !== 'operator' || operator) return true;
  return (accreditation?.spans ?? []).some(
    ({ status: accredited, from, to }) =>
      accredited === status && from.position <= position && (to === null || position < to.position),
  );
}

/** Position of the last change that was recorded by a time (ms) and precedes a position; 0 if there is none. */
export function lastChange(accreditation: Accreditation | undefined, time: number, before: Position): Position {
  const changes = (accreditation?.spans ?? []).flatMap(({ from, to }) => (to ? [from, to] : [from]));
  const known = changes.filter((change) => change.recorded_at <= time && change.position < before);
  return Math.max(0, ...known.map(({ position }) => position));
}
