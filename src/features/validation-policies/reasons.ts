import type { IdentityState } from '../../../projections/identities.js';
import { MODEL } from '../../scoring/model.js';
import type { Scoring } from '../../scoring/models/all.js';
import type { EvidenceReader } from '../disc/evidence-reader.js';
import { contributionsOf } from '../disc/explain.js';
import { largest } from '../disc/largest.js';
import type { ReasonDto } from './vp.dto.js';

/** Number of reasons listed for each identity. */
const REASONS = 5;

/** The metrics of an identity whose net TCT changes most between two lenses, largest change first. */
export async function reasonsOf(
  reader: Pick<EvidenceReader, 'metricTotals'>,
  { evidence }: Pick<IdentityState, 'evidence'>,
  before: Scoring,
  after: Scoring,
): Promise<ReasonDto[]> {
  const metrics = await reader.metricTotals();
  const netsUnder = async (lens: Scoring) => {
    const { all, own, flagged } = await contributionsOf(metrics, evidence, lens);
    for (const n of flagged) own[n] = 0 - MODEL.forfeit_factor * all[n]!;
    return own;
  };
  const [old, changed] = [await netsUnder(before), await netsUnder(after)];
  const moved = old.map((tct, n) => Math.abs(changed[n]! - tct));
  const numbers = [...moved.keys()].filter((n) => moved[n]! > 0);
  const most = await largest(numbers, moved, metrics.names, REASONS);
  return most.map((n) => ({ metric: metrics.names[n]!, before_tct: old[n]!, after_tct: changed[n]! }));
}
