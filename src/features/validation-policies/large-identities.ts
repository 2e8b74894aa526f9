import { totalOf } from '../../../projections/evidence-rows.js';
import type { IdentityRow, IdentityState } from '../../../projections/identities.js';
import type { Position } from '../../kernel/event.js';
import { yieldIfDue } from '../../kernel/turn.js';
import type { Views } from '../../read-side/views.js';
import { takeDays } from '../../scoring/evidence.js';
import { type Lens, MODEL_LENS } from '../../scoring/lens.js';
import { MODEL } from '../../scoring/model.js';
import type { Scoring } from '../../scoring/models/all.js';
import { EvidenceReader, type SpreadIdentity } from '../disc/evidence-reader.js';
import { contributionsOf } from '../disc/explain.js';
import { largest } from '../disc/largest.js';
import { PlatformShares } from '../disc/platform-shares.js';
import { type MetricTotals, SourceReader } from '../disc/source-reader.js';
import { type MetricChange, REASONS } from './comparison.js';

/** A large identity with only the evidence that some lenses need. */
export interface LargeState extends IdentityState {
  large: SpreadIdentity;
}

/** Reads large identities for comparisons under some lenses, from sums: however many metrics there are. */
export class LargeIdentities {
  private readonly evidence: EvidenceReader;
  private readonly sources: SourceReader;
  private readonly weighed: string[];

  constructor(views: Pick<Views, 'readSince'>, lenses: readonly Lens[]) {
    this.evidence = new EvidenceReader(views);
    this.sources = new SourceReader(views, this.evidence);
    this.weighed = [...new Set(lenses.flatMap(({ tct_by_metric }) => [...(tct_by_metric?.keys() ?? [])]))];
  }

  /**
   * Its evidence has the metrics that some lens weighs. All others count together in their category, and only under the
   * model's own lens: they are named like no metric of a policy.
   */
  async state(trisId: string, row: IdentityRow, position: Position): Promise<LargeState> {
    const large = { tris_id: trisId, spread: row.spread!, position };
    const evidence = await this.evidence.ofMetrics(large, this.weighed);
    const totals = await this.evidence.through(large, MODEL_LENS);
    for (const [metric, { days }] of Object.entries(evidence)) {
      takeDays(totals[totalOf(metric)]!.days, days);
      await yieldIfDue();
    }
    for (const [total, others] of Object.entries(totals)) evidence[total.replace('_', '_*_')] = others;
    return { ...row, evidence, large };
  }

  /** The metrics whose net TCT changes most between two lenses, largest change first. */
  async reasons({ large, evidence }: LargeState, before: Scoring, after: Scoring): Promise<MetricChange[]> {
    const platforms = new PlatformShares(MODEL_LENS);
    const metrics = (await this.sources.present(large, platforms)) ?? (await this.sources.actions(large, platforms));
    const netsUnder = async (lens: Scoring) => {
      const { all, own, flagged } = await contributionsOf(metrics, evidence, lens);
      for (const n of flagged) own[n] = 0 - MODEL.forfeit_factor * all[n]!;
      return own;
    };
    return changesBetween(metrics, await netsUnder(before), await netsUnder(after));
  }
}

async function changesBetween(
  { names }: MetricTotals,
  before: Float64Array,
  after: Float64Array,
): Promise<MetricChange[]> {
  const moved = before.map((tct, n) => Math.abs(after[n]! - tct));
  const numbers = [...moved.keys()].filter((n) => moved[n]! > 0);
  const most = await largest(numbers, moved, names, REASONS);
  return most.map((n) => ({ metric: names[n]!, before_tct: before[n]!, after_tct: after[n]! }));
}
