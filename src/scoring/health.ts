import { type Evidence, dayOf, eachDay, totalTct } from './evidence.js';
import { expMinus, least, powersOf, round } from './exact.js';
import { type Lens, counts } from './lens.js';
import { isFlags, metricCategory } from './names.js';
import { type Category, MODEL } from './model.js';
import type { Ledger } from './score.js';

/** Recency-weighted measures, computed at read time from whole-day ages as of a time. Days are summed ascending. */

/** The remainder of one TCT of a category after a number of days. */
const LEFT_AFTER = Object.fromEntries(
  MODEL.categories.map((category) => [category, powersOf(MODEL.daily_factor[category])]),
) as Record<Category, (days: number) => number>;

/**
 * Decayed TCT of some metrics together.
 * @param leftAfter the remainder of one TCT after a number of days
 */
export function decayedTct(
  evidence: Evidence,
  metrics: readonly string[],
  lens: Lens,
  leftAfter: (days: number) => number,
  today: number,
): Ledger {
  const sum = { earned: 0, flagged: 0 };
  eachDay(evidence, metrics, lens, (day, earned, flagged) => {
    const left = leftAfter(Math.max(0, today - day));
    sum.earned += earned * left;
    sum.flagged += flagged * left;
  });
  return sum;
}

function gained(earned: number): number {
  return 1 - expMinus(earned / MODEL.health_earned_scale_tct);
}

function flagPenalty(flagged: number): number {
  return expMinus(flagged / MODEL.health_flagged_scale_tct);
}

/**
 * Health of one category, 0..1, four decimals; null without evidence that counts under the lens. Flags are evidence
 * too: with flags only, health is 0.
 * @param asOf ms since the epoch; the evidence must contain no later actions
 */
export function healthOf(evidence: Evidence, category: Category, lens: Lens, asOf: number): number | null {
  const metrics: string[] = [];
  for (const metric in evidence) {
    if (metricCategory(metric) === category && counts(lens, metric)) metrics.push(metric);
  }
  if (metrics.length === 0) return null;
  if (metrics.every(isFlags)) return 0;
  const { earned, flagged } = decayedTct(evidence, metrics, lens, LEFT_AFTER[category], dayOf(asOf));
  const gain = gained(earned);
  return gain === 0 ? 0 : round(gain * flagPenalty(flagged), 4);
}

/** Health of each category; 0 without evidence. */
export function categoryHealth(evidence: Evidence, lens: Lens, asOf: number): Record<Category, number> {
  const health = {} as Record<Category, number>;
  for (const category of MODEL.categories) health[category] = healthOf(evidence, category, lens, asOf) ?? 0;
  return health;
}

/**
 * Health of one canonical metric, 0..1, four decimals: as a category's, within the metric; e^(−F/150) for a `_flags`
 * metric; 0 without evidence.
 */
export function metricHealth(evidence: Evidence, metric: string, lens: Lens, asOf: number): number {
  const entry = evidence[metric];
  if (!entry) return 0;
  // After a thousand years, decay may leave 0 although there is evidence.
  if (totalTct(metric, entry, lens) === 0) return 0;
  const leftAfter = LEFT_AFTER[metricCategory(metric)];
  const { earned, flagged } = decayedTct(evidence, [metric], lens, leftAfter, dayOf(asOf));
  return round(isFlags(metric) ? flagPenalty(flagged) : gained(earned), 4);
}

/** The least whole TCT that gives a category this health if all of it is earned today and none is flagged. */
export function tctToHealth(health: number): number {
  return least((tct) => round(gained(tct), 4) >= health);
}
