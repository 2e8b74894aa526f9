import fc from 'fast-check';
import { divide } from '../../src/scoring/contributions.js';
import { MODEL_LENS } from '../../src/scoring/lens.js';
import { disc1 } from '../../src/scoring/models/disc-1.js';
import { type Ledger, netTct, nextRating, rankOf, ratingOf, scoreOf, standingOf } from '../../src/scoring/score.js';
import { action, evidenceOf, vpLens } from './evidence.js';

const ledger = (earned: number, flagged = 0): Ledger => ({ earned, flagged });

describe('TCT', () => {
  test('an action earns 1000 times its weight; a flag forfeits ten times that', () => {
    const evidence = evidenceOf([
      action('financial_loan_repayment', 'High'),
      action('financial_loan_repayment', 'Critical', 3),
      action('social_vouch', 'Minimal'),
      action('compliance_trade_flags', 'Low'),
    ]);
    expect(disc1.ledger(evidence, MODEL_LENS)).toEqual({ earned: 250, flagged: 30 });
    expect(standingOf(disc1.ledger(evidence, MODEL_LENS), null)).toEqual({
      score: 6,
      score_rating: 'BAD',
      total_tct: 0,
      earned_tct: 250,
      forfeited_tct: 300,
    });
  });

  test('weights add exactly, however many there are', () => {
    const evidence = evidenceOf(Array.from({ length: 10_000 }, (_, i) => action('social_vouch', 'Moderate', i % 700)));
    expect(disc1.ledger(evidence, MODEL_LENS).earned).toBe(700_000);
  });

  test('under a VP a metric weighs what the VP says, and others nothing', () => {
    const evidence = evidenceOf([
      action('financial_loan_repayment', 'Minimal'),
      action('financial_loan_repayment', 'Critical'),
      action('social_vouch', 'Critical'),
      action('compliance_trade_flags', 'Minimal'),
    ]);
    const lens = vpLens({ financial_loan_repayment: 70, compliance_trade_flags: 10 });
    expect(disc1.ledger(evidence, lens)).toEqual({ earned: 140, flagged: 10 });
    expect(netTct(disc1.ledger(evidence, lens))).toBe(40);
  });
});

describe('the score', () => {
  test.each([
    [0, 7],
    [100, 7.6],
    [13_704.2, 62.7],
    [15_000, 65.8],
    [1_000_000, 100],
  ])('of %d net TCT is %d', (net, score) => {
    expect(scoreOf(net)).toBe(score);
  });

  test('13,704.2 TCT are Very Good', () => {
    expect(standingOf(ledger(13_704.2), null)).toMatchObject({ score: 62.7, score_rating: 'Very Good' });
  });

  test.each([
    [-1, 6],
    [-999, 6],
    [-1_000, 5],
    [-2_999, 5],
    [-3_000, 4],
    [-9_999, 4],
    [-10_000, 3],
    [-29_999, 3],
    [-30_000, 2],
    [-99_999, 2],
    [-100_000, 1],
    [-10_000_000, 1],
  ])('of %d net TCT is %i, in the BAD band', (net, score) => {
    expect(scoreOf(net)).toBe(score);
    expect(ratingOf(score)).toBe('BAD');
  });

  test('follows 7 + 93 × (1 − e^(−net/15000)) with one decimal', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 300_000 }), (net) => {
        const exact = 7 + 93 * (1 - Math.exp(-net / 15_000));
        expect(Math.abs(scoreOf(net) - exact)).toBeLessThanOrEqual(0.05 + 1e-9);
        expect(Math.round(scoreOf(net) * 10) / 10).toBe(scoreOf(net));
      }),
    );
  });

  test('never falls when net TCT grows', () => {
    fc.assert(
      fc.property(fc.integer({ min: -200_000, max: 300_000 }), fc.integer({ min: 0, max: 50_000 }), (net, more) => {
        expect(scoreOf(net + more)).toBeGreaterThanOrEqual(scoreOf(net));
      }),
    );
  });

  test.each([1, 2, 3, 4, 5, 6])('an explicit BAD level %i overrides it and leaves the TCT', (level) => {
    expect(standingOf(ledger(500_000), level)).toEqual({
      score: level,
      score_rating: 'BAD',
      total_tct: 500_000,
      earned_tct: 500_000,
      forfeited_tct: 0,
    });
  });

  test('total TCT is never negative', () => {
    expect(standingOf(ledger(100, 11), null)).toMatchObject({ total_tct: 0, earned_tct: 100, forfeited_tct: 110 });
  });
});

test.each([
  [6, 'BAD'],
  [7, 'Poor'],
  [19.9, 'Poor'],
  [20, 'Fair'],
  [39.9, 'Fair'],
  [40, 'Good'],
  [61.9, 'Good'],
  [62, 'Very Good'],
  [79.9, 'Very Good'],
  [80, 'Excellent'],
  [100, 'Excellent'],
])('a score of %d is rated %s', (score, rating) => {
  expect(ratingOf(score)).toBe(rating);
});

test.each([
  [0, 'Unranked'],
  [999, 'Unranked'],
  [1_000, 'Bronze'],
  [4_999, 'Bronze'],
  [5_000, 'Silver'],
  [24_999, 'Silver'],
  [25_000, 'Gold'],
  [99_999, 'Gold'],
  [100_000, 'Platinum'],
  [499_999, 'Platinum'],
  [500_000, 'Diamond'],
  [50_000_000, 'Diamond'],
])('an organization with %i TCT is %s', (tct, rank) => {
  expect(rankOf(tct)).toBe(rank);
});

describe('the next rating', () => {
  test('names the rating above and exactly the TCT that is missing to it', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 40_000 }), fc.integer({ min: 0, max: 4_000 }), (earned, flagged) => {
        const now = ledger(earned, flagged);
        const next = nextRating(now);
        const order = ['BAD', 'Poor', 'Fair', 'Good', 'Very Good', 'Excellent'];
        const rating = ratingOf(scoreOf(netTct(now)));
        if (rating === 'Excellent') {
          expect(next).toBeNull();
          return;
        }
        expect(next!.rating).toBe(order[order.indexOf(rating) + 1]);
        expect(next!.tct_needed).toBeGreaterThan(0);
        expect(ratingOf(scoreOf(netTct(now) + next!.tct_needed))).toBe(next!.rating);
        expect(ratingOf(scoreOf(netTct(now) + next!.tct_needed - 1))).toBe(rating);
      }),
    );
  });

  test('out of the BAD band is Poor, at a net of zero', () => {
    expect(nextRating(ledger(0, 500))).toEqual({ rating: 'Poor', tct_needed: 5_000 });
  });
});

test.each([
  [5, [3, 3, 3], [2, 2, 1]],
  [10, [7, 2, 2], [6, 2, 2]],
  [1, [1, 1], [1, 0]],
  [4, [4], [4]],
])('%i is divided among %j by largest remainder, the earlier of two equal ones first: %j', (amount, parts, shares) => {
  expect(divide(amount, parts)).toEqual(shares);
});
