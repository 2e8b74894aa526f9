import { isAnyOf } from './events.js';
import { type Projection, keysOf, rowIn } from './projection.js';

/** A registered organization, as listed. Times in ms. */
export interface OrganizationRow {
  tris_org: string;
  registered_at: number;
  vetted: boolean;
}

const isOfVetting = isAnyOf('OrganizationVetted', 'OrganizationVettingRevoked');

/** Organizations by TRIS id, and `organizations.platforms`: the platforms of each. */
export const organizations: Projection = {
  name: 'organizations',
  version: 1,
  views: ['organizations', 'organizations.platforms'],

  reads: (event) => (isOfVetting(event) ? [organizationRow(event.data.tris_org)] : []),

  apply(event, rows) {
    if (event.type === 'OrganizationRegistered') {
      const { tris_org } = event.data;
      const organization: OrganizationRow = { tris_org, registered_at: event.recorded_at, vetted: false };
      rows.put(organizationRow(tris_org), organization);
    }
    if (isOfVetting(event)) {
      const row = organizationRow(event.data.tris_org);
      const organization = rows.get<OrganizationRow>(row);
      if (organization) rows.put(row, { ...organization, vetted: event.type === 'OrganizationVetted' });
    }
    if (event.type === 'PlatformRegistered') {
      const { platform_id, tris_org } = event.data;
      rows.put(rowIn(platformsOf(tris_org), platform_id), event.recorded_at);
    }
  },
};

export const ORGANIZATIONS = { view: 'organizations', key: 'all' };

export const organizationRow = (trisOrg: string) => rowIn(ORGANIZATIONS, trisOrg);
export const platformsOf = keysOf('organizations.platforms');
