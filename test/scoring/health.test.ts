import { categoryHealth, metricHealth } from '../../src/scoring/health.js';
import { MODEL_LENS } from '../../src/scoring/lens.js';
import { type Category, MODEL } from '../../src/scoring/model.js';
import { disc1 } from '../../src/scoring/models/disc-1.js';
import { DAY, TODAY, action, evidenceOf, vpLens } from './evidence.js';

const four = (value: number) => Math.round(value * 10_000) / 10_000;
const HALF_LIFE: Record<Category, number> = {
  financial: 365,
  compliance: 365,
  behavioral: 180,
  social: 180,
  security: 90,
  creative: 730,
  educational: 730,
};

test('without evidence every category has health 0, and reliability is the prior', () => {
  expect(categoryHealth({}, MODEL_LENS, TODAY)).toEqual(Object.fromEntries(MODEL.categories.map((name) => [name, 0])));
  expect(metricHealth({}, 'financial_loan_repayment', MODEL_LENS, TODAY)).toBe(0);
  expect(disc1.assess({}, MODEL_LENS, TODAY).reliability).toBe(0.9091);
});

test('health is (1 − e^(−E/600)) × e^(−F/150) within the category', () => {
  const evidence = evidenceOf([
    action('financial_loan_repayment', 'High'),
    action('financial_swap', 'Critical'),
    action('financial_default_flags', 'Low'),
    action('social_vouch', 'Moderate'),
  ]);
  const health = categoryHealth(evidence, MODEL_LENS, TODAY);
  expect(health.financial).toBe(four((1 - Math.exp(-240 / 600)) * Math.exp(-30 / 150)));
  expect(health.social).toBe(four(1 - Math.exp(-70 / 600)));
  expect(health.creative).toBe(0);
});

test('a metric has the health of what is within it; flags of the category do not touch it', () => {
  const evidence = evidenceOf([
    action('financial_loan_repayment', 'High'),
    action('financial_swap', 'Critical'),
    action('financial_default_flags', 'Low'),
  ]);
  const health = (metric: string) => metricHealth(evidence, metric, MODEL_LENS, TODAY);
  expect(health('financial_loan_repayment')).toBe(four(1 - Math.exp(-100 / 600)));
  expect(health('financial_default_flags')).toBe(four(Math.exp(-30 / 150)));
  expect(health('financial_unheard_of')).toBe(0);
});

test('flags of a metric fade and leave it healthy, however long ago they were', () => {
  const flags = (daysAgo: number) => evidenceOf([action('security_login_flags', 'Critical', daysAgo)]);
  for (const daysAgo of [20_000, 700_000]) {
    expect(metricHealth(flags(daysAgo), 'security_login_flags', MODEL_LENS, TODAY)).toBe(1);
  }
});

test('a category with flags only has health 0', () => {
  const evidence = evidenceOf([action('compliance_trade_flags', 'Minimal')]);
  expect(categoryHealth(evidence, MODEL_LENS, TODAY).compliance).toBe(0);
});

test.each(MODEL.categories)('evidence in %s weighs half after its half-life, for gains and flags', (category) => {
  const days = HALF_LIFE[category];
  const evidence = evidenceOf([
    action(`${category}_deed`, 'Critical', days),
    action(`${category}_mishap_flags`, 'Minimal', 2 * days),
  ]);
  const expected = (1 - Math.exp(-70 / 600)) * Math.exp(-2.5 / 150);
  expect(categoryHealth(evidence, MODEL_LENS, TODAY)[category]).toBe(four(expected));
});

test('ages are whole UTC days: nothing changes within a day, everything at midnight', () => {
  const evidence = evidenceOf([action('security_audit', 'Critical', 90)]);
  const at = (ms: number) => categoryHealth(evidence, MODEL_LENS, ms).security;
  const midnight = Date.UTC(2026, 0, 6);
  expect(at(midnight - 1)).toBe(at(midnight - DAY));
  expect(at(midnight)).toBeLessThan(at(midnight - 1));
});

test('an action up to a minute in the next day weighs like one of today', () => {
  const evidence = evidenceOf([action('security_audit', 'Critical', -1)]);
  expect(categoryHealth(evidence, MODEL_LENS, TODAY).security).toBe(four(1 - Math.exp(-140 / 600)));
});

test('reliability is (p + 0.05) / (p + n + 0.055) over weights that halve in 45 days', () => {
  const evidence = evidenceOf([
    action('social_trade_rating', 'High'),
    action('social_trade_rating', 'Critical', 45),
    action('compliance_trade_flags', 'Moderate', 90),
  ]);
  const [p, n] = [0.1 + 0.14 / 2, 0.07 / 4];
  expect(disc1.assess(evidence, MODEL_LENS, TODAY).reliability).toBe(four((p + 0.05) / (p + n + 0.055)));
});

test('under a VP only its metrics count, by its weights', () => {
  const evidence = evidenceOf([
    action('social_trade_rating', 'Minimal'),
    action('social_vouch', 'Critical'),
    action('compliance_trade_flags', 'Critical'),
  ]);
  const lens = vpLens({ social_trade_rating: 140, compliance_trade_flags: 10 });
  expect(categoryHealth(evidence, lens, TODAY)).toMatchObject({
    social: four(1 - Math.exp(-140 / 600)),
    compliance: 0,
  });
  expect(metricHealth(evidence, 'social_vouch', lens, TODAY)).toBe(0);
  expect(metricHealth(evidence, 'compliance_trade_flags', vpLens({ social_vouch: 10 }), TODAY)).toBe(0);
  expect(disc1.assess(evidence, lens, TODAY).reliability).toBe(four((0.14 + 0.05) / (0.14 + 0.01 + 0.055)));
});
