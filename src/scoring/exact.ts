/**
 * Powers and exponentials from additions, multiplications and divisions only. IEEE 754 defines these to the bit, while
 * Math.pow and Math.exp may differ between engines. So the same log gives the same scores everywhere.
 */

/** base^n for a whole n ≥ 0, by squaring. */
export function power(base: number, n: number): number {
  let result = 1;
  for (let square = base; n > 0; n = Math.floor(n / 2), square *= square) if (n % 2 === 1) result *= square;
  return result;
}

/** `power` of one base, each power computed once: used for every day of every identity. */
export function powersOf(base: number): (n: number) => number {
  const known: number[] = [];
  return (n) => (known[n] ??= power(base, n));
}

const E_TO_MINUS_1 = 0.36787944117144233;
/** Beyond this, e^(−x) is below 1e-300 and does not change a score. */
const LARGEST_EXPONENT = 690;
/** Terms of the series for e^(−f), 0 ≤ f < 1; the next is below 2^−60. */
const TERMS = 20;

/** e^(−x) for x ≥ 0, relative error below 1e-14. */
export function expMinus(x: number): number {
  if (x > LARGEST_EXPONENT) return 0;
  if (x === 0) return 1;
  const whole = Math.floor(x);
  const fraction = x - whole;
  let series = 1;
  for (let k = TERMS; k > 0; k--) series = 1 - (series * fraction) / k;
  return power(E_TO_MINUS_1, whole) * series;
}

/** Rounds half up to a number of decimals, for values in the range of scores. */
export function round(value: number, decimals: 1 | 4): number {
  const scale = decimals === 1 ? 10 : 10_000;
  return Math.round(value * scale) / scale;
}

/**
 * The least whole number after `low`, and up to `high`, that is enough. By default one from 0 to 2^20, which is above the
 * need of any health or reliability.
 * @param isEnough must be true for all numbers from some number on
 */
export function least(isEnough: (amount: number) => boolean, low = -1, high = 2 ** 20): number {
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    if (isEnough(middle)) high = middle;
    else low = middle;
  }
  return high;
}
