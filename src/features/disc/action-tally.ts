import {
  ACTION_STRIDE,
  ACTION_TYPES,
  ACTIONS_PER_ROW,
  EARLIEST,
  type PackedActions,
} from '../../../projections/evidence-rows.js';
import { type IdentityEvent, isOfAction, signOf, withdrawnBy } from '../../../projections/identity-events.js';
import { unpackNumbers } from '../../../projections/packed-numbers.js';
import type { Position } from '../../kernel/event.js';
import { isDue, yieldIfDue } from '../../kernel/turn.js';
import { type Evidence, STRIDE, dayOf } from '../../scoring/evidence.js';
import { tctOf } from '../../scoring/lens.js';
import { isFlags } from '../../scoring/names.js';
import { CRITICALITIES } from '../../scoring/model.js';
import type { Ledger } from '../../scoring/score.js';
import type { PlatformShares } from './platform-shares.js';

/** Sums of an identity's actions by metric. */
export interface MetricTotals {
  /** By number of the metric. */
  names: readonly string[];
  /** Actions by number of the metric times the number of criticalities, plus the criticality. */
  actions: Int32Array;
  /** Latest occurrence by number of the metric, ms, also of those that are withdrawn; -Infinity: there is none. */
  last: Float64Array;
  /** How many actions are withdrawn. */
  withdrawn: number;
}

/** The sums of metrics without actions. */
function noActions(names: readonly string[]): MetricTotals {
  return {
    names,
    actions: new Int32Array(names.length * CRITICALITIES.length),
    last: new Float64Array(names.length).fill(-Infinity),
    withdrawn: 0,
  };
}

/** The sums of all metrics of some evidence. */
export function totalsIn(evidence: Evidence): MetricTotals {
  const names = Object.keys(evidence);
  const totals = noActions(names);
  for (const [n, name] of names.entries()) {
    const { last, days } = evidence[name]!;
    totals.last[n] = last;
    for (let i = 0; i < days.length; i++) {
      if (i % STRIDE !== 0) totals.actions[n * CRITICALITIES.length + (i % STRIDE) - 1]! += days[i]!;
    }
  }
  return totals;
}

/** Sums, for each of some times, the TCT of the actions of its UTC day up to it. */
export class DayLedgers {
  readonly ledgers: Ledger[];
  private readonly first: number;
  /** By day after the first one: the times of the day, by their index. */
  private readonly byDay: (number[] | undefined)[] = [];

  /** @param times ms, ascending, not many years apart */
  constructor(private readonly times: readonly number[]) {
    this.ledgers = times.map(() => ({ earned: 0, flagged: 0 }));
    this.first = dayOf(times[0] ?? 0);
    for (const [i, time] of times.entries()) (this.byDay[dayOf(time) - this.first] ??= []).push(i);
  }

  /** @param tct of an action; below 0 if it is flagged @param sign -1: it is withdrawn */
  add(occurredAt: number, tct: number, sign: 1 | -1): void {
    const day = dayOf(occurredAt) - this.first;
    if (day < 0 || day >= this.byDay.length) return;
    for (const i of this.byDay[day] ?? []) {
      if (occurredAt > this.times[i]!) continue;
      if (tct < 0) this.ledgers[i]!.flagged -= sign * tct;
      else this.ledgers[i]!.earned += sign * tct;
    }
  }
}

/** Sums actions by the numbers of their metrics and platforms. */
export class ActionTally {
  readonly totals: MetricTotals;
  /** TCT of one action under the lens, in the order of `totals.actions`; below 0 if it is flagged. */
  private readonly tct: Float64Array;
  private readonly numbers = new Float64Array(ACTIONS_PER_ROW * ACTION_STRIDE);
  private readonly byPlatform: { actions: Float64Array; tct: Float64Array; flagged: Float64Array };

  /**
   * @param shares get the actions by platform
   * @param after ms: only actions that occurred later count, except for the sums of days
   */
  constructor(
    metrics: readonly string[],
    private readonly platforms: readonly string[],
    private readonly shares: PlatformShares,
    private readonly after: number,
    private readonly days: DayLedgers,
  ) {
    this.totals = noActions(metrics);
    this.tct = new Float64Array(metrics.length * CRITICALITIES.length);
    for (let number = 0; number < metrics.length; number++) {
      const metric = metrics[number]!;
      const sign = isFlags(metric) ? -1 : 1;
      for (let c = 0; c < CRITICALITIES.length; c++) {
        this.tct[number * CRITICALITIES.length + c] = sign * tctOf(shares.lens, metric, c);
      }
    }
    const zeros = () => new Float64Array(platforms.length);
    this.byPlatform = { actions: zeros(), tct: zeros(), flagged: zeros() };
  }

  /** Adds those actions of a row that are not after a position and occurred up to a time. */
  addRow(first: Position, row: PackedActions, position: Position, until: number): void {
    const { numbers, tct, byPlatform, days, after } = this;
    const { actions, last } = this.totals;
    const end = unpackNumbers(row, numbers);
    for (let at = 0; at < end && first + numbers[at]! <= position; at += ACTION_STRIDE) {
      const occurred = numbers[at + 1]! + EARLIEST;
      if (occurred > until) continue;
      const kind = numbers[at + 2]!;
      const each = tct[kind]!;
      const type = numbers[at + 3]! % ACTION_TYPES.length;
      const sign = type === 1 ? -1 : 1;
      days.add(occurred, each, sign);
      if (occurred <= after) continue;
      const metric = Math.floor(kind / CRITICALITIES.length);
      const platform = (numbers[at + 3]! - type) / ACTION_TYPES.length;
      actions[kind]! += sign;
      if (type > 0) this.totals.withdrawn -= sign;
      if (occurred > last[metric]!) last[metric] = occurred;
      byPlatform.actions[platform]! += sign;
      if (each < 0) byPlatform.flagged[platform]! -= sign * each;
      else byPlatform.tct[platform]! += sign * each;
    }
  }

  /** Adds the actions among an identity's first events, of which there are few. Their metrics have the first numbers. */
  addFirst(events: readonly IdentityEvent[]): void {
    const { totals, after } = this;
    for (const event of events) {
      if (!isOfAction(event)) continue;
      const { data, occurred_at } = event;
      const sign = signOf(event);
      const criticality = CRITICALITIES.indexOf(data.criticality);
      const number = totals.names.indexOf(data.metric);
      const kind = number * CRITICALITIES.length + criticality;
      this.days.add(occurred_at, this.tct[kind]!, sign);
      if (occurred_at <= after) continue;
      this.shares.addAction(data, criticality, sign);
      totals.actions[kind]! += sign;
      totals.withdrawn += withdrawnBy(event);
      totals.last[number] = Math.max(totals.last[number]!, occurred_at);
    }
  }

  /** Adds the sums of the rows by platform to the shares of platforms. */
  async share(): Promise<void> {
    const { actions, tct, flagged } = this.byPlatform;
    for (const [number, platform] of this.platforms.entries()) {
      // The sums may be below 0: of actions before the evidence was spread, only the withdrawals are in them.
      this.shares.add(platform, actions[number]!, tct[number]!, flagged[number]!);
      if (isDue()) await yieldIfDue();
    }
  }
}
