import { BoundedMap } from '../../src/kernel/bounded-map.js';

test('a full bounded map removes the key that was set first', () => {
  const map = new BoundedMap<string, number>(2);
  map.set('a', 1).set('b', 2);
  map.set('a', 3);
  expect([...map]).toEqual([
    ['a', 3],
    ['b', 2],
  ]);
  map.set('c', 4);
  expect([...map]).toEqual([
    ['b', 2],
    ['c', 4],
  ]);
});

test('a full bounded map of many entries removes the first as fast as one of few', () => {
  const map = new BoundedMap<number, number>(100_000);
  for (let n = 0; n < 100_000; n++) map.set(n, n);
  const began = process.cpuUsage();
  for (let n = 100_000; n < 150_000; n++) map.set(n, n);
  const { user, system } = process.cpuUsage(began);
  expect(map.keys().next().value).toBe(50_000);
  expect((user + system) / 1_000).toBeLessThan(1_500);
});
