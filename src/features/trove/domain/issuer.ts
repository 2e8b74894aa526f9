import { type Decoded, type Fact, fact, streamFold } from '../../../kernel/event-definition.js';
import { canonicalJson } from '../../../kernel/hash.js';
import { fieldProblem } from '../../../kernel/problems.js';
import { issuerRegistered, issuerRetired } from './trove.events.js';

const EVENTS = [issuerRegistered, issuerRetired] as const;
type IssuerEvent = Decoded<(typeof EVENTS)[number]>;

type Registered = Extract<IssuerEvent, { type: 'IssuerRegistered' }>['data'];
export type IssuerContent = Omit<Registered, 'eas_domain'> & { eas_domain?: NonNullable<Registered['eas_domain']> };
export interface Issuer extends Registered {
  retired: boolean;
}

export const issuerStream = (issuerId: string): string => `issuer-${issuerId}`;

/** Folds an `issuer-<id>` stream. @throws Problem history_unreadable */
export const issuerOf = streamFold(EVENTS, evolve);

function evolve(issuer: Issuer | undefined, event: IssuerEvent): Issuer | undefined {
  switch (event.type) {
    case 'IssuerRegistered':
      return { ...event.data, retired: false };
    case 'IssuerRetired':
      return issuer && { ...issuer, retired: true };
    default:
      return event satisfies never;
  }
}

/** An issuer cannot be changed; a new key requires a new issuer. @throws Problem issuer_conflict */
export function decideRegister(issuer: Issuer | undefined, content: IssuerContent): Fact[] {
  const registered = { ...content, eas_domain: content.eas_domain ?? null };
  if (!issuer) return [fact(issuerRegistered, registered)];
  if (canonicalJson(issuer) === canonicalJson({ ...registered, retired: issuer.retired })) return [];
  const message = 'exists with another key, platform or domain';
  throw fieldProblem('/issuer_id', 'issuer_conflict', message, `${content.issuer_id} ${message}.`);
}

/** Its proofs are no longer trusted; approved records stay approved. */
export const decideRetire = (issuer: Issuer): Fact[] =>
  issuer.retired ? [] : [fact(issuerRetired, { issuer_id: issuer.issuer_id })];
