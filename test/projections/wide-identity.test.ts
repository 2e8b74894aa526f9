import { decodeEvent } from '../../projections/events.js';
import { long, randomFrom } from '../faults/faults.js';
import { type Given, StoredRows, logOf, relayed } from './log.js';

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

/** Folds a log from its start, in slices. */
async function fold(given: readonly Given[]): Promise<StoredRows> {
  const rows = new StoredRows();
  const events = logOf(given).map((event) => decodeEvent(event));
  for (let from = 0; from < events.length; from += 4_000) await rows.apply(events.slice(from, from + 4_000));
  return rows;
}

/** Characters of the rows that folding so many events writes. */
async function written(events: number, msApart: number): Promise<number> {
  return (await fold(wide(events, msApart))).written;
}

test.each([
  ['over many days', 3_600_000, 500, 4_000],
  // Once its parts have been divided as far as they can be.
  ['all at one time', 0, 2_000, long ? 16_000 : 8_000],
])(
  'folding one wide identity, its actions %s, costs as much for each event, however many it has',
  async (_spread, msApart, few, many) => {
    expect((await written(many, msApart)) / (await written(few, msApart))).toBeLessThan(1.3 * (many / few));
  },
);

test.each([
  ['in one minute', 60_000],
  ['in ten years', 3_650 * 86_400_000],
])('the rows of an identity take few bytes for each of its actions %s', async (_spread, ms) => {
  const actions = 20_000;
  const random = randomFrom(1);
  const upTo = (most: number) => Math.floor(random() * most);
  const { texts } = await fold(
    Array.from({ length: actions }, () => ({
      ...relayed('tris:busy', `financial_metric_${upTo(17)}`, 'High'),
      occurred_at: new Date(upTo(ms)).toISOString(),
    })),
  );
  const own = [...texts].filter(([address]) => address.startsWith('identities'));
  const bytes = own.reduce((sum, [address, text]) => sum + address.length + text.length, 0);
  expect(bytes / actions).toBeLessThan(300);
});
