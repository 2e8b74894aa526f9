import type { CredonationRow } from '../../../projections/credonations.js';
import type { IdentityEvent } from '../../../projections/identity-events.js';
import { canonicalJson, sha256Hex } from '../../kernel/hash.js';
import { isDue, yieldIfDue } from '../../kernel/turn.js';
import { Days, dayOf } from '../../scoring/evidence.js';
import { round } from '../../scoring/exact.js';
import { isFlags } from '../../scoring/names.js';
import { CRITICALITIES } from '../../scoring/model.js';
import { categoryHealth } from '../../scoring/health.js';
import { disc1 } from '../../scoring/models/disc-1.js';
import { type Ledger, RunningLedger, type Standing, standingOf } from '../../scoring/score.js';
import type { ReportDto } from './disc.dto.js';
import type { SpreadIdentity } from './evidence-reader.js';
import { RunningStanding } from './history.js';
import type { IdentityReader, IdentitySnapshot } from './identity-reader.js';
import { largest } from './largest.js';
import { PlatformShares } from './platform-shares.js';
import { badStatusOf, coordinatesOf, reliabilityOf, verificationsOf } from './score.js';
import { DayLedgers, type MetricTotals } from './source-reader.js';

/** The size of a report: entries in its lists, and points of its trajectory per month (0: no trajectory). */
const DEPTHS = {
  snapshot: { top: 3, pointsPerMonth: 0 },
  insight: { top: 5, pointsPerMonth: 1 },
  analysis: { top: 20, pointsPerMonth: 4 },
} as const;
/** The maximum number of metrics in `actions_by_metric`: those with the most actions. */
const REPORTED_METRICS = 1_000;
export type Depth = keyof typeof DEPTHS;
export const DEPTH_NAMES = Object.keys(DEPTHS) as Depth[];
export const WINDOWS = [1, 3, 6, 12] as const;
export type Window = (typeof WINDOWS)[number];

/** The same UTC time some months earlier; the last day of a shorter month. */
export function monthsBefore(ms: number, months: number): number {
  const date = new Date(ms);
  const day = date.getUTCDate();
  date.setUTCDate(1);
  date.setUTCMonth(date.getUTCMonth() - months);
  const lastDay = new Date(Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1, 0)).getUTCDate();
  date.setUTCDate(Math.min(day, lastDay));
  return date.getTime();
}

/**
 * Builds a report from an identity's events up to the viewpoint, in log order, and its credonations. The trajectory
 * shows the standing as of past times, based on what is known now: an action recorded late changes earlier points.
 */
export class ReportBuilder {
  /** ms: the window begins after this. */
  readonly from: number;
  readonly platforms: PlatformShares;
  private readonly actionsByMetric = new Map<string, number>();
  /** The actions of the window, if they were not added one by one. */
  private totals: MetricTotals | undefined;
  private readonly credonators = new Map<string, { from: string; amount: number; count: number }>();
  /** The ledger at each point, if it was not summed from the actions themselves. */
  private ledgers: readonly Ledger[] | undefined;
  /**
   * Times at which the standing is needed, ascending; the first is the window's start, the last its end. Each has the
   * statements up to it, and the actions since the previous one.
   */
  private readonly points: { at: number; running: RunningStanding }[];

  constructor(
    private readonly snapshot: IdentitySnapshot,
    private readonly window: Window,
    private readonly depth: Depth,
  ) {
    this.from = monthsBefore(snapshot.as_of, window);
    const steps = Math.max(1, DEPTHS[depth].pointsPerMonth * window);
    this.points = Array.from({ length: steps + 1 }, (_, i) => ({
      at: this.from + Math.round(((snapshot.as_of - this.from) * i) / steps),
      running: new RunningStanding(snapshot.lens),
    }));
    this.platforms = new PlatformShares(snapshot.lens);
  }

