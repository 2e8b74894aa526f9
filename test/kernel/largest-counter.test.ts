import { jest } from '@jest/globals';
import { Registry } from 'prom-client';
import { LargestCounter } from '../../src/kernel/largest-counter.js';

function counted(most: number, counts: readonly (readonly [name: string, by: number])[]): Promise<string[]> {
  const registry = new Registry();
  const counter = new LargestCounter<'a' | 'b'>(registry, { name: 'n', help: 'h', labels: ['of', 'what'], most });
  for (const [name, by] of counts) counter.inc(name, 'a', by);
  return registry.metrics().then((text) => text.split('\n').filter((line) => line.startsWith('n{')));
}

test('the first names have series of their own, also by 0, and further ones are counted together', async () => {
  const lines = await counted(2, [
    ['x', 3],
    ['y', 0],
    ['z', 0],
    ['w', 0],
    ['x', 1],
  ]);
  expect(lines).toEqual(['n{of="x",what="a"} 4', 'n{of="y",what="a"} 0', 'n{of="other",what="a"} 0']);
});

test('a name that comes to have more than another gets a series that begins then, and no series falls', async () => {
  const lines = await counted(2, [
    ['x', 5],
    ['y', 2],
    ['z', 1],
    ['z', 1],
    ['z', 1],
    ['y', 1],
  ]);
  expect(lines.sort()).toEqual(['n{of="other",what="a"} 3', 'n{of="x",what="a"} 5', 'n{of="z",what="a"} 1']);
});

test('tells by the minute what was counted in the last hour, whatever the names', () => {
  const registry = new Registry();
  const clock = jest.spyOn(Date, 'now').mockReturnValue(0);
  try {
    const counter = new LargestCounter<'a' | 'b'>(registry, { name: 'n', help: 'h', labels: ['of', 'what'], most: 1 });
    for (const [minute, name, what] of [
      [0, 'x', 'a'],
      [1, 'x', 'a'],
      [1, 'y', 'a'],
      [1, 'y', 'b'],
      [60, 'x', 'b'],
    ] as const) {
      clock.mockReturnValue(minute * 60_000 + 59_999);
      counter.inc(name, what);
    }
    const minutes = [...(registry.getSingleMetric('n') as unknown as typeof counter).minutes];
    expect(minutes.map(([at, counts]) => [at, Object.fromEntries(counts)])).toEqual([
      [1, { a: 2, b: 1 }],
      [60, { b: 1 }],
    ]);
  } finally {
    clock.mockRestore();
  }
});
