/**
 * Whole numbers as text of base64 digits: five bits a digit, lowest first, and a sixth that says whether another digit
 * follows. JSON reads such a text ten times as fast as an array of the numbers, and it is half as long.
 */

const DIGITS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
const BITS = 5;
const BASE = 2 ** BITS;
const VALUES = new Uint8Array(128);
for (let value = 0; value < DIGITS.length; value++) VALUES[DIGITS.charCodeAt(value)] = value;

/** @param numbers whole, from 0 to 2^53 - 1 */
export function packNumbers(numbers: readonly number[]): string {
  let text = '';
  for (let number of numbers) {
    for (; number >= BASE; number = Math.floor(number / BASE)) text += DIGITS[BASE + (number % BASE)]!;
    text += DIGITS[number]!;
  }
  return text;
}

/** Bits of the digits that fit into an integer of 32 bits, with which engines calculate much faster. */
const LOW_BITS = 30;
const LOW = 2 ** LOW_BITS;

/** The digits of a text as bytes, which are read faster one by one than the characters of a text. */
let digits = Buffer.alloc(4_096);

/** Writes the numbers of a text into an array. @returns how many */
export function unpackNumbers(text: string, into: Float64Array): number {
  if (text.length > digits.length) digits = Buffer.alloc(2 * text.length);
  const bytes = digits;
  const end = bytes.write(text, 'latin1');
  let count = 0;
  for (let i = 0; i < end;) {
    let value = VALUES[bytes[i++]!]!;
    let low = value & (BASE - 1);
    let bits = BITS;
    for (; value >= BASE && bits < LOW_BITS; bits += BITS) {
      value = VALUES[bytes[i++]!]!;
      low |= (value & (BASE - 1)) << bits;
    }
    let high = 0;
    for (; value >= BASE; bits += BITS) {
      value = VALUES[bytes[i++]!]!;
      high |= (value & (BASE - 1)) << (bits - LOW_BITS);
    }
    into[count++] = high === 0 ? low : low + high * LOW;
  }
  return count;
}
