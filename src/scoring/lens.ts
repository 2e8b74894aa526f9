import { canonicalJson, sha256Hex } from '../kernel/hash.js';
import { isFlags } from './names.js';
import { MODEL, TCT_BY_CRITICALITY } from './model.js';

/**
 * A lens gives each action its weight. Without a VP that is the weight of its criticality; under a VP it is the
 * weight of its metric in that VP, and metrics outside the VP do not count (docs/decisions/0013).
 */
export interface Lens {
  /** The VP, or null for the model's own lens. */
  policy_id: string | null;
  content_hash: string;
  /** TCT of one action by canonical metric; null: by the action's own criticality. */
  tct_by_metric: ReadonlyMap<string, number> | null;
}

/** The model's own lens: every action has the weight of its criticality. */
export const MODEL_LENS: Lens = {
  policy_id: null,
  content_hash: sha256Hex(canonicalJson({ policy_id: null, criticality_hundredths: MODEL.criticality_hundredths })),
  tct_by_metric: null,
};

/** TCT of one action under a lens, unsigned: earned, or flagged for a `_flags` metric. */
export function tctOf(lens: Lens, metric: string, criticality: number): number {
  return lens.tct_by_metric ? (lens.tct_by_metric.get(metric) ?? 0) : TCT_BY_CRITICALITY[criticality]!;
}

/** Whether actions of this metric count under a lens. */
export function counts(lens: Lens, metric: string): boolean {
  return lens.tct_by_metric === null || lens.tct_by_metric.has(metric);
}

/** The change of net TCT by one action under a lens: its TCT, or minus ten times its TCT for a `_flags` metric. */
export function netOf(lens: Lens, metric: string, criticality: number): number {
  const tct = tctOf(lens, metric, criticality);
  return isFlags(metric) ? -MODEL.forfeit_factor * tct : tct;
}
