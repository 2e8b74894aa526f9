import { type Projection, keysOf, rowIn } from './projection.js';

/** A registered organization, as listed. Times in ms. */
export interface OrganizationRow {
  tris_org: string;
  registered_at: number;
  vetted: boolean;
}

/** Organizations by TRIS id, and `organizations.platforms`: the platforms of each. */
export const organizations: Projection = {
  name: 'organizations',
  version: 1,
  views: ['organizations', 'organizations.platforms'],

  reads(event) {
    const isVetting = event.type === 'OrganizationVetted' || event.type === 'OrganizationVettingRevoked';
    return isVetting ? [organizationRow(event.data.tris_org)] : [];
  },

  apply(event, rows) {
    switch (event.type) {
      case 'OrganizationRegistered': {
        const { tris_org } = event.data;
        const organization: OrganizationRow = { tris_org, registered_at: event.recorded_at, vetted: false };
        rows.put(organizationRow(tris_org), organization);
        break;
      }
      case 'OrganizationVetted':
      case 'OrganizationVettingRevoked': {
        const row = organizationRow(event.data.tris_org);
        const organization = rows.get<OrganizationRow>(row);
        if (organization) rows.put(row, { ...organization, vetted: event.type === 'OrganizationVetted' });
        break;
      }
      case 'PlatformRegistered': {
        const { platform_id, tris_org } = event.data;
        rows.put(rowIn(platformsOf(tris_org), platform_id), event.recorded_at);
        break;
      }
    }
  },
};

export const ORGANIZATIONS = { view: 'organizations', key: 'all' };

export const organizationRow = (trisOrg: string) => rowIn(ORGANIZATIONS, trisOrg);
export const platformsOf = keysOf('organizations.platforms');
