import fc from 'fast-check';
import { POSITION_SORT, positionOf, sortByPosition } from '../../src/kernel/positions.js';

const position = () => fc.oneof(fc.nat(1_000), fc.maxSafeNat());

describe('the sort key of a position', () => {
  test('has the order of the positions, byte by byte, with or without a part that follows', () => {
    fc.assert(
      fc.property(position(), position(), (a, b) => {
        const [first, second] = [sortByPosition(a), sortByPosition(b)];
        expect(Math.sign(Buffer.compare(Buffer.from(first), Buffer.from(second)))).toBe(Math.sign(a - b));
        if (a !== b) expect(`${first}/z` < `${second}/a`).toBe(a < b);
      }),
    );
  });

  test('gives the position back', () => {
    fc.assert(
      fc.property(position(), (a) => {
        expect(sortByPosition(a)).toMatch(POSITION_SORT);
        expect(positionOf(sortByPosition(a))).toBe(a);
        expect(positionOf(`${sortByPosition(a)}/1`)).toBe(a);
      }),
    );
    expect(sortByPosition(Number.MAX_SAFE_INTEGER)).toBe('g9007199254740991');
  });
});
