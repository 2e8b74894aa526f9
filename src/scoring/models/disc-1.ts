import { canonicalJson, sha256Hex } from '../../kernel/hash.js';
import { Days, type Evidence, dayOf, totalTct } from '../evidence.js';
import { powersOf, round } from '../exact.js';
import { decayedTct, least } from '../health.js';
import type { Lens } from '../lens.js';
import { isFlags } from '../names.js';
import { MODEL } from '../model.js';
import type { Assessment, Golden, Measure, ScoringModel } from './scoring-model.js';

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

export const GOLDEN: Golden = {
  as_of: 1_782_820_800_000, // 2026-06-30T12:00:00Z, day 20634
  evidence: {
    financial_repayment: [
      [20_630, 0, 0, 0, 0, 3],
      [20_634, 1, 0, 0, 2, 0],
    ],
    social_praise: [
      [20_269, 0, 4, 0, 0, 0],
      [20_634, 0, 0, 1, 0, 0],
    ],
    compliance_kyc_verified: [[20_500, 0, 0, 0, 0, 1]],
    compliance_moderation_flags: [
      [20_600, 1, 0, 0, 0, 0],
      [20_624, 3, 0, 0, 0, 0],
    ],
  },
  ledger: { earned: 960, flagged: 40 },
  score: 10.4,
  reliability: 0.953,
  certainty: null,
  health: [0.6482, 0, 0, 0, 0.1527, 0, 0.1278],
};

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

  /**
   * The expectation of a Beta distribution over decayed positive and negative weights (Jøsang & Ismail, "The Beta
   * Reputation System", 2002).
   */
  reliability(evidence: Evidence, lens: Lens, asOf: number) {
    const earned: Days[] = [];
    const flagged: Days[] = [];
    for (const metric in evidence) {
      (isFlags(metric) ? flagged : earned).push(new Days(metric, evidence[metric]!, lens));
    }
    const weight = (of: Days[]) => decayedTct(of, LEFT_AFTER, dayOf(asOf)) / TCT_PER_WEIGHT;
    return expected(weight(earned), weight(flagged));
  },

  measure(evidence: Evidence, lens: Lens, asOf: number): Measure {
    return { ledger: disc1.ledger(evidence, lens), assessment: disc1.assess(evidence, lens, asOf) };
  },

  assess(evidence: Evidence, lens: Lens, asOf: number): Assessment {
    return { reliability: disc1.reliability(evidence, lens, asOf) };
  },

  certainty: () => null,

  summary: () => null,

  tctToReliability: (reliability: number) => least((tct) => expected(tct / TCT_PER_WEIGHT, 0) >= reliability),
} satisfies ScoringModel;

/** @param p decayed positive weight @param n decayed negative weight */
function expected(p: number, n: number): number {
  return round((p + CONSTANTS.reliability_prior) / (p + n + CONSTANTS.reliability_prior_total), 4);
}
