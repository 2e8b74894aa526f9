import { Views } from '../../src/read-side/views.js';
import type { EventStore } from '../../src/stores/ports/event-store.js';
import type { ReadModels } from '../../src/stores/ports/read-models.js';

/** The wait until the read models have reached a position. */

let looks: number;
let applied: number;

const positions = new Views(
  { logId: 'log' } as EventStore,
  {
    manifest: async () => ({ views: { people: 'g1' } }),
    read: async () => {
      looks++;
      return { status: 'ready', checkpoint: { log: 'log', position: applied, event_id: null }, results: [] };
    },
  } as unknown as ReadModels,
);
beforeEach(() => ([looks, applied] = [0, 1]));

/** ms from the moment when the position is reached until those who wait for it know. */
async function waited(afterMs: number): Promise<number> {
  let reached = 0;
  setTimeout(() => ([reached, applied] = [performance.now(), 2]), afterMs);
  const all = Array.from({ length: 10 }, () => positions.waitForPosition(2, 60_000));
  expect(await Promise.all(all)).toEqual(all.map(() => true));
  return performance.now() - reached;
}

test('a short wait ends soon after the position is reached; all who wait share the looks', async () => {
  expect(await waited(20)).toBeLessThan(200);
  expect(looks).toBeLessThan(10 + 20);
});

test('the longer a wait, the rarer the looks, up to ten a second', async () => {
  expect(await waited(2_000)).toBeLessThan(400);
  expect(looks).toBeLessThan(100);
});

test('a wait for what is not reached ends in time', async () => {
  expect(await positions.waitForPosition(2, 50)).toBe(false);
});
