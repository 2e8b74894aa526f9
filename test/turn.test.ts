import { setTimeout as sleep } from 'node:timers/promises';
import { yieldIfDue } from '../src/kernel/turn.js';

/** Uses the processor until another piece of work is due, and resolves when this one may continue. */
async function work(): Promise<void> {
  let turn: Promise<void> | undefined;
  while (!turn) turn = yieldIfDue();
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
