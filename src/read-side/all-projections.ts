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

/** All projections. A feature's module names those that it reads. */
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
