import { laneOf } from './ports.js';

test('each process of the runner has ports of its own, and one too many is told so', () => {
  expect([undefined, '1', '99'].map(laneOf)).toEqual([0, 1, 99]);
  expect(() => laneOf('100')).toThrow('set --maxWorkers');
});
