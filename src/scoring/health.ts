import { type Evidence, dayOf, eachDay } from './evidence.js';
import { expMinus, powersOf, round } from './exact.js';
import type { Lens } from './lens.js';
import { isFlags, metricCategory } from './metrics.js';
import { type Category, MODEL } from './model.js';

/** Recency-weighted measures, computed at read time from whole-day ages as of a time. Days are summed ascending. */

/** What is left of one TCT of a category after so many days. */
const LEFT_AFTER = Object.fromEntries(
  MODEL.categories.map((category) => [category, powersOf(MODEL.daily_factor[category])]),
) as Record<Category, (days: number) => number>;

/** Decayed TCT of some metrics together: whole TCT per day first, so that the order of metrics cannot change the sum. */
function decayedTct(
  evidence: Evidence,
  metrics: readonly string[],
  lens: Lens,
  leftAfter: (days: number) => number,
  today: number,
): number {
  let sum = 0;
  const add = (day: number, tct: number) => {
    if (tct > 0) sum += tct * leftAfter(Math.max(0, today - day));
  };
  const [only] = metrics;
  if (metrics.length === 1) {
    eachDay(only!, evidence[only!]!, lens, add);
  } else if (metrics.length > 1) {
    const days = new Map<number, number>();
    for (const metric of metrics) {
      eachDay(metric, evidence[metric]!, lens, (day, tct) => days.set(day, (days.get(day) ?? 0) + tct));
    }
    for (const day of [...days.keys()].sort((a, b) => a - b)) add(day, days.get(day)!);
  }
  return sum;
}

function gained(earned: number): number {
  return 1 - expMinus(earned / MODEL.health_earned_scale_tct);
}

function flagPenalty(flagged: number): number {
  return expMinus(flagged / MODEL.health_flagged_scale_tct);
}

/**
 * Health of each category, 0..1, four decimals; 0 without evidence.
 * @param asOf ms since the epoch; evidence must hold nothing that occurred later
 */
export function categoryHealth(evidence: Evidence, lens: Lens, asOf: number): Record<Category, number> {
  const today = dayOf(asOf);
  const metrics: Partial<Record<Category, { earned: string[]; flagged: string[] }>> = {};
  for (const metric of Object.keys(evidence)) {
    const ofCategory = (metrics[metricCategory(metric)] ??= { earned: [], flagged: [] });
    ofCategory[isFlags(metric) ? 'flagged' : 'earned'].push(metric);
  }
  const health = {} as Record<Category, number>;
  for (const category of MODEL.categories) {
    const leftAfter = LEFT_AFTER[category];
    const { earned = [], flagged = [] } = metrics[category] ?? {};
    const gain = gained(decayedTct(evidence, earned, lens, leftAfter, today));
    health[category] =
      gain === 0 ? 0 : round(gain * flagPenalty(decayedTct(evidence, flagged, lens, leftAfter, today)), 4);
  }
  return health;
}

/**
 * Health of one canonical metric, 0..1, four decimals: as a category's, within the metric; e^(−F/150) for a `_flags`
 * metric; 0 without evidence.
 */
export function metricHealth(evidence: Evidence, metric: string, lens: Lens, asOf: number): number {
  if (!evidence[metric]) return 0;
  const tct = decayedTct(evidence, [metric], lens, LEFT_AFTER[metricCategory(metric)], dayOf(asOf));
  if (tct === 0) return 0;
  return round(isFlags(metric) ? flagPenalty(tct) : gained(tct), 4);
}

const WEIGHT_LEFT_AFTER = powersOf(MODEL.reliability_daily_factor);
/** TCT of an action of weight 1. */
const TCT_PER_WEIGHT = 1_000;

/**
 * How likely the next action is a good one, 0..1, four decimals: the expectation of a Beta distribution over decayed
 * positive and negative weights (Jøsang & Ismail, "The Beta Reputation System", 2002).
 */
export function reliability(evidence: Evidence, lens: Lens, asOf: number): number {
  const metrics = Object.keys(evidence);
  const [flagged, earned] = [metrics.filter(isFlags), metrics.filter((metric) => !isFlags(metric))];
  const weight = (of: string[]) => decayedTct(evidence, of, lens, WEIGHT_LEFT_AFTER, dayOf(asOf)) / TCT_PER_WEIGHT;
  const [p, n] = [weight(earned), weight(flagged)];
  return round((p + MODEL.reliability_prior) / (p + n + MODEL.reliability_prior_total), 4);
}
