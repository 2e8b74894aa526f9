import type { ModuleName } from '../kernel/config.js';
import { accessPolicies } from '../../projections/access-policies.js';
import { accreditations } from '../../projections/accreditations.js';
import { actions } from '../../projections/actions.js';
import { credonations } from '../../projections/credonations.js';
import { deadLetters } from '../../projections/dead-letters.js';
import { decisions } from '../../projections/decisions.js';
import { disputes } from '../../projections/disputes.js';
import { identities } from '../../projections/identities.js';
import { lenses } from '../../projections/lenses.js';
import { logTree } from '../../projections/log-tree.js';
import { organizations } from '../../projections/organizations.js';
import { policies } from '../../projections/policies.js';
import type { Projection } from '../../projections/projection.js';
import { schemes } from '../../projections/schemes.js';
import { timeline } from '../../projections/timeline.js';
import { trove } from '../../projections/trove.js';
import { wallets } from '../../projections/wallets.js';
import { webhooks } from '../../projections/webhooks.js';

/** All projections. */
export const PROJECTIONS: readonly Projection[] = [
  identities,
  timeline,
  actions,
  credonations,
  organizations,
  policies,
  accessPolicies,
  decisions,
  lenses,
  trove,
  disputes,
  wallets,
  schemes,
  accreditations,
  webhooks,
  deadLetters,
  logTree,
];

/** What a score as of any time, under any lens, is computed from. */
const SCORES = ['identities', 'timeline', 'accreditations', 'policies', 'lenses'];

/** Those that each feature reads. */
const READ_BY: Record<ModuleName, readonly string[]> = {
  relay: ['identities'],
  withdrawals: [...SCORES, 'actions', 'decisions'],
  disc: [...SCORES, 'credonations', 'organizations'],
  credonations: ['identities', 'credonations'],
  organizations: ['organizations'],
  identity: ['accreditations', 'identities'],
  verifications: ['schemes'],
  policies: [...SCORES, 'access_policies', 'decisions'],
  trove: ['trove'],
  sessions: [],
  wallets: ['wallets'],
  person: [...SCORES, 'credonations', 'actions', 'decisions', 'trove', 'disputes', 'wallets'],
  disputes: ['actions', 'disputes', 'identities'],
  ingestion: [],
  webhooks: [...SCORES, 'webhooks', 'actions', 'decisions', 'disputes', 'access_policies'],
};

/** The projections that some enabled feature reads; dead letters and the tree of the log are always kept. */
export function projectionsFor(modules: readonly ModuleName[]): readonly Projection[] {
  const wanted = new Set(['dead_letters', 'log_tree', ...modules.flatMap((name) => READ_BY[name])]);
  return PROJECTIONS.filter(({ name }) => wanted.has(name));
}
