import { backoff } from '../../src/kernel/backoff.js';

test('waits twice as long after each failure, up to a longest time', () => {
  expect([1, 2, 3, 4, 5, 6].map((failures) => backoff(failures))).toEqual([50, 100, 200, 400, 500, 500]);
  expect([1, 2, 3, 4].map((failures) => backoff(failures, { from: 1_000, most: 5_000 }))).toEqual([
    1_000, 2_000, 4_000, 5_000,
  ]);
});

test('has a longest time however often something fails', () => {
  for (const failures of [2_000, Number.MAX_SAFE_INTEGER, Infinity]) expect(backoff(failures)).toBe(500);
});
