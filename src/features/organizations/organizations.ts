import type { RecordedEvent } from '../../kernel/event.js';
import { type Fact, fact } from '../../commands/writer.js';
import { decodeEvent } from '../../../projections/events.js';
import { organizationRegistered, organizationVetted, organizationVettingRevoked } from './organizations.events.js';

/** An organization as its stream tells. */
export interface Organization {
  /** ms since the epoch; null: not registered. */
  registered_at: number | null;
  vetted: boolean;
}

export function organizationStream(trisOrg: string): string {
  return `organization-${trisOrg}`;
}

/**
 * Folds an `organization-<tris>` stream. What cannot be read is passed over: it marks the organization's identity until
 * an operator acknowledges it, and the next statement about the organization stands for itself.
 */
export function organizationOf(history: readonly RecordedEvent[]): Organization {
  const organization: Organization = { registered_at: null, vetted: false };
  for (const event of history.map(decodeEvent)) {
    if (event.type === 'OrganizationRegistered') organization.registered_at = event.recorded_at;
    if (event.type === 'OrganizationVetted') organization.vetted = true;
    if (event.type === 'OrganizationVettingRevoked') organization.vetted = false;
  }
  return organization;
}

export function decideRegister(organization: Organization, trisOrg: string): Fact[] {
  return organization.registered_at === null ? [fact(organizationRegistered, { tris_org: trisOrg })] : [];
}

/** Vetting what is vetted, or revoking what is not, changes nothing. */
export function decideVetting(organization: Organization, trisOrg: string, vetted: boolean): Fact[] {
  if (organization.vetted === vetted) return [];
  return [fact(vetted ? organizationVetted : organizationVettingRevoked, { tris_org: trisOrg })];
}
