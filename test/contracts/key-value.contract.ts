import { randomUUID } from 'node:crypto';
import type { Clock } from '../../src/kernel/clock.js';
import type { Json } from '../../src/kernel/json.js';
import type { KeyValue } from '../../src/stores/ports/key-value.js';
import type { Harness } from './harness.js';

/**
 * The rules of short-lived state that every adapter keeps. `wait` lets time pass for the adapter: by moving the clock
 * it was given, or by waiting.
 */
export function describeKeyValue(
  name: string,
  makeHarness: (clock: Clock) => Promise<Harness<KeyValue> & { wait?(ms: number): Promise<void> }>,
): void {
  describe(`${name}: key-value contract`, () => {
    const TTL_MS = 300;
    let now: number;
    let harness: Awaited<ReturnType<typeof makeHarness>>;
    let store: KeyValue;
    let key: string;

    beforeEach(async () => {
      now = Date.now();
      harness = await makeHarness(() => now);
      store = await harness.open();
      key = `nonce:${randomUUID()}`;
    });
    afterEach(async () => {
      await store.close();
      await harness.destroy();
    });

    async function wait(ms: number): Promise<void> {
      now += ms;
      await harness.wait?.(ms);
    }

    test('gives back any JSON value, and undefined for an unknown key', async () => {
      const values: Json[] = [null, false, 0, '', 'ключ 🦊', [1, { a: null }], { b: [] }, 'x'.repeat(20_000)];
      for (const value of values) {
        await store.put(key, value, TTL_MS * 100);
        expect(await store.get(key)).toEqual(value);
      }
      expect(await store.get(`${key}-unknown`)).toBeUndefined();
    });

    test('an expired entry is absent for every operation', async () => {
      await store.put(key, 1, TTL_MS);
      await wait(TTL_MS + 20);
      expect(await store.get(key)).toBeUndefined();
      expect(await store.take(key)).toBeUndefined();
      expect(await store.replace(key, 1, 2, TTL_MS)).toBe(false);
      expect(await store.putIfAbsent(key, 3, TTL_MS * 100)).toBe(true);
      expect(await store.get(key)).toBe(3);
    });

    test('what is replaced with no time to live is absent at once', async () => {
      await store.put(key, 1, TTL_MS * 100);
      expect(await store.replace(key, 1, 2, 0)).toBe(true);
      expect(await store.get(key)).toBeUndefined();
      expect(await store.putIfAbsent(key, 3, TTL_MS * 100)).toBe(true);
    });

    test('put replaces the value and its time', async () => {
      await store.put(key, 1, TTL_MS);
      await store.put(key, 2, TTL_MS * 100);
      await wait(TTL_MS + 20);
      expect(await store.get(key)).toBe(2);
    });

    test('putIfAbsent: one of many concurrent callers wins, and the value stays', async () => {
      const outcomes = await Promise.all(
        Array.from({ length: 50 }, (_, n) => store.putIfAbsent(key, n, TTL_MS * 100).then((won) => (won ? n : null))),
      );
      const winners = outcomes.filter((winner) => winner !== null);
      expect(winners).toHaveLength(1);
      expect(await store.get(key)).toBe(winners[0]);
    });

    test('take: of 50 concurrent takers of one key, one gets the value', async () => {
      await store.put(key, { nonce: 'n' }, TTL_MS * 100);
      const taken = await Promise.all(Array.from({ length: 50 }, () => store.take(key)));
      expect(taken.filter((value) => value !== undefined)).toEqual([{ nonce: 'n' }]);
      expect(await store.get(key)).toBeUndefined();
    });

    test('replace: only from a deeply equal value, and one of many concurrent callers wins', async () => {
      await store.put(key, { a: 1, b: [{ c: null }] }, TTL_MS * 100);
      expect(await store.replace(key, { a: 1, b: [] }, 'no', TTL_MS * 100)).toBe(false);
      expect(await store.replace(`${key}-unknown`, null, 'no', TTL_MS)).toBe(false);
      const equal = { b: [{ c: null }], a: 1 };
      const outcomes = await Promise.all(
        Array.from({ length: 50 }, (_, n) => store.replace(key, equal, n, TTL_MS * 100)),
      );
      expect(outcomes.filter(Boolean)).toHaveLength(1);
      expect(await store.get(key)).toBe(outcomes.indexOf(true));
    });

    test('increment: counts each of many concurrent calls, until its time from the first is over', async () => {
      // Long enough for all calls on a busy machine.
      const ttl = 6 * TTL_MS;
      const counts = await Promise.all(Array.from({ length: 50 }, () => store.increment(key, ttl)));
      expect(counts.map(({ count }) => count).sort((a, b) => a - b)).toEqual(
        Array.from({ length: 50 }, (_, n) => n + 1),
      );
      expect((await store.increment(key, ttl, 7)).count).toBe(57);
      const { resets_at } = counts[0]!;
      expect(Math.abs(resets_at - (now + ttl))).toBeLessThan(200);
      await wait(TTL_MS);
      expect((await store.increment(key, ttl)).count).toBe(58);
      await wait(ttl - TTL_MS + 20);
      expect((await store.increment(key, ttl)).count).toBe(1);
    });

    test('keys of any length and alphabet are kept apart', async () => {
      const long = `${key}${'ä'.repeat(3_000)}`;
      await store.put(long, 1, TTL_MS * 100);
      await store.put(`${long}x`, 2, TTL_MS * 100);
      expect([await store.get(long), await store.get(`${long}x`), await store.get(key)]).toEqual([1, 2, undefined]);
    });

    test('another handle sees and takes what this one has put', async () => {
      const other = await harness.open();
      await store.put(key, 1, TTL_MS * 100);
      expect(await other.take(key)).toBe(1);
      expect(await store.get(key)).toBeUndefined();
      await other.close();
    });

    test('entries survive reopening', async () => {
      await store.put(key, 1, TTL_MS * 100);
      await store.close();
      store = await harness.open();
      expect(await store.get(key)).toBe(1);
    });
  });
}
