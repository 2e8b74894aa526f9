import { CRITICALITIES } from './model.js';
import { type Lens, tctOf } from './lens.js';

/**
 * What is known of an identity's actions: integers only, so that adding actions in any order and in batches of any size
 * gives the same bytes (design §3).
 */
export interface MetricEvidence {
  /** Latest occurrence, ms since the epoch. */
  last: number;
  /** Per UTC day, ascending: the day's number since the epoch, then a count per criticality. Six numbers a day. */
  days: number[];
}

/** By canonical metric. */
export type Evidence = Record<string, MetricEvidence>;

const STRIDE = 1 + CRITICALITIES.length;
const DAY_MS = 86_400_000;

/** The UTC day of a time, as days since the epoch. */
export function dayOf(ms: number): number {
  return Math.floor(ms / DAY_MS);
}

/** Counts one action. Changes the evidence in place. */
export function addAction(evidence: Evidence, metric: string, criticality: number, occurredAt: number): void {
  const entry = (evidence[metric] ??= { last: occurredAt, days: [] });
  entry.last = Math.max(entry.last, occurredAt);
  const { days } = entry;
  const day = dayOf(occurredAt);
  let at = days.length;
  while (at > 0 && days[at - STRIDE]! > day) at -= STRIDE;
  if (at > 0 && days[at - STRIDE] === day) at -= STRIDE;
  else days.splice(at, 0, day, 0, 0, 0, 0, 0);
  days[at + 1 + criticality]!++;
}

/** Number of actions of one metric. */
export function countActions({ days }: MetricEvidence): number {
  let actions = 0;
  for (let i = 0; i < days.length; i++) if (i % STRIDE !== 0) actions += days[i]!;
  return actions;
}

/** Visits the TCT of each day of a metric under a lens, days ascending. */
export function eachDay(
  metric: string,
  { days }: MetricEvidence,
  lens: Lens,
  visit: (day: number, tct: number) => void,
): void {
  for (let i = 0; i < days.length; i += STRIDE) {
    let tct = 0;
    for (let c = 0; c < CRITICALITIES.length; c++) {
      const count = days[i + 1 + c]!;
      if (count > 0) tct += count * tctOf(lens, metric, c);
    }
    visit(days[i]!, tct);
  }
}

/** All TCT of a metric under a lens, undecayed. */
export function totalTct(metric: string, entry: MetricEvidence, lens: Lens): number {
  let total = 0;
  eachDay(metric, entry, lens, (_day, tct) => (total += tct));
  return total;
}
