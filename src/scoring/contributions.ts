import { Days, type Evidence } from './evidence.js';
import { type Lens, counts } from './lens.js';
import { type Category, MODEL } from './model.js';
import { isFlags, metricCategory } from './names.js';

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
  const rest = amount - shares.reduce((sum, share) => sum + share, 0);
  const byRemainder = parts
    .map((part, i) => ({ i, remainder: (amount * part) % whole }))
    .sort((a, b) => b.remainder - a.remainder || a.i - b.i);
  for (const { i } of byRemainder.slice(0, rest)) shares[i]!++;
  return shares;
}
