import { canonicalJson, sha256Hex } from '../../kernel/hash.js';
import { type Evidence, dayOf, eachDay } from '../evidence.js';
import { least, powersOf, round } from '../exact.js';
import type { Lens } from '../lens.js';
import { isFlags } from '../names.js';
import { MODEL, TCT_BY_CRITICALITY } from '../model.js';
import type { Ledger } from '../score.js';
import type { Certainty, Measure, ScoringModel } from './scoring-model.js';

/** Version `disc-2`: reliability from days instead of weights, and a limit on what one day earns (docs/decisions/0025). */

const CONSTANTS = {
  id: 'disc-2',
  ...MODEL,
  /** reliability = (scale·G + prior) / (scale·(G + F) + prior_total), G and F decayed days, half-life 45 days. */
  reliability_daily_factor: 0.9847147529344312, // 45 days
  reliability_scale: 10,
  reliability_prior: 5,
  reliability_prior_total: 6,
  /** How often good actions and flags of one UTC day count. */
  good_per_day: 1,
  flags_per_day: 2,
  /** Evidence G + F of 0 is none, below the first value thin, below the second some, otherwise solid. */
  evidence_steps: [1, 4],
  /** interval = m ± z·√(m(1 − m) / (n + 1)), n = G + F + interval_prior. z is for 90%. */
  interval_z: 1.645,
  interval_prior: 0.6,
} as const;

const LEFT_AFTER = powersOf(CONSTANTS.reliability_daily_factor);
/** The most TCT that one UTC day earns under the model's own lens: that of one action of the highest criticality. */
const MOST_TCT_PER_ACTION = TCT_BY_CRITICALITY.at(-1)!;

/** Decayed counts of days: days with good actions, and days with flags, which count up to twice. */
export interface DecayedDays {
  good: number;
  flags: number;
}

/**
 * The ledger and the decayed days, in one pass.
 * @param asOf ms since the epoch; the evidence must contain no later actions
 */
export function sumsOf(evidence: Evidence, lens: Lens, asOf: number): { ledger: Ledger; days: DecayedDays } {
  const today = dayOf(asOf);
  const most = disc2.earnedPerDay(lens);
  const ledger = { earned: 0, flagged: 0 };
  const days = { good: 0, flags: 0 };
  eachDay(evidence, Object.keys(evidence), lens, (day, earned, flagged, good, flags) => {
    const left = LEFT_AFTER(Math.max(0, today - day));
    ledger.earned += Math.min(earned, most);
    ledger.flagged += flagged;
    days.good += Math.min(good, CONSTANTS.good_per_day) * left;
    days.flags += Math.min(flags, CONSTANTS.flags_per_day) * left;
  });
  return { ledger, days };
}

/** The hash covers these values, so that it changes with a formula and not only with a constant. */
export const GOLDEN = {
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
  ledger: { earned: 540, flagged: 40 },
  score: 7.9,
  /** Exact to the bit. */
  days: { good: 2.0708036262440674, flags: 2.3068062162959126 },
  reliability: 0.5165,
  certainty: {
    evidence: { amount: 4.3776, word: 'solid' },
    reliability_interval: [0.1802, 0.8527],
  } satisfies Certainty,
  health: [0.6482, 0, 0, 0, 0.1527, 0, 0.1278],
};

export const disc2 = {
  id: 'disc-2',
  constants: CONSTANTS,
  hash: sha256Hex(canonicalJson({ constants: CONSTANTS, golden: GOLDEN })),

  /** Under a policy: the TCT of one action of its heaviest input that is not a flag. */
  earnedPerDay({ tct_by_metric }: Lens) {
    if (tct_by_metric === null) return MOST_TCT_PER_ACTION;
    let most = 0;
    for (const [metric, tct] of tct_by_metric) if (!isFlags(metric)) most = Math.max(most, tct);
    return most;
  },

  ledger: (evidence: Evidence, lens: Lens) => sumsOf(evidence, lens, 0).ledger,

  measure(evidence: Evidence, lens: Lens, asOf: number): Measure {
    const { ledger, days } = sumsOf(evidence, lens, asOf);
    return { ledger, assessment: assessmentOf(days) };
  },

  assess: (evidence: Evidence, lens: Lens, asOf: number) => assessmentOf(sumsOf(evidence, lens, asOf).days),

  summary(evidence: Evidence, lens: Lens, asOf: number) {
    const { good, flags } = sumsOf(evidence, lens, asOf).days;
    return (
      `${counted(good, 'good day')} and ${counted(flags, 'flag')} still count. ` +
      'Praise counts once a day, a flag up to twice; half of it fades in 45 days.'
    );
  },

  /** A day counts once, whatever it earns, so each required day costs the most that a day can earn. */
  tctToReliability(reliability: number) {
    return MOST_TCT_PER_ACTION * least((days) => round(expected({ good: days, flags: 0 }), 4) >= reliability);
  },
} satisfies ScoringModel;

function expected({ good, flags }: DecayedDays): number {
  const { reliability_scale: scale, reliability_prior: prior, reliability_prior_total: total } = CONSTANTS;
  return (scale * good + prior) / (scale * (good + flags) + total);
}

function assessmentOf(days: DecayedDays): { reliability: number } & Certainty {
  const sum = days.good + days.flags;
  const mean = expected(days);
  // A square root is exact to the bit everywhere (IEEE 754).
  const margin = CONSTANTS.interval_z * Math.sqrt((mean * (1 - mean)) / (sum + CONSTANTS.interval_prior + 1));
  const amount = round(sum, 4);
  return {
    reliability: round(mean, 4),
    evidence: { amount, word: wordFor(amount) },
    reliability_interval: [round(Math.max(0, mean - margin), 4), round(Math.min(1, mean + margin), 4)],
  };
}

/** One decimal: `1 flag`, `0.3 flags`. */
function counted(amount: number, word: string): string {
  const shown = round(amount, 1);
  return `${shown} ${word}${shown === 1 ? '' : 's'}`;
}

function wordFor(amount: number): Certainty['evidence']['word'] {
  const [some, solid] = CONSTANTS.evidence_steps;
  if (amount === 0) return 'none';
  return amount < some ? 'thin' : amount < solid ? 'some' : 'solid';
}
