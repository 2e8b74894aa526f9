import type { IdentityEvent } from '../../../projections/identity-events.js';
import { countActions, totalTct } from '../../scoring/evidence.js';
import { round } from '../../scoring/exact.js';
import { tctOf } from '../../scoring/lens.js';
import { isFlags, metricCategory } from '../../scoring/metrics.js';
import { CRITICALITIES, MODEL } from '../../scoring/model.js';
import { disc1 } from '../../scoring/models/disc-1.js';
import { nextRating } from '../../scoring/score.js';
import type { ExplanationDto, PlatformShareDto } from './disc.dto.js';
import type { IdentitySnapshot } from './identity-reader.js';
import { coordinatesOf, standing } from './score.js';

/** The contributions to a score, largest first, and the TCT missing for the next rating. */
export function explain(snapshot: IdentitySnapshot, platforms: PlatformShareDto[], logId: string): ExplanationDto {
  const { state, lens } = snapshot;
  const ledger = disc1.ledger(state.evidence, lens);
  const metrics = Object.entries(state.evidence).map(([metric, entry]) => ({
    metric,
    category: metricCategory(metric),
    actions: countActions(entry),
    tct: totalTct(metric, entry, lens),
    last_at: new Date(entry.last).toISOString(),
  }));
  metrics.sort((a, b) => b.tct - a.tct || (a.metric < b.metric ? -1 : 1));
  return {
    tris_id: snapshot.tris_id,
    score: standing(snapshot).score,
    contributions: metrics
      .filter(({ metric }) => !isFlags(metric))
      .map((part) => ({ ...part, share: ledger.earned === 0 ? 0 : round(part.tct / ledger.earned, 4) })),
    platforms,
    forfeits: metrics
      .filter(({ metric }) => isFlags(metric))
      .map(({ tct, ...part }) => ({ ...part, flagged_tct: tct, forfeited_tct: MODEL.forfeit_factor * tct })),
    // An explicit BAD status overrides the score, whatever is earned.
    next_rating: state.bad_status ? null : nextRating(ledger),
    ...coordinatesOf(snapshot, logId),
  };
}

/** The contribution of each platform, largest first, then by platform id. */
export class PlatformShares {
  private readonly shares = new Map<string, PlatformShareDto>();

  constructor(private readonly lens: IdentitySnapshot['lens']) {}

  add(event: IdentityEvent): void {
    if (event.type !== 'ActionRelayed') return;
    const { metric, criticality, platform_id } = event.data;
    let share = this.shares.get(platform_id);
    if (!share) this.shares.set(platform_id, (share = { platform_id, actions: 0, tct: 0, flagged_tct: 0 }));
    share.actions++;
    share[isFlags(metric) ? 'flagged_tct' : 'tct'] += tctOf(this.lens, metric, CRITICALITIES.indexOf(criticality));
  }

  top(limit: number): PlatformShareDto[] {
    const weight = ({ tct, flagged_tct }: PlatformShareDto) => tct + MODEL.forfeit_factor * flagged_tct;
    return [...this.shares.values()]
      .sort((a, b) => weight(b) - weight(a) || (a.platform_id < b.platform_id ? -1 : 1))
      .slice(0, limit);
  }
}
