import { canonicalJson, sha256Hex } from '../../kernel/hash.js';
import { type Evidence, dayOf, totalTct } from '../evidence.js';
import { least, powersOf, round } from '../exact.js';
import { decayedTct } from '../health.js';
import type { Lens } from '../lens.js';
import { isFlags } from '../names.js';
import { MODEL } from '../model.js';
import type { Assessment, Measure, ScoringModel } from './scoring-model.js';

/** Version `disc-1`: reliability from decayed weights (docs/decisions/0011). */

const CONSTANTS = {
  id: 'disc-1',
  ...MODEL,
  /** reliability = (p + prior) / (p + n + prior_total): Beta reputation, Jøsang & Ismail 2002, half-life 45 days. */
  reliability_daily_factor: 0.9847147529344312, // 45 days
  reliability_prior: 0.05,
  reliability_prior_total: 0.055,
} as const;

const LEFT_AFTER = powersOf(CONSTANTS.reliability_daily_factor);
/** TCT of an action of weight 1. */
const TCT_PER_WEIGHT = 1_000;

export const disc1 = {
  id: 'disc-1',
  constants: CONSTANTS,
  /** Hash of the constants only: this version was in use before hashes covered golden values. */
  hash: sha256Hex(canonicalJson(CONSTANTS)),

  earnedPerDay: () => Infinity,

  ledger(evidence: Evidence, lens: Lens) {
    const ledger = { earned: 0, flagged: 0 };
    for (const metric in evidence) {
      const tct = totalTct(metric, evidence[metric]!, lens);
      if (isFlags(metric)) ledger.flagged += tct;
      else ledger.earned += tct;
    }
    return ledger;
  },

  measure(evidence: Evidence, lens: Lens, asOf: number): Measure {
    return { ledger: disc1.ledger(evidence, lens), assessment: disc1.assess(evidence, lens, asOf) };
  },

  /**
   * The expectation of a Beta distribution over decayed positive and negative weights (Jøsang & Ismail, "The Beta
   * Reputation System", 2002).
   */
  assess(evidence: Evidence, lens: Lens, asOf: number): Assessment {
    const { earned, flagged } = decayedTct(evidence, Object.keys(evidence), lens, LEFT_AFTER, dayOf(asOf));
    return { reliability: expected(earned / TCT_PER_WEIGHT, flagged / TCT_PER_WEIGHT) };
  },

  summary: () => null,

  tctToReliability: (reliability: number) => least((tct) => expected(tct / TCT_PER_WEIGHT, 0) >= reliability),
} satisfies ScoringModel;

/** @param p decayed positive weight @param n decayed negative weight */
function expected(p: number, n: number): number {
  return round((p + CONSTANTS.reliability_prior) / (p + n + CONSTANTS.reliability_prior_total), 4);
}
