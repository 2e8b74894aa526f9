import { type IdentityState, isIncomplete } from '../../../projections/identities.js';
import { type Evidence, totalTct } from '../../scoring/evidence.js';
import { categoryHealth, reliability } from '../../scoring/health.js';
import type { Lens } from '../../scoring/lens.js';
import { metricCategory } from '../../scoring/metrics.js';
import { type Category, MODEL, type Rating } from '../../scoring/model.js';
import { ledgerOf, netTct, ratingOf, scoreOf } from '../../scoring/score.js';
import type { Rule, Status } from './rules.js';

/** What rules judge, as measured. null is unknown: without evidence there is no value, not even a low one. */
export interface Measured {
  /** An event about the identity could not be read, and was not acknowledged: everything is unknown. */
  incomplete: boolean;
  /** Earned minus forfeited TCT, a whole number. */
  net_tct: number;
  /** How many actions, of any metric. */
  actions: number;
  /** Explicit BAD level 1..6, which overrides the score; null: none. */
  bad_level: number | null;
  /** 0..1; null without any evidence that counts under the lens. */
  reliability: number | null;
  /** 0..1 by category; null without evidence in it. */
  health: Record<Category, number | null>;
  /** Verification statuses granted and not expired. */
  verified: ReadonlySet<string>;
}

/** An identity of which there is nothing but that it exists. */
export const NOTHING: Measured = {
  incomplete: false,
  net_tct: 0,
  actions: 0,
  bad_level: null,
  reliability: null,
  health: Object.fromEntries(MODEL.categories.map((category) => [category, null])) as Measured['health'],
  verified: new Set(),
};

/** What was measured and what follows from it, ready for any number of evaluations. */
export interface Facts extends Measured {
  score: number;
  score_rating: Rating;
  total_tct: number;
  holds: Record<Status, boolean>;
}

export function factsFrom(measured: Measured): Facts {
  const { incomplete, net_tct, actions, bad_level, reliability, health, verified } = measured;
  const score = bad_level ?? scoreOf(net_tct);
  // Written out: a spread costs a preview over a whole population more than everything else here.
  return {
    incomplete,
    net_tct,
    actions,
    bad_level,
    reliability,
    health,
    verified,
    score,
    score_rating: ratingOf(score),
    total_tct: Math.max(0, net_tct),
    holds: {
      'zk-KYH': verified.has('zk-KYH'),
      'zk-KYC (ID only)': verified.has('zk-KYC (ID only)'),
      'zk-KYC (ID + AML)': verified.has('zk-KYC (ID + AML)'),
      'BAD Status validation': actions > 0 && bad_level === null && score > MODEL.bad_level,
    },
  };
}

/** Facts that take a pass over the days of all evidence: measured only where some rule asks. */
export interface Needs {
  health: boolean;
  reliability: boolean;
}

const NO_CATEGORY: ReadonlySet<Category> = new Set();
const EVERYTHING: Needs = { health: true, reliability: true };

/** What the conditions of a rule ask for. */
export function needsOf(rule: Rule): Needs {
  if (!('of' in rule)) return { health: rule.rule === 'metrics', reliability: rule.rule === 'reliability_min' };
  const parts = rule.of.map(needsOf);
  return { health: parts.some(({ health }) => health), reliability: parts.some(({ reliability }) => reliability) };
}

/**
 * The facts of an identity through a lens as of a time, ms. Verifications that have expired by then do not count. What is
 * not needed is left unknown.
 */
export function factsOf(state: IdentityState, lens: Lens, asOf: number, needs = EVERYTHING): Facts {
  const { evidence } = state;
  const counted = needs.health || needs.reliability ? categoriesWithEvidence(evidence, lens) : NO_CATEGORY;
  let { health } = NOTHING;
  if (needs.health) {
    health = { ...health };
    const measured = categoryHealth(evidence, lens, asOf);
    for (const category of counted) health[category] = measured[category];
  }
  const { verifications } = state;
  const held = verifications.filter(({ expires_at }) => expires_at === null || Date.parse(expires_at) > asOf);
  return factsFrom({
    incomplete: isIncomplete(state),
    net_tct: netTct(ledgerOf(evidence, lens)),
    actions: state.actions,
    bad_level: state.bad_status?.level ?? null,
    reliability: needs.reliability && counted.size > 0 ? reliability(evidence, lens, asOf) : null,
    health,
    verified: held.length === 0 ? NOTHING.verified : new Set(held.map(({ status }) => status)),
  });
}

/** Flags are evidence too: a category with nothing but flags has a health, and it is 0. */
function categoriesWithEvidence(evidence: Evidence, lens: Lens): Set<Category> {
  const categories = new Set<Category>();
  for (const [metric, entry] of Object.entries(evidence)) {
    const category = metricCategory(metric);
    if (!categories.has(category) && totalTct(metric, entry, lens) > 0) categories.add(category);
  }
  return categories;
}
