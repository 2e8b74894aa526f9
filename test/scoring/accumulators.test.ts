import fc from 'fast-check';
import { canonicalJson } from '../../src/kernel/hash.js';
import { STRIDE, type Evidence, addToDays, countActions, dayOf, takeDays } from '../../src/scoring/evidence.js';
import { expMinus, power, round } from '../../src/scoring/exact.js';
import { categoryHealth, metricHealth } from '../../src/scoring/health.js';
import { type Lens, MODEL_LENS, netOf, tctOf } from '../../src/scoring/lens.js';
import { isFlags } from '../../src/scoring/names.js';
import { CRITICALITIES, MODEL } from '../../src/scoring/model.js';
import { disc1 } from '../../src/scoring/models/disc-1.js';
import { netTct, nextRating, standingOf } from '../../src/scoring/score.js';
import { DAY, type ScoredAction, TODAY, evidenceOf, vpLens } from './evidence.js';

const METRICS = [
  'financial_loan_repayment',
  'financial_swap',
  'financial_default_flags',
  'social_vouch',
  'compliance_trade_flags',
  'security_audit',
];
const actions = fc.array(
  fc.record({
    metric: fc.constantFrom(...METRICS),
    criticality: fc.constantFrom(...CRITICALITIES),
    at: fc.integer({ min: TODAY - 900 * DAY, max: TODAY }),
  }),
  { maxLength: 60 },
);
/** Some of the metrics, with any whole TCT that a weight in hundredths can give; also ones nobody has. */
const lenses: fc.Arbitrary<Lens> = fc
  .dictionary(
    fc.constantFrom(...METRICS, 'creative_never_seen'),
    fc.integer({ min: 1, max: 105 }).map((hundredths) => hundredths * 10),
  )
  .map(vpLens);

/** Everything a score, a metric or an explanation shows, as bytes. */
function answer(evidence: Evidence, lens: Lens): string {
  const ledger = disc1.ledger(evidence, lens);
  return JSON.stringify([
    standingOf(ledger, null),
    nextRating(ledger),
    categoryHealth(evidence, lens, TODAY),
    METRICS.map((metric) => metricHealth(evidence, metric, lens, TODAY)),
    disc1.assess(evidence, lens, TODAY).reliability,
  ]);
}

test('evidence holds whole numbers only, days ascending and once each', () => {
  fc.assert(
    fc.property(actions, (list) => {
      const evidence = evidenceOf(list);
      for (const [metric, { last, days }] of Object.entries(evidence)) {
        const own = list.filter((action) => action.metric === metric);
        expect([last, ...days].every(Number.isSafeInteger)).toBe(true);
        expect(last).toBe(Math.max(...own.map(({ at }) => at)));
        const numbers = days.filter((_, i) => i % 6 === 0);
        expect(numbers).toEqual([...new Set(own.map(({ at }) => dayOf(at)))].sort((a, b) => a - b));
        expect(countActions({ last, days })).toBe(own.length);
      }
    }),
  );
});

test('actions in any order leave the same evidence and the same answers', () => {
  fc.assert(
    fc.property(
      actions.chain((list) => fc.tuple(fc.constant(list), fc.shuffledSubarray(list, { minLength: list.length }))),
      lenses,
      ([list, shuffled], lens) => {
        expect(canonicalJson(evidenceOf(shuffled))).toBe(canonicalJson(evidenceOf(list)));
        for (const each of [MODEL_LENS, lens])
          expect(answer(evidenceOf(shuffled), each)).toBe(answer(evidenceOf(list), each));
      },
    ),
  );
});

