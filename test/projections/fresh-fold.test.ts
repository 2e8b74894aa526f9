import type { EventStore } from '../../src/stores/ports/event-store.js';
import { PROJECTIONS } from '../../src/read-side/all-projections.js';
import { FreshFold } from '../../src/read-side/fresh-fold.js';
import { long } from '../faults/faults.js';
import { type Given, logOf } from './log.js';

/** Actions of one identity, each with a metric of its own: its evidence grows with every event. */
function wide(events: number, msApart: number): Given[] {
  return Array.from({ length: events }, (_, n) => ({
    type: 'ActionRelayed',
    occurred_at: new Date(n * msApart).toISOString(),
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
async function encoded(events: number, msApart: number): Promise<number> {
  const log = logOf(wide(events, msApart));
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

test.each([
  ['over many days', 3_600_000, 500, 4_000],
  // Once its parts have been divided as far as they can be.
  ['all at one time', 0, 2_000, long ? 16_000 : 8_000],
])(
  'folding one wide identity, its actions %s, costs as much for each event, however many it has',
  async (_spread, msApart, few, many) => {
    expect((await encoded(many, msApart)) / (await encoded(few, msApart))).toBeLessThan(1.3 * (many / few));
  },
);
