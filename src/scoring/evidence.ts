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

/** Iterates over the days of one metric under a lens, ascending. The fields are those of the current day. */
export class Days {
  day = 0;
  tct = 0;
  actions = 0;
  /** Past the last day. */
  done = false;
  private at = -STRIDE;
  private readonly days: readonly number[];
  /** The TCT of each action under the lens; undefined: its criticality decides. */
  private readonly each: number | undefined;

  constructor(metric: string, { days }: MetricEvidence, lens: Lens) {
    this.days = days;
    this.each = lens.tct_by_metric === null ? undefined : tctOf(lens, metric, 0);
    this.next();
  }

  next(): void {
    const { days, each } = this;
    const at = (this.at += STRIDE);
    if (at >= days.length) {
      this.done = true;
      return;
    }
    this.day = days[at]!;
    let tct = 0;
    let actions = 0;
    for (let c = 0; c < TCT_BY_CRITICALITY.length; c++) {
      const count = days[at + 1 + c]!;
      actions += count;
      tct += count * (each ?? TCT_BY_CRITICALITY[c]!);
    }
    this.tct = tct;
    this.actions = actions;
  }
}

/** Total TCT of a metric under a lens, without decay. */
export function totalTct(metric: string, entry: MetricEvidence, lens: Lens): number {
  let total = 0;
  for (const days = new Days(metric, entry, lens); !days.done; days.next()) total += days.tct;
  return total;
}

/** TCT and number of the good actions of a day, and of its flags. */
type VisitDay = (day: number, earned: number, flagged: number, good: number, flags: number) => void;

/** Up to here the metrics are merged day by day; of more, the sums of all days are kept at once. */
const FEW_METRICS = 64;

/**
 * Visits the UTC days on which some metrics count under a lens, ascending, with their sums. These are whole numbers, so
 * the order of the metrics changes none.
 */
export function eachDay(evidence: Evidence, metrics: readonly string[], lens: Lens, visit: VisitDay): void {
  const open: { days: Days; isFlags: boolean }[] = [];
  for (const metric of metrics) {
    if (!counts(lens, metric)) continue;
    const days = new Days(metric, evidence[metric]!, lens);
    if (!days.done) open.push({ days, isFlags: isFlags(metric) });
  }
  if (open.length > FEW_METRICS) return eachDayOfMany(open, visit);
  for (;;) {
    let day = Infinity;
    for (let i = 0; i < open.length; i++) day = Math.min(day, open[i]!.days.day);
    if (day === Infinity) return;
    let [earned, flagged, good, flags] = [0, 0, 0, 0];
    for (let i = 0; i < open.length; i++) {
      const { days, isFlags } = open[i]!;
      if (days.day !== day) continue;
      if (isFlags) {
        flagged += days.tct;
        flags += days.actions;
      } else {
        earned += days.tct;
        good += days.actions;
      }
      days.next();
      if (days.done) open.splice(i--, 1);
    }
    visit(day, earned, flagged, good, flags);
  }
}

function eachDayOfMany(metrics: readonly { days: Days; isFlags: boolean }[], visit: VisitDay): void {
  const byDay = new Map<number, Parameters<VisitDay>>();
  for (const { days, isFlags } of metrics) {
    for (; !days.done; days.next()) {
      let sums = byDay.get(days.day);
      if (!sums) byDay.set(days.day, (sums = [days.day, 0, 0, 0, 0]));
      sums[isFlags ? 2 : 1] += days.tct;
      sums[isFlags ? 4 : 3] += days.actions;
    }
  }
  for (const sums of [...byDay.values()].sort(([a], [b]) => a - b)) visit(...sums);
}
