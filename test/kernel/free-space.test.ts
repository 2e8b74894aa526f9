import { FreeSpace, freeBytes } from '../../src/kernel/free-space.js';

test('a disk is almost full if less than the reserved space is free', () => {
  const free = freeBytes('.');
  expect(new FreeSpace('.', free / 2).isEnough()).toBe(true);
  expect(new FreeSpace('.', free * 2).isEnough()).toBe(false);
});

test('a file system that does not tell its size, and a folder that cannot be looked at, are taken to have space', () => {
  if (process.platform === 'linux') expect(freeBytes('/proc')).toBe(Infinity);
  expect(freeBytes('./no such folder')).toBe(Infinity);
});
