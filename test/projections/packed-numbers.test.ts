import fc from 'fast-check';
import { packNumbers, unpackNumbers } from '../../projections/packed-numbers.js';

test('packed numbers are read back, also from texts that were put together', () => {
  const numbers = fc.oneof(fc.maxSafeNat(), fc.nat(), fc.nat(40));
  return fc.assert(
    fc.property(fc.array(numbers), fc.array(numbers), (some, more) => {
      const into = new Float64Array(some.length + more.length);
      expect(unpackNumbers(packNumbers(some) + packNumbers(more), into)).toBe(into.length);
      expect([...into]).toEqual([...some, ...more]);
    }),
  );
});
