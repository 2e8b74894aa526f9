import {
  CATEGORY_NAMES,
  DOCUMENTED_METRICS,
  canonicalMetric,
  categoryOf,
  isFlags,
  metricCategory,
} from '../../src/scoring/names.js';
import { CRITICALITIES, MODEL, TCT_BY_CRITICALITY } from '../../src/scoring/model.js';
import { disc1 } from '../../src/scoring/models/disc-1.js';
import { disc2 } from '../../src/scoring/models/disc-2.js';

/** The numbers here are those of docs/decisions/0011 and docs/scoring.md, written out again: a change of the model must change this file too. */

test('the criticalities weigh 0.01, 0.03, 0.07, 0.10 and 0.14, and an action 1000 times that', () => {
  expect(MODEL.criticality_hundredths).toEqual({ Minimal: 1, Low: 3, Moderate: 7, High: 10, Critical: 14 });
  expect(CRITICALITIES).toEqual(['Minimal', 'Low', 'Moderate', 'High', 'Critical']);
  expect(TCT_BY_CRITICALITY).toEqual([10, 30, 70, 100, 140]);
});

test('there are seven categories, and two of them have an alias', () => {
  expect(MODEL.categories).toEqual([
    'financial',
    'creative',
    'educational',
    'behavioral',
    'social',
    'security',
    'compliance',
  ]);
  expect(CATEGORY_NAMES).toEqual([...MODEL.categories, 'finance', 'governance']);
  expect([categoryOf('finance'), categoryOf('governance'), categoryOf('social')]).toEqual([
    'financial',
    'behavioral',
    'social',
  ]);
  for (const name of ['Financial', 'FINANCE', '', 'constructor', '__proto__', 'toString']) {
    expect(categoryOf(name)).toBeUndefined();
  }
});

test.each([
  ['financial', 365],
  ['compliance', 365],
  ['behavioral', 180],
  ['social', 180],
  ['security', 90],
  ['creative', 730],
  ['educational', 730],
] as const)('evidence in %s halves in %i days', (category, days) => {
  expect(Math.pow(MODEL.daily_factor[category], days)).toBeCloseTo(0.5, 12);
});

test('evidence of reliability halves in 45 days, in both versions', () => {
  for (const { constants } of [disc1, disc2]) {
    expect(Math.pow(constants.reliability_daily_factor, 45)).toBeCloseTo(0.5, 12);
  }
  expect([disc1.constants.reliability_prior, disc1.constants.reliability_prior_total]).toEqual([0.05, 0.055]);
});

test('a metric is <category>_<action_type>, its alias resolved', () => {
  expect(canonicalMetric('finance_loan_repayment_consistency')).toBe('financial_loan_repayment_consistency');
  expect(canonicalMetric('governance_vote_participation')).toBe('behavioral_vote_participation');
  expect(canonicalMetric('social_flags')).toBe('social_flags');
  for (const name of [
    'financial',
    'financial_',
    '_x',
    'other_x',
    'financial_X',
    'financial__x',
    '',
    `social_${'a'.repeat(65)}`,
  ]) {
    expect([name, canonicalMetric(name)]).toEqual([name, undefined]);
  }
});

test('the seventeen documented metrics are all well-formed and in a category', () => {
  expect(new Set(DOCUMENTED_METRICS).size).toBe(17);
  for (const name of DOCUMENTED_METRICS) {
    expect(MODEL.categories).toContain(metricCategory(canonicalMetric(name)!));
  }
});

test('only the ending _flags makes a metric negative', () => {
  expect(['compliance_moderation_flags', 'social_flags'].map(isFlags)).toEqual([true, true]);
  expect(['social_flags_raised', 'social_flag', 'social_redflags'].map(isFlags)).toEqual([false, false, false]);
});
