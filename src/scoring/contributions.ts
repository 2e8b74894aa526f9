import { Days, type Evidence } from './evidence.js';
import { type Lens, counts } from './lens.js';
import { type Category, MODEL } from './model.js';
import { isFlags, metricCategory } from './names.js';

/**
 * The contribution of each metric to the earned TCT if the TCT of a day is limited, in whole TCT that add up to the
 * earned TCT.
 *
 * The limited TCT of a day is divided among its categories in proportion to the TCT of each on that day. The resulting
 * TCT of a category is divided among its metrics in proportion to the total TCT of each. So only the totals of
 * categories by day and the totals of metrics are needed, whatever the size of the identity.
 * @param evidence by metric, or by the totals of categories
 * @param earned TCT of each metric that is not a flag, without the limit
 * @param limit TCT that a UTC day can earn; Infinity: no limit
 */
export function contributions(
  evidence: Evidence,
  earned: ReadonlyMap<string, number>,
  lens: Lens,
  limit: number,
): Map<string, number> {
  if (limit === Infinity) return new Map(earned);
  const left = earnedByCategory(evidence, lens, limit);
  const byCategory = new Map<Category, string[]>(MODEL.categories.map((category) => [category, []]));
  for (const name of earned.keys()) byCategory.get(metricCategory(name))!.push(name);
  const shares = new Map<string, number>();
  for (const [category, own] of byCategory) {
    own.sort();
    const parts = divide(
      left[category],
      own.map((name) => earned.get(name)!),
    );
    for (const [n, name] of own.entries()) shares.set(name, parts[n]!);
  }
  return shares;
}

/** The earned TCT of each category if the TCT of a day is limited. @param limit a finite number */
export function earnedByCategory(evidence: Evidence, lens: Lens, limit: number): Record<Category, number> {
  const days = new Map<number, number[]>();
  for (const metric in evidence) {
    if (isFlags(metric) || !counts(lens, metric)) continue;
    const category = MODEL.categories.indexOf(metricCategory(metric));
    for (const each = new Days(metric, evidence[metric]!, lens); !each.done; each.next()) {
      let day = days.get(each.day);
      if (!day) days.set(each.day, (day = MODEL.categories.map(() => 0)));
      day[category]! += each.tct;
    }
  }
  const left = MODEL.categories.map(() => 0);
  for (const day of days.values()) {
    const whole = day.reduce((sum, tct) => sum + tct, 0);
    for (const [i, tct] of divide(Math.min(whole, limit), day).entries()) left[i]! += tct;
  }
  return Object.fromEntries(MODEL.categories.map((category, i) => [category, left[i]!])) as Record<Category, number>;
}

/** Divides a whole amount in proportion to whole parts, by largest remainder; the earlier of two equal ones is first. */
export function divide(amount: number, parts: readonly number[]): number[] {
  const whole = parts.reduce((sum, part) => sum + part, 0);
  if (amount === whole) return [...parts];
  const shares = parts.map((part) => Math.floor((amount * part) / whole));
  let rest = amount - shares.reduce((sum, share) => sum + share, 0);
  const byRemainder = parts
    .map((part, i) => ({ i, remainder: (amount * part) % whole }))
    .sort((a, b) => b.remainder - a.remainder || a.i - b.i);
  for (const { i } of byRemainder) {
    if (rest === 0) break;
    shares[i]!++;
    rest--;
  }
  return shares;
}
