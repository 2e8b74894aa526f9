import { setTimeout as sleep } from 'node:timers/promises';
import { jest } from '@jest/globals';
import {
  SharedLookUps,
  endOfTurn,
  inTime,
  isDue,
  yieldBatchIfDue,
  yieldFoldIfDue,
  yieldIfDue,
} from '../../src/kernel/turn.js';

/** Uses the processor until another piece of work is due, and resolves when this one may continue. */
async function work(ifDue = yieldIfDue): Promise<void> {
  let turn: Promise<void> | undefined;
  while (!turn) turn = ifDue();
  await turn;
}

test('long work that a timer or a message has begun continues only when what became due meanwhile has run', async () => {
  await sleep(1);
  const order: string[] = [];
  setTimeout(() => order.push('what became due'), 1);
  await work();
  order.push('the rest of the long work');
  expect(order).toEqual(['what became due', 'the rest of the long work']);
});

test('of several long pieces of work, one continues in each turn', async () => {
  let turns = 0;
  const count = () => (isCounting ? void (turns++, setImmediate(count)) : undefined);
  let isCounting = true;
  setImmediate(count);
  const continued: number[] = [];
  await Promise.all(
    [1, 2, 3].map(async () => {
      await work();
      continued.push(turns);
    }),
  );
  isCounting = false;
  expect(new Set(continued).size).toBe(3);
});

test('a fold of the log does not wait behind other long work, nor does that wait behind folds: they take turns', async () => {
  const order: string[] = [];
  const begin = (name: string, ifDue?: typeof yieldIfDue) => work(ifDue).then(() => void order.push(name));
  const others = Array.from({ length: 6 }, () => begin('other'));
  const folds = Array.from({ length: 3 }, () => begin('fold', yieldFoldIfDue));
  await Promise.all([...others, ...folds]);
  expect(order.join(' ')).toMatch(/^(fold )?(other fold ){2,3}(other ?){3,4}$/);
});

test('a read waits behind one turn of batches and one of folds, however many of those wait', async () => {
  const order: string[] = [];
  const begin = (name: string, ifDue?: typeof yieldIfDue) => work(ifDue).then(() => void order.push(name));
  const batches = Array.from({ length: 6 }, () => begin('batch', yieldBatchIfDue));
  const folds = Array.from({ length: 6 }, () => begin('fold', yieldFoldIfDue));
  await Promise.all([...batches, ...folds, begin('read')]);
  expect(order.indexOf('read')).toBeLessThanOrEqual(2);
  expect(order).toHaveLength(13);
});

test('what begins in the turn of a resumed read has a share of its own once that read has yielded, other work has not', async () => {
  const shares: boolean[] = [];
  for (const ifDue of [yieldIfDue, yieldBatchIfDue, yieldFoldIfDue]) {
    await work(ifDue);
    const again = work(ifDue);
    shares.push(!isDue());
    await again;
    await sleep(1);
  }
  expect(shares).toEqual([true, false, false]);
});

test('a look-up is shared by those who ask in one turn, and not by one who asks while it is under way', async () => {
  let answer = 0;
  const lookUps = new SharedLookUps<number>();
  const look = async () => {
    const found = ++answer;
    await sleep(5);
    return found;
  };
  const together = [lookUps.of('a', look), lookUps.of('a', look), lookUps.of('b', look)];
  await endOfTurn();
  expect(await Promise.all([...together, lookUps.of('a', look)])).toEqual([1, 1, 2, 3]);
});

test('what is waited for after its time is over is late at once; no timer has a negative time, of which Node warns', async () => {
  const timers = jest.spyOn(globalThis, 'setTimeout');
  try {
    await expect(inTime(new Promise(() => undefined), -300, 'late')).rejects.toThrow('late');
    expect(timers.mock.calls.map(([, ms]) => ms)).toEqual([0]);
  } finally {
    timers.mockRestore();
  }
});
