import { evolve, newIdentity } from '../../../projections/identities.js';
import { canonicalJson, sha256Hex } from '../../kernel/hash.js';
import { FIRST_TIME } from '../../kernel/identifiers.js';
import { yieldIfDue } from '../../kernel/turn.js';
import { dayOf, eachDay } from '../../scoring/evidence.js';
import { round } from '../../scoring/exact.js';
import { CRITICALITIES } from '../../scoring/model.js';
import { categoryHealth } from '../../scoring/health.js';
import { disc1 } from '../../scoring/models/disc-1.js';
import { type Ledger, standingOf } from '../../scoring/score.js';
import { DayLedgers, type MetricTotals } from './action-tally.js';
import type { ReportDto } from './disc.dto.js';
import type { IdentitySnapshot } from './identity-reader.js';
import { largest } from './largest.js';
import { PlatformShares } from './platform-shares.js';
import { badStatusOf, coordinatesOf, disputedOf, reliabilityOf, verificationsOf } from './score.js';

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

/** The same UTC time some months earlier; the last day of a shorter month. Not before the year 0. */
export function monthsBefore(ms: number, months: number): number {
  const date = new Date(ms);
  const day = date.getUTCDate();
  // The last day of the month.
  date.setUTCMonth(date.getUTCMonth() - months + 1, 0);
  date.setUTCDate(Math.min(day, date.getUTCDate()));
  return Math.max(FIRST_TIME, date.getTime());
}

/**
 * The report about an identity without its proof and generation time. Its trajectory shows the standing as of past
 * times, based on what is known now: an action recorded late changes earlier points.
 *
 * The hash covers all other fields but two. The number of disputes is that of now, not of the viewpoint. The BAD status is
 * not part of what disc-1 hashes: its reports did not show it, and keep their hashes. The portable hash leaves out the
 * position, which is a place in one log, so it stays the same when the log is migrated.
 */
export async function reportOf(
  snapshot: IdentitySnapshot,
  window: Window,
  depth: Depth,
  logId: string,
): Promise<Omit<ReportDto, 'proof' | 'generated_at'>> {
  const { tris_id, as_of, lens, state, reader } = snapshot;
  const { top, pointsPerMonth } = DEPTHS[depth];
  // The window begins after this.
  const from = monthsBefore(as_of, window);
  const steps = Math.max(1, pointsPerMonth * window);
  const times = Array.from({ length: steps + 1 }, (_, i) => from + Math.round(((as_of - from) * i) / steps));
  const statuses = times.map(() => newIdentity());
  for await (const events of reader.statements()) {
    for (const event of events) {
      if (event.type !== 'BadStatusSet' && event.type !== 'BadStatusCleared') continue;
      for (const [i, time] of times.entries()) if (event.occurred_at <= time) evolve(statuses[i]!, event);
    }
  }
  const platforms = new PlatformShares(lens);
  const days = new DayLedgers(times.slice(0, -1));
  const acted = await reader.sums(platforms, from, days);
  const top_credonators = await topCredonators(snapshot, from, top);
  const ledgers = await ledgersAt(times, days.ledgers, snapshot);
  const points = ledgers.map((ledger, i) => {
    const { score, score_rating, total_tct } = standingOf(ledger, statuses[i]!.bad_status?.level ?? null);
    return { at: new Date(times[i]!).toISOString(), score, score_rating, total_tct };
  });
  const [first, last] = [points[0]!, points.at(-1)!];
  const actions_by_metric = await mostActed(acted);
  const metrics = categoryHealth(state.evidence, lens, as_of);
  await yieldIfDue();
  const badStatus = badStatusOf(statuses.at(-1)!.bad_status);
  const content = {
    tris_id,
    period: { from: new Date(from).toISOString(), to: new Date(as_of).toISOString() },
    window,
    depth,
    score: last.score,
    score_delta: round(last.score - first.score, 1),
    score_rating: last.score_rating,
    total_tct: last.total_tct,
    ...(lens.model === disc1 ? {} : badStatus),
    ...reliabilityOf(snapshot),
    trajectory: pointsPerMonth === 0 ? [] : points,
    metrics,
    top_credonators,
    top_platforms: await platforms.top(top),
    actions_by_metric,
    ...(acted.withdrawn > 0 && { withdrawn: acted.withdrawn }),
    verification: verificationsOf(snapshot),
    wallets_count: state.wallets?.length ?? 0,
    ...coordinatesOf(snapshot, logId),
  };
  await yieldIfDue();
  const report_hash = sha256Hex(canonicalJson(content));
  await yieldIfDue();
  const { position: _, ...portable } = { ...content, ...badStatus };
  const portable_hash = sha256Hex(canonicalJson(portable));
  const outside = { ...badStatus, ...disputedOf(snapshot) };
  return { report_id: `rep_${report_hash.slice(0, 32)}`, report_hash, portable_hash, ...content, ...outside };
}

/** Who endorsed the identity after a time, largest amount first. */
async function topCredonators({ reader }: IdentitySnapshot, after: number, limit: number) {
  const bySender = new Map<string, { from: string; amount: number; count: number }>();
  await reader.credonations(after, (from, count, amount) => {
    let sender = bySender.get(from);
    if (!sender) bySender.set(from, (sender = { from, amount: 0, count: 0 }));
    sender.amount += amount;
    sender.count += count;
  });
  const all = [...bySender.values()].filter(({ count }) => count > 0);
  await yieldIfDue();
  const names = all.map(({ from }) => from);
  const amounts = Float64Array.from(all, ({ amount }) => amount);
  await yieldIfDue();
  return (await largest([...all.keys()], amounts, names, limit)).map((n) => all[n]!);
}

/** The metrics with the most actions, by name. */
async function mostActed({ names, actions }: MetricTotals): Promise<Record<string, number>> {
  const sums = new Float64Array(names.length);
  for (let i = 0; i < actions.length; i++) sums[Math.floor(i / CRITICALITIES.length)]! += actions[i]!;
  await yieldIfDue();
  const acted: number[] = [];
  for (const [n, each] of sums.entries()) if (each > 0) acted.push(n);
  const most = await largest(acted, sums, names, REPORTED_METRICS);
  most.sort((a, b) => (names[a]! < names[b]! ? -1 : 1));
  return Object.fromEntries(most.map((n) => [names[n]!, sums[n]!]));
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
  const days: { day: number; earned: number; flagged: number }[] = [];
  eachDay(state.evidence, Object.keys(state.evidence), lens, (day, earned, flagged) => {
    days.push({ day, earned, flagged });
  });
  await yieldIfDue();
  const limit = lens.model.earnedPerDay(lens);
  const sum = { earned: 0, flagged: 0 };
  let next = 0;
  const ledgers = partial.map(({ earned, flagged }, i) => {
    for (; next < days.length && days[next]!.day < dayOf(times[i]!); next++) {
      sum.earned += Math.min(days[next]!.earned, limit);
      sum.flagged += days[next]!.flagged;
    }
    return { earned: sum.earned + Math.min(earned, limit), flagged: sum.flagged + flagged };
  });
  return [...ledgers, lens.model.ledger(state.evidence, lens)];
}
