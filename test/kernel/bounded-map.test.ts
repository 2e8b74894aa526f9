import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
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

test('keys that are deleted and set again, before and between removals, are removed in the order in which they were set last', () => {
  const map = new BoundedMap<string, number>(3);
  map.set('a', 1).set('b', 1).set('c', 1);
  map.delete('a');
  map.set('a', 2).set('d', 1);
  expect([...map.keys()]).toEqual(['c', 'a', 'd']);
  map.delete('c');
  map.delete('a');
  map.set('a', 3).set('b', 3).set('c', 3);
  expect([...map.keys()]).toEqual(['a', 'b', 'c']);
  map.clear();
  map.set('x', 1).set('y', 1).set('z', 1).set('a', 4);
  expect([...map.keys()]).toEqual(['y', 'z', 'a']);
});

test('a bounded map that has grown holds only its own table', () => {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  const used = () => {
    collect();
    return process.memoryUsage().heapUsed;
  };
  const filled = (map: Map<number, number>) => {
    const before = used();
    for (let n = 0; n < 200_000; n++) map.set(n, n);
    return used() - before;
  };
  const plain = filled(new Map());
  expect(filled(new BoundedMap(1_000_000))).toBeLessThan(1.3 * plain);
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
