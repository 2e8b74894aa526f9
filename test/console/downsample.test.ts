import { property, assert, array, integer } from 'fast-check';
import { downsample } from '../../console/src/downsample.js';

/** The points of the console's line that are drawn. */

test('keeps every point of a short line', () => {
  expect(downsample([1, 2, 3, 4], [5, 6, 7, 8], 0, 4, 1)).toEqual([0, 1, 2, 3]);
  expect(downsample([1, 2, 3, 4], [5, 6, 7, 8], 1, 3, 1)).toEqual([1, 2]);
  expect(downsample([], [], 0, 0, 10)).toEqual([]);
});

test('keeps the ends, the lowest and the highest point, in order, and few points of any line', () => {
  const BUCKETS = 10;
  const lines = array(integer({ min: 0, max: 1000 }), { minLength: 41, maxLength: 300 });
  assert(
    property(lines, lines, (gaps, heights) => {
      let time = 0;
      const times = gaps.map((gap) => (time += gap));
      const values = times.map((_, i) => heights[i % heights.length]!);
      const kept = downsample(times, values, 0, times.length, BUCKETS);
      expect(kept).toEqual([...new Set(kept)].sort((a, b) => a - b));
      expect(kept.length).toBeLessThanOrEqual(4 * (BUCKETS + 1));
      expect([kept[0], kept.at(-1)]).toEqual([0, times.length - 1]);
      const shown = kept.map((i) => values[i]!);
      expect([Math.min(...shown), Math.max(...shown)]).toEqual([Math.min(...values), Math.max(...values)]);
    }),
  );
});
