import fc from 'fast-check';
import { canonicalJson, sha256Hex } from '../../src/kernel/hash.js';
import type { Evidence } from '../../src/scoring/evidence.js';
import { power, round } from '../../src/scoring/exact.js';
import { categoryHealth } from '../../src/scoring/health.js';
import { type Lens, MODEL_LENS } from '../../src/scoring/lens.js';
import { isFlags } from '../../src/scoring/names.js';
import { CRITICALITIES, type Criticality, MODEL, TCT_BY_CRITICALITY } from '../../src/scoring/model.js';
import { MODELS } from '../../src/scoring/models/all.js';
import { disc1 } from '../../src/scoring/models/disc-1.js';
import { GOLDEN as GOLDEN_2, disc2, sumsOf } from '../../src/scoring/models/disc-2.js';
import type { Certainty } from '../../src/scoring/models/scoring-model.js';
import { type Ledger, standingOf } from '../../src/scoring/score.js';
import { DAY, type ScoredAction, TODAY, action, evidenceOf, vpLens } from './evidence.js';

const FLAGS = 'compliance_trade_flags';
const four = (value: number) => round(value, 4);

/** Values that the formulas of a version give for one case. */
interface Golden {
  /** ms since the epoch. */
  as_of: number;
  /** By metric: a row for each UTC day, with the number of actions of each criticality. */
  evidence: Readonly<Record<string, readonly (readonly number[])[]>>;
  /** By the model's own lens. */
  ledger: Ledger;
  score: number;
  reliability: number;
  certainty: Certainty | null;
  /** Health by category, in the order of the categories. */
  health: readonly number[];
}

