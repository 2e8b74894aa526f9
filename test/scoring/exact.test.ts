import fc from 'fast-check';
import { expMinus, power, round } from '../../src/scoring/exact.js';

/** Math.exp and Math.pow are the reference here only: the model itself must not use them. */
const relativeError = (value: number, reference: number) => Math.abs(value - reference) / reference;

test('e^(−x) agrees with Math.exp within 1e-13 of its value', () => {
  fc.assert(
    fc.property(fc.double({ min: 0, max: 690, noNaN: true }), (x) => {
      expect(relativeError(expMinus(x), Math.exp(-x))).toBeLessThan(1e-13);
    }),
    { numRuns: 2_000 },
  );
});

test.each([
  [0, 1],
  [1, Math.exp(-1)],
  [691, 0],
  [1e300, 0],
])('e^(−%d) is %d', (x, expected) => {
  expect(expMinus(x)).toBe(expected);
});

test('e^(−x) never grows with x', () => {
  fc.assert(
    fc.property(
      fc.double({ min: 0, max: 700, noNaN: true }),
      fc.double({ min: 1e-9, max: 5, noNaN: true }),
      (x, more) => {
        expect(expMinus(x + more)).toBeLessThanOrEqual(expMinus(x));
      },
    ),
  );
});

test('base^n agrees with Math.pow within 1e-13 up to 1,000 days, and 1e-11 up to 55 years', () => {
  fc.assert(
    fc.property(fc.double({ min: 0.98, max: 1, noNaN: true }), fc.integer({ min: 0, max: 20_000 }), (base, n) => {
      expect(relativeError(power(base, n), Math.pow(base, n))).toBeLessThan(1e-11);
      if (n <= 1_000) expect(relativeError(power(base, n), Math.pow(base, n))).toBeLessThan(1e-13);
    }),
    { numRuns: 2_000 },
  );
});

test.each([
  [0.5, 0, 1],
  [0.5, 1, 0.5],
  [0.5, 10, 1 / 1024],
  [3, 5, 243],
  [0, 0, 1],
])('%d^%i is %d exactly', (base, n, expected) => {
  expect(power(base, n)).toBe(expected);
});

test('rounding is half up at the decimals asked for', () => {
  expect([round(62.65, 1), round(62.64, 1), round(0.12345, 4), round(0.12344, 4), round(0, 4)]).toEqual([
    62.7, 62.6, 0.1235, 0.1234, 0,
  ]);
});