  addEvent(event: IdentityEvent): void {
    const first = this.points.findIndex(({ at }) => event.occurred_at <= at);
    if (event.type !== 'ActionRelayed') {
      if (first >= 0) for (const { running } of this.points.slice(first)) running.apply(event);
      return;
    }
    this.points[first]?.running.apply(event);
    if (event.occurred_at <= this.from) return;
    this.platforms.addAction(event.data, CRITICALITIES.indexOf(event.data.criticality));
    const { metric } = event.data;
    this.actionsByMetric.set(metric, (this.actionsByMetric.get(metric) ?? 0) + 1);
  }

  /** Sets the actions of the window. Those of its platforms are added to `platforms`. */
  setActions(totals: MetricTotals): void {
    this.totals = totals;
  }

  addCredonation({ from, amount, occurred_at }: CredonationRow): void {
    if (occurred_at <= this.from || occurred_at > this.snapshot.as_of) return;
    this.addCredonations(from, 1, amount);
  }

  /** Adds credonations to the window. @param count negative to remove credonations that were added before */
  addCredonations(from: string, count: number, amount: number): void {
    let credonator = this.credonators.get(from);
    if (!credonator) this.credonators.set(from, (credonator = { from, amount: 0, count: 0 }));
    credonator.amount += amount;
    credonator.count += count;
  }

  /** Times at which the standing is needed, ascending. */
  get times(): number[] {
    return this.points.map(({ at }) => at);
  }

  /** Sets the ledger at each of `times`. */
  setLedgers(ledgers: readonly Ledger[]): void {
    this.ledgers = ledgers;
  }

  /**
   * The report without its proof and generation time. The hash covers all other fields, except that the BAD status is
   * not part of what disc-1 hashes: its reports did not show it, and keep their hashes. The portable hash leaves out the
   * position, which is a place in one log, so it stays the same when the log is migrated.
   */
  async build(logId: string): Promise<Omit<ReportDto, 'proof' | 'generated_at'>> {
    const { snapshot } = this;
    const { top, pointsPerMonth } = DEPTHS[this.depth];
    const standings = this.standings();
    const first = standings[0]!;
    const last = standings.at(-1)!;
    const actions_by_metric = await this.mostActed();
    const metrics = categoryHealth(snapshot.state.evidence, snapshot.lens, snapshot.as_of);
    await yieldIfDue();
    const badStatus = badStatusOf(this.points.at(-1)!.running.badStatus);
    const content = {
      tris_id: snapshot.tris_id,
      period: { from: new Date(this.from).toISOString(), to: new Date(snapshot.as_of).toISOString() },
      window: this.window,
      depth: this.depth,
      score: last.score,
      score_delta: round(last.score - first.score, 1),
      score_rating: last.score_rating,
      total_tct: last.total_tct,
      ...(snapshot.lens.model === disc1 ? {} : badStatus),
      ...reliabilityOf(snapshot),
      trajectory: pointsPerMonth === 0 ? [] : this.points.map(({ at }, i) => pointAt(at, standings[i]!)),
      metrics,
      top_credonators: await this.topCredonators(top),
      top_platforms: await this.platforms.top(top),
      actions_by_metric,
      verification: verificationsOf(snapshot),
      wallets_count: snapshot.state.wallets?.length ?? 0,
      ...coordinatesOf(snapshot, logId),
    };
    await yieldIfDue();
    const report_hash = sha256Hex(canonicalJson(content));
    await yieldIfDue();
    const { position: _, ...portable } = { ...content, ...badStatus };
    const portable_hash = sha256Hex(canonicalJson(portable));
    return { report_id: `rep_${report_hash.slice(0, 32)}`, report_hash, portable_hash, ...content, ...badStatus };
  }

  private async topCredonators(limit: number) {
    const all = [...this.credonators.values()];
    const names = all.map(({ from }) => from);
    const amounts = Float64Array.from(all, ({ amount }) => amount);
    const some = [...all.keys()].filter((n) => all[n]!.count > 0);
    return (await largest(some, amounts, names, limit)).map((n) => all[n]!);
  }

