import type { EventStore } from '../../src/stores/ports/event-store.js';
import { PROJECTIONS } from '../../src/read-side/all-projections.js';
import { FreshFold } from '../../src/read-side/fresh-fold.js';
import { type Given, logOf } from './log.js';

/** Actions of one identity, each with a metric of its own: its evidence grows with every event. */
function wide(events: number): Given[] {
  return Array.from({ length: events }, (_, n) => ({
    type: 'ActionRelayed',
    data: {
      tris_id: 'tris:wide',
      metric: `financial_metric_${n}`,
      criticality: 'High',
      platform_id: 'lender',
      evidence_hash: null,
    },
  }));
}

/** Characters of the rows that folding so many events encodes. */
async function encoded(events: number): Promise<number> {
  const log = logOf(wide(events));
  const store = {
    async *readAll(after: number) {
      for (let from = after; from < log.length; from += 500) yield log.slice(from, from + 500);
    },
  } as unknown as EventStore;
  let characters = 0;
  const fold = new FreshFold(store, {
    projections: PROJECTIONS,
    takes: () => true,
    kept: new Set(PROJECTIONS.flatMap(({ views }) => views)),
    onChange: (_row, _address, content) => void (characters += content?.length ?? 0),
  });
  await fold.advance(events);
  return characters;
}

test('folding one wide identity costs as much for each event, however many it has', async () => {
  const [some, many] = [await encoded(500), await encoded(4_000)];
  expect(many / some).toBeLessThan(1.3 * (4_000 / 500));
});
