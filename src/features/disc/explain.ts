import type { MetricSums } from '../../../projections/evidence-rows.js';
import { isDue, yieldIfDue } from '../../kernel/turn.js';
import { contributions } from '../../scoring/contributions.js';
import { type Evidence, STRIDE } from '../../scoring/evidence.js';
import { round } from '../../scoring/exact.js';
import { type Lens, tctOf } from '../../scoring/lens.js';
import { isFlags, metricCategory } from '../../scoring/metrics.js';
import { CRITICALITIES, MODEL } from '../../scoring/model.js';
import { type Ledger, nextRating } from '../../scoring/score.js';
import type { ExplanationDto } from './disc.dto.js';
import type { IdentityReader, IdentitySnapshot } from './identity-reader.js';
import { PlatformShares } from './platform-shares.js';
import { badStatusOf, coordinatesOf, reliabilityOf, standing } from './score.js';

/** The maximum length of an explanation's lists, which contain the largest contributions. */
const EXPLAINED_METRICS = 1_000;
const EXPLAINED_PLATFORMS = 100;

/** The sums of an identity's actions by metric and by platform. */
interface Parts {
  metrics: Map<string, MetricSums>;
  platforms: PlatformShares;
}

interface Part {
  metric: string;
  actions: number;
  tct: number;
  last: number;
}

/** The contributions to a score, largest first, and the TCT missing for the next rating. */
export async function explain(
  snapshot: IdentitySnapshot,
  { metrics, platforms }: Parts,
  logId: string,
): Promise<ExplanationDto> {
  const { state, lens } = snapshot;
  const ledger = lens.model.ledger(state.evidence, lens);
  const limit = lens.model.earnedPerDay(lens);
  const shares = sharesOf(metrics, state.evidence, lens, limit);
  const earned = await toldOf(await largest(metrics, lens, (metric) => !isFlags(metric), shares), (part) => ({
    metric: part.metric,
    category: metricCategory(part.metric),
    actions: part.actions,
    tct: part.tct,
    last_at: new Date(part.last).toISOString(),
    share: ledger.earned === 0 ? 0 : round(part.tct / ledger.earned, 4),
  }));
  const forfeits = await toldOf(await largest(metrics, lens, isFlags), (part) => ({
    metric: part.metric,
    category: metricCategory(part.metric),
    actions: part.actions,
    last_at: new Date(part.last).toISOString(),
    flagged_tct: part.tct,
    forfeited_tct: MODEL.forfeit_factor * part.tct,
  }));
  return {
    tris_id: snapshot.tris_id,
    score: standing(snapshot).score,
    ...badStatusOf(state.bad_status),
    ...summaryOf(snapshot),
    contributions: earned,
    platforms: platforms.top(EXPLAINED_PLATFORMS),
    forfeits,
    // An explicit BAD status overrides the score, whatever is earned.
    next_rating: state.bad_status ? null : nextOf(ledger, limit),
    ...coordinatesOf(snapshot, logId),
  };
}

/** The evidence for the reliability, in versions that report it. */
function summaryOf(snapshot: IdentitySnapshot) {
  const summary = snapshot.lens.model.summary(snapshot.state.evidence, snapshot.lens, snapshot.as_of);
  return summary === null ? {} : { summary, ...reliabilityOf(snapshot) };
}

function nextOf(ledger: Ledger, limit: number): ExplanationDto['next_rating'] {
  const next = nextRating(ledger);
  if (next === null || limit === Infinity) return next;
  return { ...next, days_needed: limit === 0 ? null : Math.ceil(next.tct_needed / limit) };
}

async function toldOf<T>(parts: readonly Part[], tell: (part: Part) => T): Promise<T[]> {
  const told: T[] = [];
  for (const part of parts) {
    told.push(tell(part));
    if (isDue()) await yieldIfDue();
  }
  return told;
}

/** The contribution of each metric that is not a flag, if the TCT of a day is limited. */
function sharesOf(metrics: ReadonlyMap<string, MetricSums>, evidence: Evidence, lens: Lens, limit: number) {
  if (limit === Infinity) return undefined;
  const earned = new Map<string, number>();
  for (const [metric, { counts }] of metrics) {
    if (isFlags(metric)) continue;
    let tct = 0;
    for (const [criticality, count] of counts.entries()) tct += count * tctOf(lens, metric, criticality);
    earned.set(metric, tct);
  }
  return contributions(evidence, earned, lens, limit);
}

/**
 * The metrics of one kind with the most TCT under a lens, then by name.
 * @param shares their TCT, if it differs from the TCT of all their actions
 */
async function largest(
  metrics: ReadonlyMap<string, MetricSums>,
  lens: Lens,
  isOne: (metric: string) => boolean,
  shares?: ReadonlyMap<string, number>,
): Promise<Part[]> {
  let parts: Part[] = [];
  const cut = () => {
    parts.sort((a, b) => b.tct - a.tct || (a.metric < b.metric ? -1 : 1));
    parts = parts.slice(0, EXPLAINED_METRICS);
  };
  for (const [metric, { counts, last }] of metrics) {
    if (!isOne(metric)) continue;
    let [actions, tct] = [0, 0];
    for (const [criticality, count] of counts.entries()) {
      actions += count;
      tct += count * tctOf(lens, metric, criticality);
    }
    parts.push({ metric, actions, tct: shares?.get(metric) ?? tct, last });
    if (parts.length === 2 * EXPLAINED_METRICS) cut();
    if (isDue()) await yieldIfDue();
  }
  cut();
  await yieldIfDue();
  return parts;
}

/** The input of an explanation, for an identity of any size. */
export async function partsOf(identities: IdentityReader, snapshot: IdentitySnapshot): Promise<Parts> {
  const { large, lens, state } = snapshot;
  const platforms = new PlatformShares(lens);
  if (large) {
    const { sources } = identities;
    return {
      metrics: (await sources.present(large, platforms)) ?? (await sources.actions(large, platforms)),
      platforms,
    };
  }
  for await (const page of identities.events(snapshot.tris_id, snapshot)) {
    for (const { type, data } of page) {
      if (type === 'ActionRelayed') platforms.addAction(data, CRITICALITIES.indexOf(data.criticality));
    }
  }
  const metrics = Object.entries(state.evidence).map(([metric, { last, days }]) => {
    const counts = CRITICALITIES.map(() => 0);
    for (let at = 0; at < days.length; at += STRIDE) {
      for (const criticality of counts.keys()) counts[criticality]! += days[at + 1 + criticality]!;
    }
    return [metric, { counts, last }] as const;
  });
  return { metrics: new Map(metrics), platforms };
}
