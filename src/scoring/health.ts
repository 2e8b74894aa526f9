import { type Evidence, dayOf, eachDay } from './evidence.js';
import { expMinus, power, round } from './exact.js';
import type { Lens } from './lens.js';
import { isFlags, metricCategory } from './metrics.js';
import { type Category, MODEL } from './model.js';

/** Recency-weighted measures, computed at read time from whole-day ages as of a time. Days are summed ascending. */

/** Whole TCT per day, so that the order of metrics cannot change the sum. */
type Days = Map<number, number>;

function decayedSum(days: Days, dailyFactor: number, today: number): number {
  let sum = 0;
  for (const day of [...days.keys()].sort((a, b) => a - b)) {
    sum += days.get(day)! * power(dailyFactor, Math.max(0, today - day));
  }
  return sum;
}

function addDays(days: Days, metric: string, evidence: Evidence, lens: Lens): void {
  eachDay(metric, evidence[metric]!, lens, (day, tct) => {
    if (tct > 0) days.set(day, (days.get(day) ?? 0) + tct);
  });
}

function healthOf(earned: Days, flagged: Days, category: Category, today: number): number {
  const factor = MODEL.daily_factor[category];
  const gained = 1 - expMinus(decayedSum(earned, factor, today) / MODEL.health_earned_scale_tct);
  return gained * flagPenalty(flagged, category, today);
}

function flagPenalty(flagged: Days, category: Category, today: number): number {
  return expMinus(decayedSum(flagged, MODEL.daily_factor[category], today) / MODEL.health_flagged_scale_tct);
}

/**
 * Health of each category, 0..1, four decimals; 0 without evidence.
 * @param asOf ms since the epoch; evidence must hold nothing that occurred later
 */
export function categoryHealth(evidence: Evidence, lens: Lens, asOf: number): Record<Category, number> {
  const sums = new Map(MODEL.categories.map((category) => [category, { earned: new Map(), flagged: new Map() }]));
  for (const metric of Object.keys(evidence)) {
    const sum = sums.get(metricCategory(metric))!;
    addDays(isFlags(metric) ? sum.flagged : sum.earned, metric, evidence, lens);
  }
  const today = dayOf(asOf);
  const health = {} as Record<Category, number>;
  for (const [category, { earned, flagged }] of sums) {
    health[category] = earned.size === 0 ? 0 : round(healthOf(earned, flagged, category, today), 4);
  }
  return health;
}

/**
 * Health of one canonical metric, 0..1, four decimals: as a category's, within the metric; e^(−F/150) for a `_flags`
 * metric; 0 without evidence.
 */
export function metricHealth(evidence: Evidence, metric: string, lens: Lens, asOf: number): number {
  const days: Days = new Map();
  if (evidence[metric]) addDays(days, metric, evidence, lens);
  if (days.size === 0) return 0;
  const category = metricCategory(metric);
  const today = dayOf(asOf);
  return round(isFlags(metric) ? flagPenalty(days, category, today) : healthOf(days, new Map(), category, today), 4);
}

/**
 * How likely the next action is a good one, 0..1, four decimals: the expectation of a Beta distribution over decayed
 * positive and negative weights (Jøsang & Ismail, "The Beta Reputation System", 2002).
 */
export function reliability(evidence: Evidence, lens: Lens, asOf: number): number {
  const positive: Days = new Map();
  const negative: Days = new Map();
  for (const metric of Object.keys(evidence)) {
    addDays(isFlags(metric) ? negative : positive, metric, evidence, lens);
  }
  const today = dayOf(asOf);
  const p = decayedSum(positive, MODEL.reliability_daily_factor, today) / 1000;
  const n = decayedSum(negative, MODEL.reliability_daily_factor, today) / 1000;
  return round((p + MODEL.reliability_prior) / (p + n + MODEL.reliability_prior_total), 4);
}
