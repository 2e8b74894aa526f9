import { jest } from '@jest/globals';
import { identities } from '../../projections/identities.js';
import { yieldIfDue } from '../../src/kernel/turn.js';
import { Applier } from '../../src/read-side/applier.js';
import { viewsOf } from '../../src/read-side/own-views.js';
import type { EventStore } from '../../src/stores/ports/event-store.js';
import type { ReadModels, RowQuery } from '../../src/stores/ports/read-models.js';
import { logOf, relayed } from './log.js';

const LOG = logOf(Array.from({ length: 1_000 }, (_, n) => relayed(`tris:${n}`, 'social_vouch', 'Low')));

/** Turns of the event loop that long reads take while the events are applied. */
async function turnsOfReads(reads: number): Promise<number> {
  let turns = 0;
  let isApplied = false;
  const read = async () => {
    while (!isApplied) {
      const turn = yieldIfDue();
      if (turn) turns++;
      await turn;
    }
  };
  const readModels = {
    read: async (_id: string, queries: readonly RowQuery[]) => ({ results: queries.map(() => undefined) }),
    apply: async () => 'applied',
  } as unknown as ReadModels;
  const generation = {
    id: 'g1',
    views: viewsOf([identities]),
    checkpoint: { log: 'log', position: 0, event_id: null },
  };
  const applier = new Applier({ logId: 'log' } as EventStore, readModels, generation, 'holder', () => undefined);
  const others = Array.from({ length: reads }, read);
  await applier.apply(LOG);
  await applier.finish();
  isApplied = true;
  await Promise.all(others);
  expect(applier.checkpoint.position).toBe(LOG.length);
  return turns;
}

test('events are applied as fast beside many long reads as beside a few', async () => {
  // Each look at the clock takes a millisecond.
  let now = performance.now();
  const clock = jest.spyOn(performance, 'now').mockImplementation(() => now++);
  try {
    const few = await turnsOfReads(2);
    expect(few).toBeGreaterThan(1_000);
    // Each of the others takes a turn or two of its own.
    expect(await turnsOfReads(20)).toBeLessThan(few + 40);
  } finally {
    clock.mockRestore();
  }
});
