import type { RecordedEvent } from '../../../kernel/event.js';
import { type Decoded, decoderFor, type Fact, fact } from '../../../kernel/event-definition.js';
import { organizationRegistered, organizationVetted, organizationVettingRevoked } from './organizations.events.js';

/** The state of an organization. */
export interface Organization {
  /** ms since the epoch; null: not registered. */
  registered_at: number | null;
  vetted: boolean;
}

export function organizationStream(trisOrg: string): string {
  return `organization-${trisOrg}`;
}

const EVENTS = [organizationRegistered, organizationVetted, organizationVettingRevoked] as const;
type OrganizationEvent = Decoded<(typeof EVENTS)[number]>;
const decode = decoderFor(EVENTS);

/**
 * Folds an `organization-<tris>` stream. Undecodable events are skipped: they mark the organization's identity as
 * incomplete until an operator acknowledges them, and later events do not depend on them.
 */
export function organizationOf(history: readonly RecordedEvent[]): Organization {
  let organization: Organization = { registered_at: null, vetted: false };
  for (const event of history.map(decode)) {
    if (event.type !== 'Undecodable') organization = evolve(organization, event);
  }
  return organization;
}

function evolve(organization: Organization, event: OrganizationEvent): Organization {
  switch (event.type) {
    case 'OrganizationRegistered':
      return { ...organization, registered_at: event.recorded_at };
    case 'OrganizationVetted':
      return { ...organization, vetted: true };
    case 'OrganizationVettingRevoked':
      return { ...organization, vetted: false };
    default:
      return event satisfies never;
  }
}

export function decideRegister(organization: Organization, trisOrg: string): Fact[] {
  return organization.registered_at === null ? [fact(organizationRegistered, { tris_org: trisOrg })] : [];
}

/** Does nothing if the organization already has this status. */
export function decideVetting(organization: Organization, trisOrg: string, vetted: boolean): Fact[] {
  if (organization.vetted === vetted) return [];
  return [fact(vetted ? organizationVetted : organizationVettingRevoked, { tris_org: trisOrg })];
}
