import type { RecordedEvent } from '../../../kernel/event.js';
import { decoderFor, type Fact, fact } from '../../../kernel/event-definition.js';
import { organizationRegistered, organizationVetted, organizationVettingRevoked } from './organizations.events.js';

/** The state of an organization. */
export interface Organization {
  /** ms since the epoch; null: not registered. */
  registered_at: number | null;
  vetted: boolean;
}

export const organizationStream = (trisOrg: string): string => `organization-${trisOrg}`;

const decode = decoderFor([organizationRegistered, organizationVetted, organizationVettingRevoked]);

/**
 * Folds an `organization-<tris>` stream. Undecodable events are skipped: they mark the organization's identity as
 * incomplete until an operator acknowledges them, and later events do not depend on them.
 */
export function organizationOf(history: readonly RecordedEvent[]): Organization {
  const organization: Organization = { registered_at: null, vetted: false };
  for (const { type, recorded_at } of history.map(decode)) {
    if (type === 'OrganizationRegistered') organization.registered_at = recorded_at;
    if (type === 'OrganizationVetted') organization.vetted = true;
    if (type === 'OrganizationVettingRevoked') organization.vetted = false;
  }
  return organization;
}

export const decideRegister = (organization: Organization, trisOrg: string): Fact[] =>
  organization.registered_at === null ? [fact(organizationRegistered, { tris_org: trisOrg })] : [];

/** Does nothing if the organization already has this status. */
export function decideVetting(organization: Organization, trisOrg: string, vetted: boolean): Fact[] {
  if (organization.vetted === vetted) return [];
  return [fact(vetted ? organizationVetted : organizationVettingRevoked, { tris_org: trisOrg })];
}
