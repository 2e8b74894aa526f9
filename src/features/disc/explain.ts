import { isDue, mapInParts, yieldIfDue } from '../../kernel/turn.js';
import { divide, earnedByCategory } from '../../scoring/contributions.js';
import type { Evidence } from '../../scoring/evidence.js';
import { round } from '../../scoring/exact.js';
import type { Lens } from '../../scoring/lens.js';
import { isFlags, metricCategory } from '../../scoring/names.js';
import { type Category, CRITICALITIES, MODEL, TCT_BY_CRITICALITY } from '../../scoring/model.js';
import type { Scoring } from '../../scoring/models/all.js';
import { type Ledger, nextRating, standingOf } from '../../scoring/score.js';
import type { MetricTotals } from './action-tally.js';
import type { ExplanationDto } from './disc.dto.js';
import type { IdentitySnapshot } from './identity-reader.js';
import { largest } from './largest.js';
import { PlatformShares } from './platform-shares.js';
import { badStatusOf, coordinatesOf, reliabilityOf } from './score.js';

/** The maximum length of an explanation's lists, which contain the largest contributions. */
const EXPLAINED_METRICS = 1_000;
/** Also that of the list of counterparties. */
const EXPLAINED_PLATFORMS = 100;

/** The contributions to a score, largest first, and the TCT missing for the next rating. */
export async function explain(snapshot: IdentitySnapshot, logId: string): Promise<ExplanationDto> {
  const { state, lens, as_of } = snapshot;
  const platforms = new PlatformShares(lens);
  const metrics = await snapshot.reader.sums(platforms);
  const { names, last } = metrics;
  const ledger = lens.model.ledger(state.evidence, lens);
  const { all, own, flagged, earned } = await contributionsOf(metrics, state.evidence, lens);
  const contributed = await mapInParts(await largest(earned, own, names, EXPLAINED_METRICS), async (n) => ({
    metric: names[n]!,
    category: metricCategory(names[n]!),
    actions: actionsOf(metrics, n),
    tct: own[n]!,
    last_at: new Date(last[n]!).toISOString(),
    share: ledger.earned === 0 ? 0 : round(own[n]! / ledger.earned, 4),
  }));
  const forfeits = await mapInParts(await largest(flagged, all, names, EXPLAINED_METRICS), async (n) => ({
    metric: names[n]!,
    category: metricCategory(names[n]!),
    actions: actionsOf(metrics, n),
    last_at: new Date(last[n]!).toISOString(),
    flagged_tct: all[n]!,
    forfeited_tct: MODEL.forfeit_factor * all[n]!,
  }));
  const summary = lens.model.summary(state.evidence, lens, as_of);
  const counterparties = await platforms.topCounterparties(EXPLAINED_PLATFORMS);
  return {
    tris_id: snapshot.tris_id,
    score: standingOf(ledger, state.bad_status?.level ?? null).score,
    ...badStatusOf(state.bad_status),
    ...(summary !== null && { summary, ...reliabilityOf(snapshot) }),
    contributions: contributed,
    platforms: await platforms.top(EXPLAINED_PLATFORMS),
    ...(counterparties.length > 0 && { counterparties }),
    forfeits,
    ...(metrics.withdrawn > 0 && { withdrawn: metrics.withdrawn }),
    // An explicit BAD status overrides the score, whatever is earned.
    next_rating: state.bad_status ? null : nextOf(ledger, lens.model.earnedPerDay(lens)),
    ...coordinatesOf(snapshot, logId),
  };
}

function nextOf(ledger: Ledger, limit: number): ExplanationDto['next_rating'] {
  const next = nextRating(ledger);
  if (next === null || limit === Infinity) return next;
  return { ...next, days_needed: limit === 0 ? null : Math.ceil(next.tct_needed / limit) };
}

/**
 * By the numbers of metrics: the TCT of `all` under a lens, without the limit of a day, and the `own` contribution of
 * those that are not flags; and the numbers of the metrics of either kind.
 *
 * If the TCT of a day is limited, contributions are whole TCT that add up to the earned TCT: the limited TCT of a day is
 * divided among its categories in proportion to the TCT of each on that day, and the resulting TCT of a category among
 * its metrics in proportion to the total TCT of each. So only the totals of categories by day and the totals of metrics
 * are needed, whatever the size of the identity.
 * @param evidence by metric, or by the totals of categories
 */
export async function contributionsOf(metrics: MetricTotals, evidence: Evidence, lens: Scoring) {
  const { names, actions } = metrics;
  const all = new Float64Array(names.length);
  const [earned, flagged]: [number[], number[]] = [[], []];
  for (let n = 0; n < names.length; n++) {
    if (actionsOf(metrics, n) === 0) continue;
    (isFlags(names[n]!) ? flagged : earned).push(n);
    const each = lens.tct_by_metric ? (lens.tct_by_metric.get(names[n]!) ?? 0) : undefined;
    for (let c = 0; c < CRITICALITIES.length; c++) {
      all[n]! += actions[n * CRITICALITIES.length + c]! * (each ?? TCT_BY_CRITICALITY[c]!);
    }
    if (isDue()) await yieldIfDue();
  }
  const limit = lens.model.earnedPerDay(lens);
  const own = limit === Infinity ? all.slice() : await sharesOf(names, earned, all, evidence, lens, limit);
  return { all, own, flagged, earned };
}

function actionsOf({ actions }: MetricTotals, number: number): number {
  let sum = 0;
  for (let c = 0; c < CRITICALITIES.length; c++) sum += actions[number * CRITICALITIES.length + c]!;
  return sum;
}

/** The contribution of each metric that is not a flag, by its number, if the TCT of a day is limited. */
async function sharesOf(
  names: readonly string[],
  numbers: readonly number[],
  tct: Float64Array,
  evidence: Evidence,
  lens: Lens,
  limit: number,
): Promise<Float64Array> {
  const shares = new Float64Array(names.length);
  const byCategory = new Map<Category, number[]>(MODEL.categories.map((category) => [category, []]));
  for (const n of numbers) {
    byCategory.get(metricCategory(names[n]!))!.push(n);
    if (isDue()) await yieldIfDue();
  }
  const left = earnedByCategory(evidence, lens, limit);
  for (const [category, own] of byCategory) {
    const sorted = own.sort((a, b) => (names[a]! < names[b]! ? -1 : 1));
    await yieldIfDue();
    const whole = sorted.map((n) => tct[n]!);
    const parts = divide(left[category], whole);
    for (const [i, n] of sorted.entries()) shares[n] = parts[i]!;
    await yieldIfDue();
  }
  return shares;
}
