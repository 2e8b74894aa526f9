import type { Evidence } from '../evidence.js';
import type { Lens } from '../lens.js';
import type { Ledger } from '../score.js';

export type ModelId = 'disc-1' | 'disc-2';

/** How much evidence a reliability rests on. */
export const EVIDENCE_WORDS = ['none', 'thin', 'some', 'solid'] as const;

export interface Certainty {
  /** Good days and flags that still count, four decimals, and a word for it. */
  evidence: { amount: number; word: (typeof EVIDENCE_WORDS)[number] };
  /** The range in which the reliability lies with a probability of 90%, 0..1, four decimals. */
  reliability_interval: [low: number, high: number];
}

export type Assessment = { reliability: number } & Partial<Certainty>;

export interface Measure {
  ledger: Ledger;
  assessment: Assessment;
}

/**
 * A version of the scoring model: its constants and its formulas. All versions compute from the same integer rows, so
 * any version can be requested at any time. A version never changes: every change makes a new version.
 */
export interface ScoringModel {
  readonly id: ModelId;
  /** Identifies the version: answers with the same hash were computed by the same rules. */
  readonly hash: string;
  /** Every constant, those shared by all versions included. */
  readonly constants: object;
  /** The largest TCT that the actions of one UTC day can earn under a lens. Infinity: no limit. */
  earnedPerDay(lens: Lens): number;
  /** Sums an identity's evidence under a lens. */
  ledger(evidence: Evidence, lens: Lens): Ledger;
  /** `ledger` and `assess` in one pass over the evidence, where the version can do that. */
  measure(evidence: Evidence, lens: Lens, asOf: number): Measure;
  /**
   * The probability that the next action is a positive one, 0..1, four decimals, and its certainty in versions that have
   * one.
   * @param asOf ms since the epoch; the evidence must contain no later actions
   */
  assess(evidence: Evidence, lens: Lens, asOf: number): Assessment;
  /** An explanation of the reliability in one or two sentences; null in versions without one. */
  summary(evidence: Evidence, lens: Lens, asOf: number): string | null;
  /** TCT to earn from nothing, without flags, for this reliability. `how_to_pass` uses it as the cost. */
  tctToReliability(reliability: number): number;
}
