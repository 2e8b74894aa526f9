import { type Category, CRITICALITIES, type Criticality, MODEL } from './model.js';

/**
 * Names as clients write them, and the canonical ones: of criticalities, of categories, of which two have aliases, and of
 * metrics, `<category>_<action_type>` (requirement 25).
 */

/** The documented metrics (requirement 25). The catalogue is open: other well-formed names are accepted. */
export const DOCUMENTED_METRICS = [
  'finance_loan_repayment_consistency',
  'finance_liquidity_provision_duration',
  'governance_vote_participation',
  'security_multisig_participation',
  'compliance_kyc_verified',
  'financial_txn_consistency',
  'financial_liquidity_provision',
  'creative_code_contribution',
  'creative_bugs_found',
  'educational_research_authorship',
  'educational_workshop_hosted',
  'behavioral_peer_feedback_score',
  'behavioral_votes_delegated',
  'social_verified_identity_linked',
  'security_login_pattern_stability',
  'security_verified_identity',
  'compliance_moderation_flags',
] as const;

const CATEGORY_BY_NAME = new Map<string, Category>([
  ...MODEL.categories.map((name) => [name, name] as const),
  ...Object.entries(MODEL.aliases),
]);

/** Every accepted category name, aliases included. */
export const CATEGORY_NAMES = [...CATEGORY_BY_NAME.keys()];

/** The canonical name of a criticality written in upper or lower case; undefined if unknown. */
export function criticalityOf(name: string): Criticality | undefined {
  const lower = name.toLowerCase();
  return CRITICALITIES.find((criticality) => criticality.toLowerCase() === lower);
}

/** The category of a name or alias; undefined if unknown. */
export function categoryOf(name: string): Category | undefined {
  return CATEGORY_BY_NAME.get(name);
}

/**
 * The canonical name of a metric, its category's alias resolved: `finance_x` → `financial_x`.
 * Undefined if the name does not start with a category or nothing well-formed follows.
 */
export function canonicalMetric(name: string): string | undefined {
  const split = name.indexOf('_');
  const category = categoryOf(name.slice(0, Math.max(split, 0)));
  const actionType = name.slice(split + 1);
  return category && /^[a-z][a-z0-9_]{0,63}$/.test(actionType) ? `${category}_${actionType}` : undefined;
}

/** The category of a canonical metric. */
export function metricCategory(metric: string): Category {
  const known = categories.get(metric);
  if (known !== undefined) return known;
  const category = metric.slice(0, metric.indexOf('_')) as Category;
  // The catalogue is open, so the cache is bounded.
  if (categories.size >= REMEMBERED) categories.clear();
  categories.set(metric, category);
  return category;
}

/** Cached: it is needed for every metric of every identity. */
const categories = new Map<string, Category>();
const REMEMBERED = 10_000;

/** Whether the metric is negative evidence. */
export function isFlags(metric: string): boolean {
  return metric.endsWith(MODEL.flag_suffix);
}
