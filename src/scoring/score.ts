import { expMinus, least, round } from './exact.js';
import { MODEL, type Rank, type Rating } from './model.js';

/** TCT amounts of an identity under a lens, whole numbers. */
export interface Ledger {
  earned: number;
  flagged: number;
}

/** The score that follows from a ledger. */
export interface Standing {
  /** 1.0..100.0, one decimal. */
  score: number;
  score_rating: Rating;
  /** max(0, earned − forfeited). */
  total_tct: number;
  earned_tct: number;
  forfeited_tct: number;
}

/** A ledger that actions are added to one by one, in any order. */
export class RunningLedger implements Ledger {
  earned = 0;
  flagged = 0;
  /** TCT without the limit, by UTC day; kept only if there is a limit. */
  private readonly earnedByDay = new Map<number, number>();

  /** @param limit TCT that a UTC day can earn; Infinity: no limit */
  constructor(private readonly limit: number) {}

  /** @returns by how much the earned TCT has grown */
  earn(day: number, tct: number): number {
    if (this.limit === Infinity) {
      this.earned += tct;
      return tct;
    }
    const before = this.earnedByDay.get(day) ?? 0;
    this.earnedByDay.set(day, before + tct);
    const growth = Math.min(before + tct, this.limit) - Math.min(before, this.limit);
    this.earned += growth;
    return growth;
  }
}

/** earned − forfeited; negative when flags outweigh. */
export function netTct(ledger: Ledger): number {
  return ledger.earned - MODEL.forfeit_factor * ledger.flagged;
}

/** @param badLevel an explicit BAD level 1..6, which overrides the computed score; null without one. */
export function standingOf(ledger: Ledger, badLevel: number | null): Standing {
  const net = netTct(ledger);
  const score = badLevel ?? scoreOf(net);
  return {
    score,
    score_rating: ratingOf(score),
    total_tct: Math.max(0, net),
    earned_tct: ledger.earned,
    forfeited_tct: MODEL.forfeit_factor * ledger.flagged,
  };
}

/** DISC score of a net TCT, one decimal: 7..100 for net ≥ 0, 6..1 (the BAD band) below. */
export function scoreOf(net: number): number {
  if (net < 0) return MODEL.bad_level - MODEL.bad_steps_tct.filter((step) => -net >= step).length;
  const span = 100 - MODEL.score_floor;
  return round(MODEL.score_floor + span * (1 - expMinus(net / MODEL.score_scale_tct)), 1);
}

/** Rating of a score: BAD up to 6, Poor < 20, Fair < 40, Good < 62, Very Good < 80, Excellent. */
export function ratingOf(score: number): Rating {
  return MODEL.ratings.findLast(([, lowest]) => score >= lowest)?.[0] ?? 'BAD';
}

/** Rank of a vetted organization by its total TCT. */
export function rankOf(tctTotal: number): Rank {
  return MODEL.ranks.findLast(([, lowest]) => tctTotal >= lowest)?.[0] ?? 'Unranked';
}

/** The next better rating and the net TCT still needed for it; null at the top. */
export function nextRating(ledger: Ledger): { rating: Rating; tct_needed: number } | null {
  const net = netTct(ledger);
  const score = scoreOf(net);
  const next = MODEL.ratings.find(([, lowest]) => lowest > score);
  if (!next) return null;
  return { rating: next[0], tct_needed: smallestNet(next[1]) - net };
}

/**
 * The smallest net TCT, a whole number, whose score is at least this, 0..100. −Infinity for a score of 1 or less, which
 * every net TCT has.
 */
export function smallestNet(score: number): number {
  if (score <= 1) return -Infinity;
  return least((net) => scoreOf(net) >= score, -MODEL.bad_steps_tct.at(-1)!, MODEL.score_scale_tct * 32);
}
