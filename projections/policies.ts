import { type Projection, type Rows, keysOf, rowIn } from './projection.js';

/** A validation policy, as listed; its inputs are in its own stream. */
export interface PolicyRow {
  policy_id: string;
  tris_org: string;
  content_hash: string;
  version: string;
  /** ms since the epoch. */
  created_at: number;
  retired: boolean;
}

/**
 * Validation policies by id; `policies.organization`: those of each organization; `policies.metrics`: every metric
 * that has a weight in some policy.
 */
export const policies: Projection = {
  name: 'policies',
  version: 1,
  views: ['policies', 'policies.organization', 'policies.metrics'],

  reads: (event) => (event.type === 'ValidationPolicyRetired' ? [policyRow(event.data.policy_id)] : []),

  apply(event, rows) {
    if (event.type === 'ValidationPolicyCreated') {
      const { policy_id, tris_org, content_hash, inputs, metadata } = event.data;
      const { version } = metadata;
      put({ policy_id, tris_org, content_hash, version, created_at: event.recorded_at, retired: false }, rows);
      for (const { metric } of inputs) rows.put(policyMetricRow(metric), true);
    }
    if (event.type === 'ValidationPolicyRetired') {
      const policy = rows.get<PolicyRow>(policyRow(event.data.policy_id));
      if (policy) put({ ...policy, retired: true }, rows);
    }
  },
};

function put(policy: PolicyRow, rows: Rows): void {
  rows.put(policyRow(policy.policy_id), policy);
  rows.put(rowIn(policiesOf(policy.tris_org), policy.policy_id), policy);
}

export const POLICIES = { view: 'policies', key: 'all' };

const policyRow = (policyId: string) => rowIn(POLICIES, policyId);
export const policiesOf = keysOf('policies.organization');
export const policyMetricRow = keysOf('policies.metrics');
