import fc from 'fast-check';
import { largest } from '../../src/features/disc/largest.js';

test('the largest of some items are those at the start of all of them sorted by value and name', () =>
  fc.assert(
    fc.asyncProperty(
      fc.uniqueArray(fc.string({ maxLength: 3 }), { size: 'medium' }),
      fc.array(fc.nat(9), { minLength: 100, maxLength: 100 }),
      fc.integer({ min: 1, max: 12 }),
      async (names, some, limit) => {
        const values = Float64Array.from(names, (_, n) => some[n % some.length]!);
        // Not all items are asked for.
        const numbers = [...names.keys()].filter((n) => n % 5 !== 3);
        const sorted = [...numbers].sort((a, b) => values[b]! - values[a]! || (names[a]! < names[b]! ? -1 : 1));
        expect(await largest(numbers, values, names, limit)).toEqual(sorted.slice(0, limit));
      },
    ),
  ));

test('other work can run while the largest of many equal items are found', async () => {
  const names = Array.from({ length: 300_000 }, (_, n) => `metric_${(n * 7_919) % 300_000}`);
  let turns = 0;
  let isDone = false;
  const count = () => {
    turns++;
    if (!isDone) setImmediate(count);
  };
  count();
  const found = await largest([...names.keys()], new Float64Array(names.length), names, 1_000);
  isDone = true;
  expect(found.map((n) => names[n])).toEqual([...names].sort().slice(0, 1_000));
  expect(turns).toBeGreaterThan(5);
});
