import { type Decoded, type Fact, fact, streamFold } from '../../../kernel/event-definition.js';
import { fieldProblem } from '../../../kernel/problems.js';
import { type EasDomain, issuerRegistered, issuerRetired } from './trove.events.js';

const EVENTS = [issuerRegistered, issuerRetired] as const;
type IssuerEvent = Decoded<(typeof EVENTS)[number]>;

type Registered = Extract<IssuerEvent, { type: 'IssuerRegistered' }>['data'];
export type IssuerContent = Omit<Registered, 'eas_domain'> & { eas_domain?: EasDomain };
export interface Issuer extends Registered {
  retired: boolean;
}

export function issuerStream(issuerId: string): string {
  return `issuer-${issuerId}`;
}

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
  if (!issuer) return [fact(issuerRegistered, { ...content, eas_domain: content.eas_domain ?? null })];
  const same = (['platform_id', 'ed25519', 'address'] as const).every((field) => issuer[field] === content[field]);
  const [own, asked] = [issuer.eas_domain, content.eas_domain];
  const sameDomain = own?.chain_id === asked?.chain_id && own?.verifying_contract === asked?.verifying_contract;
  if (same && sameDomain) return [];
  const message = 'exists with another key, platform or domain';
  throw fieldProblem('/issuer_id', 'issuer_conflict', message, `${content.issuer_id} ${message}.`);
}

/** Its proofs are no longer trusted; approved records stay approved. */
export function decideRetire(issuer: Issuer): Fact[] {
  return issuer.retired ? [] : [fact(issuerRetired, { issuer_id: issuer.issuer_id })];
}
