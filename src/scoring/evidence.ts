import { CRITICALITIES, TCT_BY_CRITICALITY } from './model.js';
import { type Lens, counts, tctOf } from './lens.js';
import { isFlags } from './names.js';

/**
 * The accumulated actions of an identity: integers only, so that adding actions in any order and in batches of any size
 * gives the same bytes (docs/decisions/0012).
 */
export interface MetricEvidence {
  /** Latest occurrence, ms since the epoch. */
  last: number;
  /**
   * Per UTC day, ascending: the day's number since the epoch, then a count per criticality. Each day takes `STRIDE`
   * numbers.
   */
  days: number[];
}

/** By canonical metric. */
export type Evidence = Record<string, MetricEvidence>;

export const STRIDE = 1 + CRITICALITIES.length;
const DAY_MS = 86_400_000;

/** The UTC day of a time, as days since the epoch. */
export function dayOf(ms: number): number {
  return Math.floor(ms / DAY_MS);
}

/**
 * Counts one action, or takes one out. Changes the evidence in place: a metric without actions is not in it.
 */
export function addAction(
  evidence: Evidence,
  metric: string,
  criticality: number,
  occurredAt: number,
  sign: 1 | -1 = 1,
): void {
  const entry = (evidence[metric] ??= { last: occurredAt, days: [] });
  entry.last = Math.max(entry.last, occurredAt);
  addToDays(entry.days, dayOf(occurredAt), criticality, sign);
  if (entry.days.length === 0) delete evidence[metric];
}

/** Counts actions of one day among the days of a metric, in place. A day of which none is left is removed. */
export function addToDays(days: number[], day: number, criticality: number, actions = 1): void {
  let at = days.length;
  while (at > 0 && days[at - STRIDE]! > day) at -= STRIDE;
  if (at > 0 && days[at - STRIDE] === day) at -= STRIDE;
  else days.splice(at, 0, day, 0, 0, 0, 0, 0);
  days[at + 1 + criticality]! += actions;
  if (isEmpty(days, at)) days.splice(at, STRIDE);
}

/** Whether the day at this index has no actions. */
export function isEmpty(days: readonly number[], at: number): boolean {
  for (let i = at + 1; i < at + STRIDE; i++) if (days[i] !== 0) return false;
  return true;
}

/** Takes the actions of some days from days that contain them, in place; both ascend. */
export function takeDays(days: number[], taken: readonly number[]): void {
  let to = 0;
  for (let at = 0; at < taken.length; at += STRIDE) {
    while (days[to]! < taken[at]!) to += STRIDE;
    for (let c = 1; c < STRIDE; c++) days[to + c]! -= taken[at + c]!;
  }
}

/** Number of actions of one metric. */
export function countActions({ days }: MetricEvidence): number {
  let actions = 0;
  for (let i = 0; i < days.length; i++) if (i % STRIDE !== 0) actions += days[i]!;
  return actions;
}

/** Visits the days of one metric under a lens, ascending, with the TCT and the number of its actions. */
export function eachDayOf(
  metric: string,
  { days }: MetricEvidence,
  lens: Lens,
  visit: (day: number, tct: number, actions: number) => void,
): void {
  // The TCT of each action under the lens; undefined: its criticality decides.
  const each = lens.tct_by_metric === null ? undefined : tctOf(lens, metric, 0);
  for (let at = 0; at < days.length; at += STRIDE) {
    let [tct, actions] = [0, 0];
    for (let c = 0; c < TCT_BY_CRITICALITY.length; c++) {
      const count = days[at + 1 + c]!;
      actions += count;
      tct += count * (each ?? TCT_BY_CRITICALITY[c]!);
    }
    visit(days[at]!, tct, actions);
  }
}

/** Total TCT of a metric under a lens, without decay. */
export function totalTct(metric: string, entry: MetricEvidence, lens: Lens): number {
  let total = 0;
  eachDayOf(metric, entry, lens, (_day, tct) => (total += tct));
  return total;
}

/** TCT and number of the good actions of a day, and of its flags. */
type VisitDay = (day: number, earned: number, flagged: number, good: number, flags: number) => void;

/**
 * Visits the UTC days on which some metrics count under a lens, ascending, with their sums. These are whole numbers, so
 * the order of the metrics changes none.
 */
export function eachDay(evidence: Evidence, metrics: readonly string[], lens: Lens, visit: VisitDay): void {
  const byDay = new Map<number, Parameters<VisitDay>>();
  for (const metric of metrics) {
    if (!counts(lens, metric)) continue;
    const at = isFlags(metric) ? 2 : 1;
    eachDayOf(metric, evidence[metric]!, lens, (day, tct, actions) => {
      let sums = byDay.get(day);
      if (!sums) byDay.set(day, (sums = [day, 0, 0, 0, 0]));
      sums[at] += tct;
      sums[at + 2]! += actions;
    });
  }
  for (const sums of [...byDay.values()].sort(([a], [b]) => a - b)) visit(...sums);
}
