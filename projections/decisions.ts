import { checkedAt } from '../src/features/access/domain/decision.js';
import { positionOf, sortByPosition } from '../src/kernel/positions.js';
import { type Projection, keysOf, rowIn } from './projection.js';

/** The fields of an access decision by which lists select; the rest is in its own stream. */
export interface DecisionRow {
  jti: string;
  subject_tris: string;
  policy_id: string;
  /** TRIS of the policy's owner; null: the platform's operators. */
  owner: string | null;
  granted: boolean;
}

/**
 * Access decisions by the time of the check: all, `decisions.subject`, `decisions.policy`, and `decisions.owner`, those on
 * the policies of each organization. `decisions.subject` has those of each organization about a subject apart, too.
 * `decisions.policies` has the owner of each policy.
 */
export const decisions: Projection = {
  name: 'decisions',
  version: 3,
  views: ['decisions', 'decisions.subject', 'decisions.policy', 'decisions.owner', 'decisions.policies'],
  share: (event) => (event.type === 'AccessChecked' ? event.data.subject_tris : undefined),

  reads: (event) => (event.type === 'AccessChecked' ? [ownerRow(event.data.policy_id)] : []),

  apply(event, rows) {
    if (event.type === 'AccessPolicyCreated') {
      // Few policies have one, and those without need no row.
      if (event.data.owner !== null) rows.put(ownerRow(event.data.policy_id), event.data.owner);
      return;
    }
    if (event.type !== 'AccessChecked') return;
    const { jti, subject_tris, policy_id, granted } = event.data;
    const owner = rows.get<string>(ownerRow(policy_id)) ?? null;
    const row: DecisionRow = { jti, subject_tris, policy_id, owner, granted };
    const sort = sortByTime(checkedAt(event.data, event.occurred_at)) + sortByPosition(event.position);
    rows.insert(rowIn(DECISIONS, sort), row);
    rows.insert(rowIn(decisionsAbout(subject_tris), sort), row);
    rows.insert(rowIn(decisionsBy(policy_id), sort), row);
    if (owner === null) return;
    rows.insert(rowIn(decisionsOf(owner), sort), row);
    rows.insert(rowIn(decisionsAbout(subject_tris, owner), sort), row);
  },
};

export const DECISIONS = { view: 'decisions', key: 'all' };

/** The decisions about a subject. @param owner only those by the policies of this organization */
export function decisionsAbout(trisId: string, owner: string | null = null) {
  return { view: 'decisions.subject', key: owner === null ? trisId : `${trisId} ${owner}` };
}

/** The decisions by a policy. */
export const decisionsBy = keysOf('decisions.policy');

/** The decisions by the policies of an organization. */
export const decisionsOf = keysOf('decisions.owner');

const ownerRow = keysOf('decisions.policies');

/** The sort key of a row: its time, ms, then the position of the record. */
export const DECISION_SORT = /^\d{15}[1-9a-g]\d{1,16}$/;
const TIME_DIGITS = 15;

/** The first part of the sort keys of a time, ms: before all of them, and after all of the times before. */
export function sortByTime(time: number): string {
  return String(Math.max(0, time)).padStart(TIME_DIGITS, '0');
}
export const timeOfSort = (sort: string): number => Number(sort.slice(0, TIME_DIGITS));
export const positionOfSort = (sort: string): number => positionOf(sort.slice(TIME_DIGITS));
