import type { PlatformRow } from '../../../projections/evidence-rows.js';
import { type Lens, tctOf } from '../../scoring/lens.js';
import { isFlags } from '../../scoring/names.js';
import { CRITICALITIES, MODEL, TCT_BY_CRITICALITY } from '../../scoring/model.js';
import type { PlatformShareDto } from './disc.dto.js';

/** The contribution of each platform under a lens. */
export class PlatformShares {
  private readonly shares = new Map<string, PlatformShareDto>();

  constructor(readonly lens: Lens) {}

  /** Adds an action. */
  addAction({ metric, platform_id }: { metric: string; platform_id: string }, criticality: number): void {
    const tct = tctOf(this.lens, metric, criticality);
    this.add(platform_id, 1, isFlags(metric) ? 0 : tct, isFlags(metric) ? tct : 0);
  }

  /** Adds all actions of a platform under the model's own lens, which depends on nothing but their criticality. */
  addRow(platformId: string, { counts }: PlatformRow): void {
    let [tct, flagged] = [0, 0];
    for (const [criticality, each] of TCT_BY_CRITICALITY.entries()) {
      tct += counts[criticality]! * each;
      flagged += counts[CRITICALITIES.length + criticality]! * each;
    }
    this.add(
      platformId,
      counts.reduce((sum, count) => sum + count, 0),
      tct,
      flagged,
    );
  }

  add(platformId: string, actions: number, tct: number, flagged: number): void {
    let share = this.shares.get(platformId);
    if (!share) {
      share = { platform_id: platformId, actions: 0, tct: 0, flagged_tct: 0 };
      this.shares.set(platformId, share);
    }
    share.actions += actions;
    share.tct += tct;
    share.flagged_tct += flagged;
  }

  /** The largest, then by platform id. */
  top(limit: number): PlatformShareDto[] {
    const weight = ({ tct, flagged_tct }: PlatformShareDto) => tct + MODEL.forfeit_factor * flagged_tct;
    return [...this.shares.values()]
      .sort((a, b) => weight(b) - weight(a) || (a.platform_id < b.platform_id ? -1 : 1))
      .slice(0, limit);
  }
}
