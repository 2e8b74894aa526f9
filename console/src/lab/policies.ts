import { useQuery } from '@tanstack/react-query';
import { type FieldError, get } from '../api.ts';

/** The parts of the public HTTP interface that the lab uses: docs/http.md, docs/policies.md. */

export type Scope = 'platform' | 'organization';
export const SCOPES: readonly Scope[] = ['platform', 'organization'];

export interface ListedPolicy {
  policy_id: string;
  tris_org: string;
  status: string;
  version: string;
  active_for: Scope[];
  created_at: string;
}

export interface PolicyInput {
  metric: string;
  criticality: string;
  weight: number;
}

export interface Policy extends ListedPolicy {
  content_hash: string;
  computed_weight: number;
  category_weights: Record<string, number>;
  warnings: FieldError[];
  inputs: PolicyInput[];
  metadata: { total_weight: number; visibility: string; version: string };
  history: { status: string; scope?: Scope; replay_id?: string | null; at: string; position: string }[];
}

export interface ListedAccessPolicy {
  policy_id: string;
  status: string;
  vp: string | null;
  tris_org: string | null;
  visibility: string;
  ttl_seconds: number;
  created_at: string;
}

interface Side {
  score: number;
  score_rating: string;
  total_tct: number;
}

export interface Reason {
  metric: string;
  before_tct: number;
  after_tct: number;
}

export interface Mover {
  tris_id: string;
  before: Side;
  after: Side;
  delta: number;
  reasons: Reason[];
}

interface Histogram {
  by_rating: Record<string, number>;
  by_score: number[];
}

export interface AccessChange {
  policy_id: string;
  granted_before?: number;
  granted_after?: number;
  gained: number;
  lost: number;
  gained_by: string[];
  lost_by: string[];
}

/** What a change of lens does to many identities. */
export interface Summary {
  count: number;
  up: number;
  down: number;
  unchanged: number;
  mean_delta: number;
  histogram: { before: Histogram; after: Histogram };
  rating_moves: Record<string, Record<string, number>>;
  top_movers: { up: Mover[]; down: Mover[] };
  access: AccessChange[];
}

export interface EvaluatedSubject {
  tris_id: string;
  /** Null for an unknown identity. */
  current: Side | null;
  projected: Side | null;
  reasons: Reason[];
  access: { policy_id: string; before: boolean; after: boolean }[];
  problem?: { detail: string };
}

export interface Evaluation {
  policy_id: string;
  lens: { policy_id: string | null };
  model: { id: string };
  as_of: string;
  position: string;
  results: EvaluatedSubject[];
  summary: Summary;
}

export interface LensName {
  policy_id: string | null;
  model: { id: string };
}

export interface Replay {
  replay_id: string;
  /** Null in a replay of a version of the model. */
  policy_id: string | null;
  scope: Scope;
  status: 'queued' | 'running' | 'completed' | 'failed' | 'cancelled';
  progress: { done: number; total: number };
  result: (Summary & { before: LensName; after: LensName; position: string; as_of: string }) | null;
  error: string | null;
  started_at: string;
  finished_at: string | null;
}

export interface Switch {
  policy_id: string;
  scope: Scope;
  active: { policy_id: string | null };
  previous: { policy_id: string | null };
  position: string;
  /** Only while the switch is not applied yet. */
  job_id?: string;
  status?: 'switching' | 'applied';
}

export const VP_PATH = 'v1/policies/vp';
export const AP_PATH = 'v1/policies/ap';
const PAGE = 1000;

/** All entries of a list that is given in pages. */
async function all<T>(path: string, signal: AbortSignal): Promise<T[]> {
  const rows: T[] = [];
  let cursor: string | undefined;
  do {
    const page = await get<{ policies: T[]; next_cursor: string | null }>(path, { limit: PAGE, cursor }, signal);
    rows.push(...page.policies);
    cursor = page.next_cursor ?? undefined;
  } while (cursor !== undefined);
  return rows;
}

export const usePolicies = () =>
  useQuery({ queryKey: ['lab', 'vps'], queryFn: ({ signal }) => all<ListedPolicy>(VP_PATH, signal) });

export const useAccessPolicies = () =>
  useQuery({ queryKey: ['lab', 'aps'], queryFn: ({ signal }) => all<ListedAccessPolicy>(AP_PATH, signal) });

export const usePolicy = (policyId: string) =>
  useQuery({
    queryKey: ['lab', 'vp', policyId],
    queryFn: ({ signal }) => get<Policy>(`${VP_PATH}/${encodeURIComponent(policyId)}`, {}, signal),
  });

/** `VP_LENDING_V2` → `VP_LENDING` and 2. */
export function nameAndNumber(policyId: string): [name: string, number: number] {
  const [, name, number] = /^(.*)_V(\d+)$/.exec(policyId) ?? [];
  return [name ?? policyId, Number(number ?? 0)];
}

/** The id of the version after the last one of the same name. */
export function nextId(policyId: string, all: readonly { policy_id: string }[]): string {
  const [name, number] = nameAndNumber(policyId);
  const numbers = all.map((other) => nameAndNumber(other.policy_id)).filter(([other]) => other === name);
  return `${name}_V${Math.max(number, ...numbers.map(([, other]) => other)) + 1}`;
}
