import { type IdentityRow, identityRow } from '../../../projections/identities.js';
import { type MetricSums, metricRow } from '../../../projections/evidence-rows.js';
import type { Position } from '../../kernel/event.js';
import type { Views } from '../../read-side/views.js';
import type { Lens } from '../../scoring/lens.js';
import { isFlags } from '../../scoring/metrics.js';
import { disc1 } from '../../scoring/models/disc-1.js';
import type { Ledger } from '../../scoring/score.js';

/**
 * What a lens makes of an identity's present evidence, without looking at what decays. Undefined for a large identity
 * through the lens of a policy: see `readLedger`.
 */
export function ledgerOfRow(row: IdentityRow, lens: Lens): Ledger | undefined {
  if (lens.tct_by_metric === null) return { earned: row.earned, flagged: row.flagged };
  return row.evidence ? disc1.ledger(row.evidence, lens) : undefined;
}

/** An identity's row and its ledger, of one moment, at or after a position. Undefined: there is no such identity. */
export async function readLedger(
  views: Pick<Views, 'readSince'>,
  trisId: string,
  lens: Lens,
  position: Position,
): Promise<{ row: IdentityRow; ledger: Ledger; position: Position } | undefined> {
  const weighed = [...(lens.tct_by_metric ?? [])];
  const queries = weighed.map(([metric]) => ({ get: metricRow(trisId, metric) }));
  const read = await views.readSince(position, [{ get: identityRow(trisId) }, ...queries]);
  const [row, ...sums] = read.results as unknown as [IdentityRow?, ...(MetricSums | undefined)[]];
  if (!row) return undefined;
  const known = ledgerOfRow(row, lens);
  if (known) return { row, ledger: known, position: read.position };
  const ledger = { earned: 0, flagged: 0 };
  for (const [i, [metric, tct]] of weighed.entries()) {
    const actions = (sums[i]?.counts ?? []).reduce((total, count) => total + count, 0);
    ledger[isFlags(metric) ? 'flagged' : 'earned'] += actions * tct;
  }
  return { row, ledger, position: read.position };
}
