import { type Evidence, addAction } from '../../src/scoring/evidence.js';
import type { Lens } from '../../src/scoring/lens.js';
import { CRITICALITIES, type Criticality } from '../../src/scoring/model.js';

export const DAY = 86_400_000;
/** A Monday at noon UTC. */
export const TODAY = Date.UTC(2026, 0, 5, 12);

export interface ScoredAction {
  metric: string;
  criticality: Criticality;
  /** ms since the epoch. */
  at: number;
}

export function action(metric: string, criticality: Criticality, daysAgo = 0): ScoredAction {
  return { metric, criticality, at: TODAY - daysAgo * DAY };
}

export function evidenceOf(actions: readonly ScoredAction[], evidence: Evidence = {}): Evidence {
  for (const { metric, criticality, at } of actions) {
    addAction(evidence, metric, CRITICALITIES.indexOf(criticality), at);
  }
  return evidence;
}

/** A lens as a VP gives it: TCT by metric, everything else weighs nothing. */
export function vpLens(tctByMetric: Record<string, number>): Lens {
  return { policy_id: 'VP_TEST_V1', content_hash: 'f'.repeat(64), tct_by_metric: new Map(Object.entries(tctByMetric)) };
}
