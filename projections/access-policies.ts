import { type Projection, type Rows, keysOf, rowIn } from './projection.js';

/** An access policy, as listed; its rules are in its own stream. */
export interface AccessPolicyRow {
  policy_id: string;
  /** TRIS of the owner; null: the platform's operators. */
  tris_org: string | null;
  content_hash: string;
  ttl_seconds: number;
  vp: string | null;
  visibility: 'public' | 'private';
  /** ms since the epoch. */
  created_at: number;
  retired: boolean;
}

/** Access policies by id, and `access_policies.organization`: those of each organization. */
export const accessPolicies: Projection = {
  name: 'access_policies',
  version: 2,
  views: ['access_policies', 'access_policies.organization'],

  reads: (event) => (event.type === 'AccessPolicyRetired' ? [accessPolicyRow(event.data.policy_id)] : []),

  apply(event, rows) {
    if (event.type === 'AccessPolicyCreated') {
      const { policy_id, owner, content_hash, ttl_seconds, vp, visibility } = event.data;
      const created_at = event.recorded_at;
      const row = { policy_id, tris_org: owner, content_hash, ttl_seconds, vp, visibility, created_at, retired: false };
      put(row, rows);
    }
    if (event.type === 'AccessPolicyRetired') {
      const policy = rows.get<AccessPolicyRow>(accessPolicyRow(event.data.policy_id));
      if (policy) put({ ...policy, retired: true }, rows);
    }
  },
};

function put(policy: AccessPolicyRow, rows: Rows): void {
  rows.put(accessPolicyRow(policy.policy_id), policy);
  if (policy.tris_org !== null) rows.put(rowIn(accessPoliciesOf(policy.tris_org), policy.policy_id), policy);
}

export const ACCESS_POLICIES = { view: 'access_policies', key: 'all' };

const accessPolicyRow = (policyId: string) => rowIn(ACCESS_POLICIES, policyId);
export const accessPoliciesOf = keysOf('access_policies.organization');
