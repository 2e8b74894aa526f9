/**
 * The constants that every version of the scoring model shares. What a version adds is in its own file in `models/`;
 * its hash covers both. docs/scoring.md explains each constant with worked examples.
 */
export const MODEL = {
  /** The seven metric categories of a DISC score (requirement 17). */
  categories: ['financial', 'creative', 'educational', 'behavioral', 'social', 'security', 'compliance'],
  /** Other names in use for a category (requirement 25): accepted, and echoed as asked. */
  aliases: { finance: 'financial', governance: 'behavioral' },

  /** Weight of one action by criticality (requirement 23), in hundredths so that sums are exact. */
  criticality_hundredths: { Minimal: 1, Low: 3, Moderate: 7, High: 10, Critical: 14 },
  /** TCT of an action = 1000 × weight = 10 × hundredths. */
  tct_per_hundredth: 10,
  /** A metric with this suffix is negative evidence: its TCT is flagged, not earned. */
  flag_suffix: '_flags',
  /** forfeited = 10 × flagged. Chosen on 35,592 real trade ratings: AUC 0.83 against 0.74 with ×1. */
  forfeit_factor: 10,

  /** score = floor + (100 − floor) × (1 − e^(−net / scale)) for net ≥ 0. */
  score_floor: 7,
  score_scale_tct: 15_000,
  /** net < 0: the BAD band, 6 and one lower each time −net reaches the next of these. */
  bad_level: 6,
  bad_steps_tct: [1_000, 3_000, 10_000, 30_000, 100_000],
  /** Lowest score of each rating; below the first is BAD. */
  ratings: [
    ['Poor', 7],
    ['Fair', 20],
    ['Good', 40],
    ['Very Good', 62],
    ['Excellent', 80],
  ],
  /** Lowest tct_total of each rank of a vetted organization. */
  ranks: [
    ['Unranked', 0],
    ['Bronze', 1_000],
    ['Silver', 5_000],
    ['Gold', 25_000],
    ['Platinum', 100_000],
    ['Diamond', 500_000],
  ],

  /** health = (1 − e^(−E / earned_scale)) × e^(−F / flagged_scale), E and F decayed TCT. */
  health_earned_scale_tct: 600,
  health_flagged_scale_tct: 150,
  /** The factor of decay for one day: 2^(−1/half-life), as a literal because Math.pow differs between engines. */
  daily_factor: {
    financial: 0.9981027686515946, // 365 days
    compliance: 0.9981027686515946, // 365 days
    behavioral: 0.9961565872205752, // 180 days
    social: 0.9961565872205752, // 180 days
    security: 0.9923279462629435, // 90 days
    creative: 0.9990509339626257, // 730 days
    educational: 0.9990509339626257, // 730 days
  },
} as const;

export type Category = (typeof MODEL.categories)[number];
export type Criticality = keyof typeof MODEL.criticality_hundredths;
export type Rating = 'BAD' | (typeof MODEL.ratings)[number][0];
/** All ratings, the lowest first. */
export const RATINGS: readonly Rating[] = ['BAD', ...MODEL.ratings.map(([name]) => name)];
export type Rank = (typeof MODEL.ranks)[number][0];

/** In ascending weight; evidence counts actions by index into this list. */
export const CRITICALITIES = Object.keys(MODEL.criticality_hundredths) as Criticality[];

/** TCT of one action, by index into CRITICALITIES: 10, 30, 70, 100, 140. */
export const TCT_BY_CRITICALITY = CRITICALITIES.map(
  (name) => MODEL.criticality_hundredths[name] * MODEL.tct_per_hundredth,
);
