/**
 * The names of metrics and categories and the weights of criticalities, as the service has them. A test compares them
 * with the service's: the console imports nothing of it.
 */

export const CATEGORIES = ['financial', 'creative', 'educational', 'behavioral', 'social', 'security', 'compliance'];
const ALIASES: Record<string, string> = { finance: 'financial', governance: 'behavioral' };
export const CATEGORY_NAMES = [...CATEGORIES, ...Object.keys(ALIASES)];
/** The weight of each criticality, in hundredths so that sums are exact. */
export const HUNDREDTHS: Record<string, number> = { Minimal: 1, Low: 3, Moderate: 7, High: 10, Critical: 14 };
export const CRITICALITIES = Object.keys(HUNDREDTHS);
/** Suggested while a metric is typed; other names are accepted. */
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
];

/** The canonical category of a metric; undefined if it does not begin with one. */
export function categoryOf(metric: string): string | undefined {
  const name = metric.split('_', 1)[0]!;
  return CATEGORIES.includes(name) ? name : ALIASES[name];
}

/** The metric with its canonical category; undefined if it is not well-formed. */
export function canonicalMetric(metric: string): string | undefined {
  const category = categoryOf(metric);
  const action = metric.slice(metric.indexOf('_') + 1);
  return category && /^[a-z][a-z0-9_]{0,63}$/.test(action) && metric.includes('_')
    ? `${category}_${action}`
    : undefined;
}

export function hundredthsOf(criticality: unknown): number | undefined {
  const name = CRITICALITIES.find((known) => known.toLowerCase() === String(criticality).toLowerCase());
  return name === undefined ? undefined : HUNDREDTHS[name];
}