  /** By name. */
  private async mostActed(): Promise<Record<string, number>> {
    const names = this.totals?.names ?? [...this.actionsByMetric.keys()];
    const actions = this.totals ? await actionsOf(this.totals) : Float64Array.from(this.actionsByMetric.values());
    const acted: number[] = [];
    for (const [n, each] of actions.entries()) if (each > 0) acted.push(n);
    const most = await largest(acted, actions, names, REPORTED_METRICS);
    most.sort((a, b) => (names[a]! < names[b]! ? -1 : 1));
    return Object.fromEntries(most.map((n) => [names[n]!, actions[n]!]));
  }

  private standings(): Standing[] {
    const { lens } = this.snapshot;
    const sum = new RunningLedger(lens.model.earnedPerDay(lens));
    return this.points.map(({ running }, i) => {
      if (!this.ledgers) sum.add(running.ledger);
      return standingOf(this.ledgers?.[i] ?? sum, running.badStatus?.level ?? null);
    });
  }
}

function pointAt(at: number, { score, score_rating, total_tct }: Standing) {
  return { at: new Date(at).toISOString(), score, score_rating, total_tct };
}

/** Adds the data of a large identity to a report, from sums. */
export async function addSums(
  builder: ReportBuilder,
  identities: IdentityReader,
  snapshot: IdentitySnapshot,
  large: SpreadIdentity,
): Promise<void> {
  const { sources } = identities;
  for await (const page of identities.statements(snapshot, large.spread)) {
    for (const event of page) builder.addEvent(event);
  }
  const days = new DayLedgers(builder.times.slice(0, -1));
  builder.setActions(await sources.actions(large, builder.platforms, builder.from, days));
  await sources.credonations(large, builder.from, snapshot.as_of, (...some) => builder.addCredonations(...some));
  builder.setLedgers(await ledgersAt(builder.times, days.ledgers, snapshot));
}

/** The actions of each metric. */
async function actionsOf({ names, actions }: MetricTotals): Promise<Float64Array> {
  const sums = new Float64Array(names.length);
  for (let i = 0; i < actions.length; i++) sums[Math.floor(i / CRITICALITIES.length)]! += actions[i]!;
  await yieldIfDue();
  return sums;
}

/**
 * The ledgers up to each of some ascending times; the last time is that of the snapshot.
 * @param partial TCT of the day of each other time, up to that time, without the limit of a day
 */
async function ledgersAt(
  times: readonly number[],
  partial: readonly Ledger[],
  { state, lens }: IdentitySnapshot,
): Promise<Ledger[]> {
  const byDay = new Map<number, Ledger>();
  for (const metric in state.evidence) {
    const kind = isFlags(metric) ? 'flagged' : 'earned';
    for (const days = new Days(metric, state.evidence[metric]!, lens); !days.done; days.next()) {
      let ledger = byDay.get(days.day);
      if (!ledger) byDay.set(days.day, (ledger = { earned: 0, flagged: 0 }));
      ledger[kind] += days.tct;
    }
    if (isDue()) await yieldIfDue();
  }
  const days = [...byDay].sort(([a], [b]) => a - b);
  const limit = lens.model.earnedPerDay(lens);
  const sum = { earned: 0, flagged: 0 };
  let next = 0;
  const ledgers = partial.map(({ earned, flagged }, i) => {
    for (; next < days.length && days[next]![0] < dayOf(times[i]!); next++) {
      sum.earned += Math.min(days[next]![1].earned, limit);
      sum.flagged += days[next]![1].flagged;
    }
    return { earned: sum.earned + Math.min(earned, limit), flagged: sum.flagged + flagged };
  });
  return [...ledgers, lens.model.ledger(state.evidence, lens)];
}
