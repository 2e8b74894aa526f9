import { queryOptions, useQuery } from '@tanstack/react-query';
import { type Schemas, get } from '../api.ts';
import { useGet } from '../queries.ts';

/** The parts of the public HTTP interface that the lab uses: docs/http.md, docs/policies.md. */

export type Scope = 'platform' | 'organization';
export const SCOPES: readonly Scope[] = ['platform', 'organization'];

export type ListedPolicy = Schemas['ListedPolicyDto'];

export type Policy = Schemas['PolicyDto'];

export type ListedAccessPolicy = Schemas['ListedAccessPolicyDto'];

export type LensName = Schemas['ScoringNameDto'];

export type Replay = Schemas['ReplayDto'];

/** A switch of the lens. With a `job_id` while it is not applied yet. */
export type Switch = Schemas['SwitchDto'] & Partial<Schemas['PromotionDto']>;

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

export const ACCESS_POLICIES = queryOptions({
  queryKey: ['lab', 'aps'],
  queryFn: ({ signal }) => all<ListedAccessPolicy>(AP_PATH, signal),
});

export const useAccessPolicies = () => useQuery(ACCESS_POLICIES);

export const usePolicy = (policyId: string) => useGet<'PolicyDto'>(`${VP_PATH}/${encodeURIComponent(policyId)}`);

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