const GOLDEN_1: Golden = {
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

function goldenEvidence({ evidence }: Golden): Evidence {
  return Object.fromEntries(Object.entries(evidence).map(([metric, days]) => [metric, { last: 0, days: days.flat() }]));
}

describe('a version', () => {
  test.each([
    [disc1, GOLDEN_1],
    [disc2, GOLDEN_2],
  ])('$id gives its golden values', (model, golden) => {
    const evidence = goldenEvidence(golden);
    const ledger = model.ledger(evidence, MODEL_LENS);
    expect({
      ledger,
      score: standingOf(ledger, null).score,
      assessment: model.assess(evidence, MODEL_LENS, golden.as_of),
      health: Object.values(categoryHealth(evidence, MODEL_LENS, golden.as_of)),
    }).toEqual({
      ledger: golden.ledger,
      score: golden.score,
      assessment: { reliability: golden.reliability, ...golden.certainty },
      health: golden.health,
    });
  });

  test('each keeps the hash and the lens that recorded answers name', () => {
    expect(disc1.hash).toBe('35346de89df19a7d54a0b1f862f99a153509eafa5897b48b7e48f9db1a535955');
    expect(disc2.hash).toBe('ed79fecd10da5a0200e0f4ef55d448dfb1ad91e16f954733c6ed91ee705a9e32');
    expect(MODEL_LENS.content_hash).toBe('573f04520610e8a604c4f745db2ce26b7ffaacc593ca179a6a3c4dfeca70ea15');
  });

  test('the hash of disc-2 covers its golden values', () => {
    expect(sumsOf(goldenEvidence(GOLDEN_2), MODEL_LENS, GOLDEN_2.as_of).days).toEqual(GOLDEN_2.days);
    expect(disc2.hash).toBe(sha256Hex(canonicalJson({ constants: disc2.constants, golden: GOLDEN_2 })));
  });

  test('versions have different hashes and list the constants that all share', () => {
    expect(new Set(MODELS.map(({ hash }) => hash)).size).toBe(MODELS.length);
    for (const { id, constants } of MODELS) expect(constants).toMatchObject({ id, ...MODEL });
  });
});

describe('disc-2', () => {
  const of = (...actions: ScoredAction[]) => evidenceOf(actions);
  const many = (count: number, metric: string, criticality: Criticality, daysAgo = 0) =>
    Array.from({ length: count }, () => action(metric, criticality, daysAgo));
  const reliability = (evidence: Evidence) => disc2.assess(evidence, MODEL_LENS, TODAY).reliability;
  const earned = (evidence: Evidence) => disc2.ledger(evidence, MODEL_LENS).earned;

  test('without evidence reliability is 5/6, and the word is none', () => {
    expect(reliability({})).toBe(four(5 / 6));
    const { evidence, reliability_interval } = disc2.assess({}, MODEL_LENS, TODAY);
    expect(evidence).toEqual({ amount: 0, word: 'none' });
    const margin = 1.645 * Math.sqrt(5 / 36 / 1.6);
    expect(reliability_interval).toEqual([four(5 / 6 - margin), 1]);
  });

  test('good actions of a day count once, whatever their weight and metric; flags count up to twice', () => {
    const once = reliability(of(action('social_praise', 'Minimal')));
    expect(once).toBe(four(15 / 16));
    expect(reliability(of(...many(1_000, 'social_praise', 'Critical'), action('financial_swap', 'High')))).toBe(once);
    expect(reliability(of(action(FLAGS, 'Minimal')))).toBe(four(5 / 16));
    const twice = reliability(of(action(FLAGS, 'Minimal'), action('social_flags', 'Critical')));
    expect(twice).toBe(four(5 / 26));
    expect(reliability(of(...many(9, FLAGS, 'Critical')))).toBe(twice);
  });

  test('evidence in one metric only counts as the same days in several do', () => {
    const days = [0, 1, 2, 3, 4, 5];
    const metrics = ['social_praise', 'financial_swap', 'security_audit'];
    const oneOnly = of(...days.map((day) => action('social_praise', 'Low', day)));
    const several = of(...days.map((day) => action(metrics[day % 3]!, 'Low', day)));
    expect(disc2.assess(oneOnly, MODEL_LENS, TODAY)).toEqual(disc2.assess(several, MODEL_LENS, TODAY));
    expect(earned(oneOnly)).toBe(earned(several));
  });

  test('the summary counts one in the singular', () => {
    const summary = (...actions: ScoredAction[]) => disc2.summary(of(...actions), MODEL_LENS, TODAY);
    const [good, flag] = [action('social_vouch', 'Low', 0), action(FLAGS, 'Low', 0)];
    expect(summary(good, flag)).toMatch(/^1 good day and 1 flag still count\./);
    expect(summary(flag, flag)).toMatch(/^0 good days and 2 flags still count\./);
  });

  test('half of a day is left after 45 days', () => {
    const evidence = of(action('social_praise', 'Low', 45), action(FLAGS, 'Low', 90));
    const { good, flags } = sumsOf(evidence, MODEL_LENS, TODAY).days;
    expect([good, flags].map((days) => round(days, 4))).toEqual([0.5, 0.25]);
    expect(reliability(evidence)).toBe(four((10 * good + 5) / (10 * (good + flags) + 6)));
  });

  test.each<[string, ScoredAction[]]>([
    ['none', []],
    ['none', [action('social_praise', 'Critical', 900)]],
    ['thin', [action('social_praise', 'Critical', 1)]],
    ['some', [action('social_praise', 'Critical')]],
    ['some', many(9, FLAGS, 'Low')],
    ['some', [0, 1, 2, 3].map((days) => action('social_praise', 'Low', days))],
    ['solid', [0, 1, 2, 3, 4].map((days) => action('social_praise', 'Low', days))],
    // Exactly 4: three of today, and half of two of 45 days ago.
    [
      'solid',
      [
        ...many(2, FLAGS, 'Low'),
        ...[0, 45].map((days) => action('social_praise', 'Low', days)),
        ...many(1, FLAGS, 'Low', 45),
      ],
    ],
  ])('evidence is %s', (word, actions) => {
    expect(disc2.assess(of(...actions), MODEL_LENS, TODAY).evidence.word).toBe(word);
  });

  test('the interval is 90% of a Beta’s normal approximation around the reliability', () => {
    const evidence = of(
      ...[0, 1, 2, 3, 10].map((days) => action('social_praise', 'Low', days)),
      action(FLAGS, 'Low', 5),
    );
    const { good, flags } = sumsOf(evidence, MODEL_LENS, TODAY).days;
    const m = (10 * good + 5) / (10 * (good + flags) + 6);
    const margin = 1.645 * Math.sqrt((m * (1 - m)) / (good + flags + 0.6 + 1));
    const { evidence: amount, reliability_interval } = disc2.assess(evidence, MODEL_LENS, TODAY);
    expect(reliability_interval).toEqual([four(m - margin), four(Math.min(1, m + margin))]);
    expect(amount).toEqual({ amount: four(good + flags), word: 'solid' });
  });

  test('a day earns at most 140 TCT, across metrics; forfeits have no limit', () => {
    expect(earned(of(action('social_praise', 'Low'), action('financial_swap', 'Moderate')))).toBe(100);
    expect(earned(of(...many(50, 'social_praise', 'Low'), action('financial_swap', 'Critical')))).toBe(140);
    expect(earned(of(...many(50, 'social_praise', 'Low'), action('social_praise', 'Low', 1)))).toBe(170);
    expect(disc2.ledger(of(...many(50, FLAGS, 'Critical')), MODEL_LENS)).toEqual({ earned: 0, flagged: 7_000 });
  });

  test('days count as much in many metrics as in one', () => {
    const actions = fc.array(
      fc.record({
        metric: fc.nat(199),
        criticality: fc.constantFrom(...CRITICALITIES),
        daysAgo: fc.nat(40),
        isFlag: fc.boolean(),
      }),
      { maxLength: 400, size: 'max' },
    );
    fc.assert(
      fc.property(actions, fc.constantFrom(...MODELS), (some, model) => {
        const within = (metrics: number) =>
          of(
            ...some.map(({ metric, criticality, daysAgo, isFlag }) =>
              action(`social_kind_${metric % metrics}${isFlag ? '_flags' : ''}`, criticality, daysAgo),
            ),
          );
        expect(model.measure(within(200), MODEL_LENS, TODAY)).toEqual(model.measure(within(1), MODEL_LENS, TODAY));
      }),
    );
  });

  test('under a policy a day earns at most what its heaviest input does that is no flag', () => {
    const lens = vpLens({ social_praise: 30, financial_swap: 100, [FLAGS]: 140 });
    expect(disc2.earnedPerDay(lens)).toBe(100);
    const evidence = of(
      ...many(9, 'social_praise', 'Critical'),
      action('creative_none', 'Critical'),
      action(FLAGS, 'Low'),
    );
    expect(disc2.ledger(evidence, lens)).toEqual({ earned: 100, flagged: 140 });
    expect(disc2.earnedPerDay(vpLens({ [FLAGS]: 140 }))).toBe(0);
  });

  test('what a policy does not weigh counts for nothing, reliability included', () => {
    const evidence = of(action('creative_none', 'Critical'), action(FLAGS, 'Low'));
    const lens = vpLens({ social_praise: 30 });
    expect(disc2.assess(evidence, lens, TODAY).reliability).toBe(four(5 / 6));
    expect(disc2.assess(evidence, lens, TODAY).evidence).toEqual({ amount: 0, word: 'none' });
  });

  test('a million actions of one day, and days before 1970 and after 9999', () => {
    const crowd: Evidence = { social_praise: { last: TODAY, days: [Math.floor(TODAY / DAY), 0, 0, 0, 0, 1_000_000] } };
    expect([earned(crowd), reliability(crowd)]).toEqual([140, four(15 / 16)]);
    const [before, after] = [Date.UTC(1900, 0, 1), Date.UTC(12_000, 0, 1)];
    const evidence = of({ metric: 'social_praise', criticality: 'Low', at: before });
    expect([disc2.assess(evidence, MODEL_LENS, before).reliability, reliability(evidence)]).toEqual([
      four(15 / 16),
      four(5 / 6),
    ]);
    expect(disc2.assess(evidence, MODEL_LENS, after).reliability).toBe(four(5 / 6));
  });

  test('the cost of reliability is the daily TCT limit for each required day', () => {
    const days = disc2.tctToReliability(0.95) / 140;
    const good = (count: number) => four((10 * count + 5) / (10 * count + 6));
    expect([good(days) >= 0.95, good(days - 1) >= 0.95]).toEqual([true, false]);
  });

  test('equals the result from the actions themselves, in any order and in batches, to the bit', () => {
    const metrics = ['social_praise', 'financial_swap', 'security_audit', FLAGS, 'social_flags'];
    const actions = fc.array(
      fc.record({
        metric: fc.constantFrom(...metrics),
        criticality: fc.constantFrom(...CRITICALITIES),
        at: fc.integer({ min: TODAY - 40 * DAY, max: TODAY }),
      }),
      { maxLength: 80 },
    );
    const lens = fc.constantFrom(MODEL_LENS, vpLens({ social_praise: 30, financial_swap: 100, social_flags: 70 }));
    const shuffled = actions.chain((list) =>
      fc.tuple(fc.constant(list), fc.shuffledSubarray(list, { minLength: list.length })),
    );
    fc.assert(
      fc.property(shuffled, fc.integer({ min: 1, max: 9 }), lens, ([list, other], size, lens) => {
        let stored: Evidence = {};
        for (let from = 0; from < other.length; from += size) {
          stored = JSON.parse(JSON.stringify(evidenceOf(other.slice(from, from + size), stored))) as Evidence;
        }
        const { earned, flagged, good, flags } = foldOf(list, lens);
        expect(disc2.ledger(stored, lens)).toEqual({ earned, flagged });
        expect(sumsOf(stored, lens, TODAY).days).toEqual({ good, flags });
      }),
      { numRuns: 300 },
    );
  });
});

/** The sums of disc-2 from the actions themselves. */
function foldOf(list: readonly ScoredAction[], lens: Lens) {
  const weighed = list
    .filter(({ metric }) => lens.tct_by_metric?.has(metric) ?? true)
    .map(({ metric, criticality, at }) => ({
      isFlag: isFlags(metric),
      day: Math.floor(at / DAY),
      tct: lens.tct_by_metric?.get(metric) ?? TCT_BY_CRITICALITY[CRITICALITIES.indexOf(criticality)]!,
    }));
  const sums = { earned: 0, flagged: 0, good: 0, flags: 0 };
  for (const day of [...new Set(weighed.map(({ day }) => day))].sort((a, b) => a - b)) {
    const [good, flags] = [false, true].map((flag) => weighed.filter((a) => a.day === day && a.isFlag === flag));
    const tct = (of: typeof weighed) => of.reduce((sum, action) => sum + action.tct, 0);
    const left = power(disc2.constants.reliability_daily_factor, Math.floor(TODAY / DAY) - day);
    sums.earned += Math.min(tct(good!), disc2.earnedPerDay(lens));
    sums.flagged += tct(flags!);
    sums.good += Math.min(good!.length, 1) * left;
    sums.flags += Math.min(flags!.length, 2) * left;
  }
  return sums;
}
