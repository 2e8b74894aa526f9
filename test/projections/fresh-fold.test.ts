import type { EventStore } from '../../src/stores/ports/event-store.js';
import { PROJECTIONS } from '../../src/read-side/all-projections.js';
import { FreshFold, type FreshFoldOptions } from '../../src/read-side/fresh-fold.js';
import { long, randomFrom } from '../faults/faults.js';
import { type Given, logOf, relayed } from './log.js';

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

/** Folds a log from its start. */
async function fold(given: readonly Given[], onChange: FreshFoldOptions['onChange']): Promise<void> {
  const log = logOf(given);
  const store = {
    async *readAll(after: number) {
      for (let from = after; from < log.length; from += 500) yield log.slice(from, from + 500);
    },
  } as unknown as EventStore;
  const fresh = new FreshFold(store, { projections: PROJECTIONS, takes: () => true, onChange });
  await fresh.advance(log.length);
}

/** Characters of the rows that folding so many events encodes. */
async function encoded(events: number, msApart: number): Promise<number> {
  let characters = 0;
  await fold(wide(events, msApart), (_row, _address, content) => void (characters += content?.length ?? 0));
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

test.each([
  ['in one minute', 60_000],
  ['in ten years', 3_650 * 86_400_000],
])('the rows of an identity take few bytes for each of its actions %s', async (_spread, ms) => {
  const actions = 20_000;
  const random = randomFrom(1);
  const upTo = (most: number) => Math.floor(random() * most);
  const bytes = new Map<string, number>();
  await fold(
    Array.from({ length: actions }, () => ({
      ...relayed('tris:busy', `financial_metric_${upTo(17)}`, 'High'),
      occurred_at: new Date(upTo(ms)).toISOString(),
    })),
    ({ view }, address, content) => {
      if (view.startsWith('identities')) bytes.set(address, address.length + (content?.length ?? 0));
    },
  );
  expect([...bytes.values()].reduce((sum, each) => sum + each, 0) / actions).toBeLessThan(300);
});
