import * as shown from '../../console/src/lab/metrics.js';
import { CRITICALITIES, MODEL } from '../../src/scoring/model.js';
import * as names from '../../src/scoring/names.js';

/** What the console knows of metrics and weights is what the service knows. */

const METRICS = [
  ...names.DOCUMENTED_METRICS,
  ...names.CATEGORY_NAMES.map((category) => `${category}_a`),
  'finance',
  'finance_',
  '_a',
  'unknown_a',
  'finance_A',
  'social_a_b',
  `social_${'a'.repeat(65)}`,
  '',
];

test('the console has the categories, their aliases and the documented metrics of the service', () => {
  expect(shown.CATEGORIES).toEqual(MODEL.categories);
  expect(shown.CATEGORY_NAMES).toEqual(names.CATEGORY_NAMES);
  expect(shown.DOCUMENTED_METRICS).toEqual(names.DOCUMENTED_METRICS);
});

test('the console accepts the metrics that the service accepts, by the same canonical names', () => {
  expect(METRICS.map(shown.canonicalMetric)).toEqual(METRICS.map(names.canonicalMetric));
});

test('the console has the criticalities and weights of the service, in any case', () => {
  expect(shown.HUNDREDTHS).toEqual(MODEL.criticality_hundredths);
  expect(shown.CRITICALITIES).toEqual(CRITICALITIES);
  const written = [...CRITICALITIES.flatMap((name) => [name, name.toUpperCase(), name.toLowerCase()]), 'none'];
  const weights = written.map(names.criticalityOf).map((name) => name && MODEL.criticality_hundredths[name]);
  expect(written.map(shown.hundredthsOf)).toEqual(weights);
});
