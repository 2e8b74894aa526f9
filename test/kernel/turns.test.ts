import { setTimeout as sleep } from 'node:timers/promises';
import { Turns } from '../../src/kernel/turns.js';

/** Runs work that ends when it is told. @returns the owners in the order in which their work began */
function following(turns: Turns) {
  const begun: string[] = [];
  const ends: (() => void)[] = [];
  const run = (owner: string) =>
    void turns.run(owner, () => {
      begun.push(owner);
      return new Promise<void>((resolve) => ends.push(resolve));
    });
  const end = async () => {
    ends.shift()!();
    await sleep(0);
  };
  return { begun, run, end };
}

test('owners take turns, however much one of them wants', async () => {
  const { begun, run, end } = following(new Turns(1, 1));
  for (const owner of ['a', 'a', 'a', 'b', 'c', 'b']) run(owner);
  for (let n = 0; n < 5; n++) await end();
  expect(begun).toEqual(['a', 'a', 'b', 'c', 'a', 'b']);
});

test('one owner gets no more than its part of what runs at the same time, and what is free', async () => {
  const turns = new Turns(3, 2);
  const { begun, run, end } = following(turns);
  for (const owner of ['a', 'a', 'a', 'b', 'b']) run(owner);
  expect(begun).toEqual(['a', 'a', 'b']);
  expect([turns.countOf('a'), turns.countOf('b'), turns.countOf('c')]).toEqual([3, 2, 0]);
  await end();
  expect(begun).toEqual(['a', 'a', 'b', 'a']);
  for (let n = 0; n < 4; n++) await end();
  expect(begun).toEqual(['a', 'a', 'b', 'a', 'b']);
  expect(turns.countOf('a')).toBe(0);
});

test('a failure ends a turn, too', async () => {
  const turns = new Turns(1, 1);
  const failed = turns.run('a', () => Promise.reject(new Error('failed')));
  const next = turns.run('b', () => Promise.resolve('next'));
  await expect(failed).rejects.toThrow('failed');
  expect(await next).toBe('next');
});
