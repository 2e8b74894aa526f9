import { setTimeout as sleep } from 'node:timers/promises';
import { jest } from '@jest/globals';
import { Staleness } from '../../src/read-side/staleness.js';

/** How long what is served has been behind the log. */

const BOUND = 10;

let now: number;
let head: number | Error;
let applied: number | Error;
let staleness: Staleness;

const valueOf = async (value: number | Error) => {
  if (value instanceof Error) throw value;
  return value;
};
beforeEach(() => {
  [now, head, applied] = [1_000_000, 7, 7];
  jest.spyOn(performance, 'now').mockImplementation(() => now);
  staleness = new Staleness({ head: () => valueOf(head) }, { applied: () => valueOf(applied) }, BOUND);
});
afterEach(() => void jest.restoreAllMocks());

/** As often as the timer looks. */
async function pass(seconds: number): Promise<void> {
  for (let ms = 0; ms < seconds * 1_000; ms += 500) {
    now += 500;
    await staleness.look();
  }
}
const isRefused = (position: number) =>
  staleness.refuse(position).then(
    () => false,
    ({ code, status, extra, message }) => {
      expect([code, status, extra]).toEqual(['projection_behind', 503, { headers: { 'retry-after': '1' } }]);
      return message as string;
    },
  );

test('what has applied the head is never behind, however long nothing happens', async () => {
  await pass(100);
  expect([staleness.seconds, await isRefused(7)]).toEqual([0, false]);
});

test('a read is refused once the log has been beyond its position for longer than the bound', async () => {
  await pass(60);
  head = 9;
  await pass(10.5); // the first look finds it half a second later
  expect([staleness.seconds, await isRefused(7)]).toEqual([0, false]);
  await pass(0.5);
  expect(staleness.seconds).toBe(10);
  expect(await isRefused(7)).toBe(
    'The read models have been behind the log for 10 s, which is longer than a check allows ' +
      '(CREDENCE_MAX_STALENESS_SECONDS). Nothing was recorded.',
  );
  expect(await isRefused(9)).toBe(false);
  applied = 9;
  await pass(0.5);
  expect([staleness.seconds, await isRefused(9)]).toEqual([0, false]);
});

test('each position has its own age: one that follows a busy log closely is not behind', async () => {
  for (let n = 0; n < 200; n++) {
    head = 10 + n;
    applied = 9 + n;
    await pass(0.5);
    expect([staleness.seconds, await isRefused(9 + n)]).toEqual([0, false]);
  }
  // 12 s ago the head was 24 looks less.
  expect(await isRefused(209 - 24)).toMatch(/for 11 s/);
  expect(await isRefused(209 - 18)).toBe(false);
});

test('while the log gives no answer, checks go on for as long as the bound', async () => {
  await pass(5);
  head = new Error('away');
  await pass(10);
  expect([staleness.seconds, await isRefused(7)]).toEqual([0, false]);
  await pass(0.5);
  expect(staleness.seconds).toBe(10);
  expect(await isRefused(7)).toMatch(/^The log has given no answer for 10 s, so that the read models may be as far/);
  head = 7;
  // A check asks itself, and need not wait for the timer.
  expect(await isRefused(7)).toBe(false);
  await pass(0.5);
  expect(staleness.seconds).toBe(0);
});

test('a process that stood still refuses nothing that it can find to be in order', async () => {
  await pass(5);
  now += 60_000;
  expect(await isRefused(7)).toBe(false);
});

test('a store that keeps a look waiting counts as silent', async () => {
  await pass(5);
  staleness = new Staleness({ head: () => new Promise(() => undefined) }, { applied: async () => 7 }, BOUND);
  for (let n = 0; n < 22; n++) {
    now += 500;
    void staleness.look();
  }
  expect(staleness.seconds).toBe(11);
  expect(await isRefused(7)).toMatch(/^The log has given no answer for 11 s/);
});

test('read models that give no answer are where they were', async () => {
  await pass(5);
  applied = new Error('away');
  head = 8;
  await pass(30);
  expect(staleness.seconds).toBe(29);
});

test('the age of what is a week behind a busy log is known well enough, with some hundred samples', async () => {
  const week = 7 * 86_400;
  for (let s = 0; s < week; s += 60) {
    head = 10 + s;
    now += 60_000;
    await staleness.look();
  }
  for (const age of [600, 3_600, 86_400, 6 * 86_400]) {
    const told = Number(/for (\d+) s/.exec(String(await isRefused(10 + week - 60 - age)))![1]);
    expect(told).toBeLessThanOrEqual(age);
    expect(told).toBeGreaterThan(age * 0.95 - 61);
  }
  expect(staleness['samples'].length).toBeLessThan(500);
});

test('a batch is held back while the read models are more than a second behind, for 2 ms an item at most', async () => {
  const order: string[] = [];
  const hold = (name: string, one = staleness, items = 1_000) => one.holdBack(items).then(() => void order.push(name));
  await pass(5);
  head = 9;
  await pass(1.5);
  await Promise.race([hold('close enough'), sleep(100)]);
  expect(order).toEqual(['close enough']);

  applied = 8;
  await pass(0.5);
  let slow = 1;
  const remaining = new Staleness({ head: async () => 9 }, { applied: async () => slow++ }, BOUND);
  for (let ms = 0; ms <= 2_000; ms += 500, now += 500) await remaining.look();
  const began = Date.now();
  const held = [hold('caught up'), hold('still behind', remaining), hold('small', remaining, 10)];
  applied = 9;
  await pass(0.5);
  await Promise.all(held);
  expect(order).toEqual(['close enough', 'small', 'caught up', 'still behind']);
  expect(Date.now() - began).toBeGreaterThan(1_900);
});

test('no batch is held back for read models to which nobody applies the log', async () => {
  await pass(5);
  head = 9;
  await pass(10);
  const outcome = await Promise.race([
    staleness.holdBack(1_000).then(() => 'at once'),
    sleep(100).then(() => 'held back'),
  ]);
  expect(outcome).toBe('at once');
});

test('no batch is held back once the process stops', async () => {
  await pass(5);
  [head, applied] = [9, 8];
  await pass(2);
  const held = staleness.holdBack(1_000_000);
  staleness.onModuleDestroy();
  await held;
});
