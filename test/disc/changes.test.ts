import { decodeEvent } from '../../projections/events.js';
import { ChangeFeed, GetChanges } from '../../src/features/disc/change-feed.js';
import type { Lenses } from '../../src/features/lenses/lenses.js';
import type { Views } from '../../src/read-side/views.js';
import { type Lens, MODEL_LENS } from '../../src/scoring/lens.js';
import { scoringBy } from '../../src/scoring/models/all.js';
import { disc1 } from '../../src/scoring/models/disc-1.js';
import { type Given, badStatus, logOf, relayed } from '../projections/log.js';
import { vpLens } from '../scoring/evidence.js';
import { GrowingViews, LOG } from './growing-views.js';

const ALICE = 'tris:alice';
const DAY = 86_400_000;

/** Actions of one identity, of several metrics and days. */
function actions(count: number): Given[] {
  return Array.from({ length: count }, (_, n) =>
    relayed(ALICE, `financial_kind_${n % 17}`, 'Low', { occurred_at: new Date(n * DAY).toISOString() }),
  );
}

async function feedOf(
  given: readonly Given[],
  { lens = MODEL_LENS, perRead = 0 }: { lens?: Lens; perRead?: number } = {},
) {
  const views = new GrowingViews(logOf(given).map(decodeEvent), perRead);
  await views.grow(perRead === 0 ? given.length : given.length - 2);
  const fixedLens = { queries: () => [], resolve: async () => scoringBy(lens, disc1) } as unknown as Lenses;
  const feed = new ChangeFeed(views as unknown as Views, fixedLens);
  const page = (limit: number, cursor?: string) => feed.execute(new GetChanges({ limit, cursor, selector: {} }));
  return { page, views };
}

test('a page reads no more for an identity with thousands of actions than for one with a hundred', async () => {
  const [few, many] = [await feedOf(actions(100)), await feedOf(actions(5_000))];
  const [entry] = (await few.page(100)).changes;
  expect(entry).toMatchObject({ tris_id: ALICE, total_tct: 3_000, position: `${LOG}.100` });
  expect((await many.page(100)).changes).toMatchObject([{ tris_id: ALICE, total_tct: 150_000 }]);
  expect(many.views.bytesRead).toBeLessThan(2 * few.views.bytesRead);
});

test('a page through a policy’s lens has the scores of large identities through it', async () => {
  const { page } = await feedOf([...actions(1_700), relayed('tris:bob', 'financial_kind_3', 'High')], {
    lens: vpLens({ financial_kind_3: 100, social_never: 70 }),
  });
  expect((await page(100)).changes).toMatchObject([
    { tris_id: ALICE, total_tct: 10_000 },
    { tris_id: 'tris:bob', total_tct: 100 },
  ]);
});

test('a page contains an identity once, even if it changes while the page is read', async () => {
  const others = Array.from({ length: 300 }, (_, n) => relayed(`tris:${n}`, 'social_vouch', 'Low'));
  const given = [relayed(ALICE, 'social_vouch', 'Low'), ...others, badStatus(ALICE, 2), badStatus(ALICE, 1)];
  const { page } = await feedOf(given, { perRead: 1 });
  const { changes } = await page(1_000);
  expect(changes.map(({ tris_id }) => tris_id)).toEqual([...others.map(({ data }) => data['tris_id']), ALICE]);
  expect(changes.at(-1)).toMatchObject({ score: 1, position: `${LOG}.303` });
});

test('a page continues after the previous one, with each identity at its last change', async () => {
  const names = ['tris:a', 'tris:b', 'tris:c'];
  const given = [...names, ...names.toReversed()].map((name) => relayed(name, 'social_vouch', 'Low'));
  const { page } = await feedOf(given);
  const first = await page(2);
  const second = await page(2, first.next_cursor);
  expect([...first.changes, ...second.changes].map(({ tris_id }) => tris_id)).toEqual(names.toReversed());
  expect((await page(2, second.next_cursor)).changes).toEqual([]);
});
