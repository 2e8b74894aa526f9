import { type IdentityRow, identityRow } from '../../../projections/identities.js';
import { type PackedMetric, metricRow, unpackMetric } from '../../../projections/evidence-rows.js';
import type { Position } from '../../kernel/event.js';
import type { Views } from '../../read-side/views.js';
import { isFlags } from '../../scoring/names.js';
import { type Scoring, isLimited } from '../../scoring/models/all.js';
import type { Ledger } from '../../scoring/score.js';
import { EvidenceReader } from './evidence-reader.js';

/**
 * The ledger of an identity's present evidence under a lens, without values that decay. Undefined for a large identity
 * under the lens of a policy, or if the TCT of a day is limited: see `readLedger`.
 */
export function ledgerOfRow(row: IdentityRow, lens: Scoring): Ledger | undefined {
  if (lens.tct_by_metric === null && !isLimited(lens)) return { earned: row.earned, flagged: row.flagged };
  return row.evidence ? lens.model.ledger(row.evidence, lens) : undefined;
}

/**
 * An identity's row and its ledger from one snapshot, at or after a position. Undefined if the identity does not exist.
 */
export async function readLedger(
  views: Pick<Views, 'readSince'>,
  trisId: string,
  lens: Scoring,
  position: Position,
): Promise<{ row: IdentityRow; ledger: Ledger; position: Position } | undefined> {
  if (isLimited(lens)) return readLimited(views, trisId, lens, position);
  const weighed = [...(lens.tct_by_metric ?? [])];
  const queries = weighed.map(([metric]) => ({ get: metricRow(trisId, metric) }));
  const read = await views.readSince(position, [{ get: identityRow(trisId) }, ...queries]);
  const [row, ...sums] = read.results as [IdentityRow?, ...(PackedMetric | undefined)[]];
  if (!row) return undefined;
  const known = ledgerOfRow(row, lens);
  if (known) return { row, ledger: known, position: read.position };
  const ledger = { earned: 0, flagged: 0 };
  for (const [i, [metric, tct]] of weighed.entries()) {
    const counts: number[] = [];
    if (sums[i] !== undefined) unpackMetric(sums[i], counts, 0);
    const actions = counts.reduce((total, count) => total + count, 0);
    ledger[isFlags(metric) ? 'flagged' : 'earned'] += actions * tct;
  }
  return { row, ledger, position: read.position };
}

/** As `readLedger`, if the TCT of a day is limited, which needs the evidence by day. */
async function readLimited(views: Pick<Views, 'readSince'>, trisId: string, lens: Scoring, since: Position) {
  const { results, position } = await views.readSince(since, [{ get: identityRow(trisId) }]);
  const row = results[0] as IdentityRow | undefined;
  if (!row) return undefined;
  const known = ledgerOfRow(row, lens);
  if (known) return { row, ledger: known, position };
  const evidence = await new EvidenceReader(views).through({ tris_id: trisId, spread: row.spread!, position }, lens);
  return { row, ledger: lens.model.ledger(evidence, lens), position };
}