test('actions in batches of any size, stored in between, leave the same bytes', () => {
  fc.assert(
    fc.property(actions, fc.array(fc.integer({ min: 1, max: 20 }), { minLength: 1 }), (list, sizes) => {
      let stored: Evidence = {};
      let from = 0;
      for (let i = 0; from < list.length; i++) {
        const size = sizes[i % sizes.length]!;
        stored = JSON.parse(JSON.stringify(evidenceOf(list.slice(from, from + size), stored))) as Evidence;
        from += size;
      }
      expect(JSON.stringify(stored)).toBe(JSON.stringify(evidenceOf(list)));
    }),
  );
});

/** The same measures from the actions themselves, each looked at through the lens, without accumulators. */
function foldOfTheLog(list: readonly ScoredAction[], lens: Lens): string {
  const weighed = list.map(({ metric, criticality, at }) => ({
    metric,
    day: dayOf(at),
    tct: tctOf(lens, metric, CRITICALITIES.indexOf(criticality)),
  }));
  const sum = (of: typeof weighed) => of.reduce((total, { tct }) => total + tct, 0);
  const decayed = (of: typeof weighed, factor: number) => {
    const days = [...new Set(of.map(({ day }) => day))].sort((a, b) => a - b);
    return days.reduce((total, day) => {
      return total + sum(of.filter((action) => action.day === day)) * power(factor, dayOf(TODAY) - day);
    }, 0);
  };
  const flags = weighed.filter(({ metric }) => isFlags(metric));
  const gains = weighed.filter(({ metric }) => !isFlags(metric));
  const health = MODEL.categories.map((category) => {
    const within = (of: typeof weighed) => of.filter((a) => a.tct > 0 && a.metric.startsWith(`${category}_`));
    if (within(gains).length === 0) return 0;
    const [earned, flagged] = [gains, flags].map((of) => decayed(within(of), MODEL.daily_factor[category]));
    return round((1 - expMinus(earned! / 600)) * expMinus(flagged! / 150), 4);
  });
  const [p, n] = [gains, flags].map((of) => decayed(of, disc1.constants.reliability_daily_factor) / 1000);
  const trust = round((p! + 0.05) / (p! + n! + 0.055), 4);
  return JSON.stringify([standingOf({ earned: sum(gains), flagged: sum(flags) }, null), health, trust]);
}

test('a lens over the accumulators gives the bytes that a fold of the log through that lens gives', () => {
  fc.assert(
    fc.property(actions, fc.oneof(fc.constant(MODEL_LENS), lenses), (list, lens) => {
      const evidence = JSON.parse(JSON.stringify(evidenceOf(list))) as Evidence;
      const byAccumulators = JSON.stringify([
        standingOf(disc1.ledger(evidence, lens), null),
        Object.values(categoryHealth(evidence, lens, TODAY)),
        disc1.assess(evidence, lens, TODAY).reliability,
      ]);
      expect(byAccumulators).toBe(foldOfTheLog(list, lens));
      const moves = list.map(({ metric, criticality }) => netOf(lens, metric, CRITICALITIES.indexOf(criticality)));
      expect(netTct(disc1.ledger(evidence, lens))).toBe(moves.reduce((total, move) => total + move, 0));
    }),
    { numRuns: 300 },
  );
});

test('days that are taken from the days they were added to leave the others', () => {
  const actions = fc.array(
    fc.record({ day: fc.integer({ min: 0, max: 20 }), criticality: fc.integer({ min: 0, max: 4 }) }),
  );
  const daysOf = (list: readonly { day: number; criticality: number }[]) => {
    const days: number[] = [];
    for (const { day, criticality } of list) addToDays(days, day, criticality);
    return days;
  };
  const withActions = (days: readonly number[]) =>
    Array.from({ length: days.length / STRIDE }, (_, n) => days.slice(STRIDE * n, STRIDE * (n + 1))).filter((of) =>
      of.slice(1).some(Boolean),
    );
  fc.assert(
    fc.property(actions, actions, (taken, others) => {
      const days = daysOf([...taken, ...others]);
      takeDays(days, daysOf(taken));
      expect(withActions(days)).toEqual(withActions(daysOf(others)));
    }),
  );
});
