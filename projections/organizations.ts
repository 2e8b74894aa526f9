import { type Projection, type Rows, keysOf, rowIn } from './projection.js';

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
    switch (event.type) {
      case 'OrganizationVetted':
      case 'OrganizationVettingRevoked':
        return [organizationRow(event.data.tris_org)];
      default:
        return [];
    }
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
        setVetted(rows, event.data.tris_org, true);
        break;
      case 'OrganizationVettingRevoked':
        setVetted(rows, event.data.tris_org, false);
        break;
      case 'PlatformRegistered': {
        const { platform_id, tris_org } = event.data;
        rows.put(rowIn(platformsOf(tris_org), platform_id), event.recorded_at);
        break;
      }
    }
  },
};

function setVetted(rows: Rows, trisOrg: string, vetted: boolean): void {
  const organization = rows.get<OrganizationRow>(organizationRow(trisOrg));
  if (organization) rows.put(organizationRow(trisOrg), { ...organization, vetted });
}

export const ORGANIZATIONS = { view: 'organizations', key: 'all' };

export const organizationRow = (trisOrg: string) => rowIn(ORGANIZATIONS, trisOrg);
export const platformsOf = keysOf('organizations.platforms');
