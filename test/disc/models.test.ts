import fc from 'fast-check';
import { decodeEvent } from '../../projections/events.js';
import { FEW_EVENTS, type IdentityRow, identityRow } from '../../projections/identities.js';
import {
  GetExplanation,
  GetExplanationHandler,
  GetHistory,
  GetHistoryHandler,
} from '../../src/features/disc/disc.handlers.js';
import { ChangeFeed, GetChanges } from '../../src/features/disc/change-feed.js';
import { totalsIn } from '../../src/features/disc/action-tally.js';
import { EvidenceReader } from '../../src/features/disc/evidence-reader.js';
import { contributionsOf } from '../../src/features/disc/explain.js';
import { IdentityReader } from '../../src/features/disc/identity-reader.js';
import { reportOf } from '../../src/features/disc/report.js';
import { score } from '../../src/features/disc/score.js';
import type { Lenses } from '../../src/features/lenses/lenses.js';
import type { Problem } from '../../src/kernel/problems.js';
import type { Views } from '../../src/read-side/views.js';
import { type Lens, MODEL_LENS } from '../../src/scoring/lens.js';
import { CRITICALITIES } from '../../src/scoring/model.js';
import { MODELS, type Scoring, scoringBy } from '../../src/scoring/models/all.js';
import { disc2 } from '../../src/scoring/models/disc-2.js';
import { type Given, badStatus, logOf, relayed } from '../projections/log.js';
import { action, evidenceOf, vpLens } from '../scoring/evidence.js';
import { GrowingViews, LOG } from './growing-views.js';

/** Answers by every version of the model, about identities small and large: they say the same of each other. */

const ALICE = 'tris:alice';
const DAY = 86_400_000;
const START = Date.UTC(2026, 0, 1);
const NOW = START + 40 * DAY;

/** Busy days, in any order. */
const events = (minLength: number, maxLength: number) =>
  fc.array(
    fc.record({
      metric: fc.constantFrom('social_praise', 'financial_swap', 'financial_loan', 'compliance_trade_flags'),
      criticality: fc.constantFrom(...CRITICALITIES),
      hour: fc.integer({ min: 0, max: 6 * 24 }),
    }),
    { minLength, maxLength },
  );
const logs = fc
  .oneof(events(1, 30), events(FEW_EVENTS + 10, FEW_EVENTS + 60))
  .map((list): Given[] => [
    ...list.map(({ metric, criticality, hour }) =>
      relayed(ALICE, metric, criticality, { occurred_at: new Date(START + hour * 3_600_000).toISOString() }),
    ),
    badStatus('tris:bob', 2),
  ]);
const lenses = fc.constantFrom<Lens>(
  MODEL_LENS,
  vpLens({ social_praise: 30, financial_swap: 100, compliance_trade_flags: 70 }),
);
const scorings = fc.tuple(lenses, fc.constantFrom(...MODELS)).map(([lens, model]) => scoringBy(lens, model));

async function readerOf(given: readonly Given[], lens: Scoring) {
  const views = new GrowingViews(logOf(given).map(decodeEvent), 0);
  await views.grow(given.length);
  const fixedLens = { queries: () => [], resolve: async () => lens } as unknown as Lenses;
  return { views, fixedLens, reader: new IdentityReader(views as unknown as Views, () => NOW, fixedLens) };
}

test('a history in pages is one large page, and ends where the score is', async () => {
  await fc.assert(
    fc.asyncProperty(logs, scorings, fc.integer({ min: 1, max: 40 }), async (given, lens, limit) => {
      const { reader } = await readerOf(given, lens);
      const handler = new GetHistoryHandler(reader);
      const whole = (
        await handler.execute(
          new GetHistory({ trisId: ALICE, coordinates: {}, limit: 1_000, cursor: undefined, recorded: {} }),
        )
      ).body.entries;
      const paged = [];
      for (let cursor: string | undefined, more = true; more;) {
        const { body } = await handler.execute(
          new GetHistory({ trisId: ALICE, coordinates: {}, limit, cursor, recorded: {} }),
        );
        paged.push(...body.entries);
        more = body.next_cursor !== null;
        cursor = body.next_cursor ?? undefined;
      }
      expect(paged).toEqual(whole);
      const { score: last, total_tct, earned_tct, forfeited_tct } = score(await reader.snapshot(ALICE, {}), LOG);
      expect(whole.at(-1)).toMatchObject({ score: last, total_tct });
      expect(whole.reduce((sum, { tct_delta }) => sum + tct_delta, 0)).toBe(earned_tct - forfeited_tct);
    }),
    { numRuns: 60 },
  );
});

test('the contributions of an explanation add up to the earned TCT', async () => {
  await fc.assert(
    fc.asyncProperty(logs, scorings, async (given, lens) => {
      const { reader } = await readerOf(given, lens);
      const { body } = await new GetExplanationHandler(reader).execute(
        new GetExplanation({ trisId: ALICE, coordinates: {} }),
      );
      const { earned_tct, forfeited_tct } = score(await reader.snapshot(ALICE, {}), LOG);
      expect(body.contributions.reduce((sum, { tct }) => sum + tct, 0)).toBe(earned_tct);
      expect(body.forfeits.reduce((sum, forfeit) => sum + forfeit.forfeited_tct, 0)).toBe(forfeited_tct);
    }),
    { numRuns: 60 },
  );
});

test('of two metrics with equal shares of what a day may earn, the first by name gets the rest, whichever was relayed first', async () => {
  const evidence = evidenceOf([action('social_b', 'High'), action('social_a', 'High')]);
  const lens = { ...MODEL_LENS, model: { ...disc2, earnedPerDay: () => 141 } };
  const { own } = await contributionsOf(totalsIn(evidence), evidence, lens);
  expect(Object.keys(evidence).map((metric, n) => [metric, own[n]])).toEqual([
    ['social_b', 70],
    ['social_a', 71],
  ]);
});

test('a report has at each time the score as of that time', async () => {
  await fc.assert(
    fc.asyncProperty(logs, scorings, async (given, lens) => {
      const bad = { ...badStatus(ALICE, 3), occurred_at: new Date(START + 3 * DAY).toISOString() };
      const { reader } = await readerOf([...given, bad], lens);
      const snapshot = await reader.snapshot(ALICE, { as_of: START + 6 * DAY });
      const report = await reportOf(snapshot, 1, 'analysis', LOG);
      for (const { at, score: then, total_tct } of report.trajectory) {
        const past = await reader.snapshot(ALICE, { as_of: Date.parse(at) }).catch((error: Problem) => {
          expect(error.code).toBe('identity_not_found');
          return null;
        });
        const expected = past ? score(past, LOG) : { score: 7, total_tct: 0 };
        expect({ score: then, total_tct }).toEqual({ score: expected.score, total_tct: expected.total_tct });
      }
      expect(Object.hasOwn(report, 'evidence')).toBe(lens.model === disc2);
    }),
    { numRuns: 40 },
  );
});

test('feed and rank have the TCT of the score', async () => {
  await fc.assert(
    fc.asyncProperty(logs, scorings, async (given, lens) => {
      const { reader, views, fixedLens } = await readerOf(given, lens);
      const { score: present, total_tct, earned_tct } = score(await reader.snapshot(ALICE, {}), LOG);
      const feed = new ChangeFeed(views as unknown as Views, fixedLens);
      const { changes } = await feed.execute(new GetChanges({ limit: 10, cursor: undefined, selector: {} }));
      expect(changes.find(({ tris_id }) => tris_id === ALICE)).toMatchObject({ score: present, total_tct });
      const { position, results } = await views.read([{ get: identityRow(ALICE) }]);
      const row = results[0] as unknown as IdentityRow;
      expect((await new EvidenceReader(views, ALICE, row, position).ledger(lens)).earned).toBe(earned_tct);
    }),
    { numRuns: 60 },
  );
});

test('of a large identity disc-2 reads no more for a score than disc-1', async () => {
  const given = Array.from({ length: 2_000 }, (_, n) =>
    relayed(ALICE, `financial_kind_${n % 40}`, 'Low', { occurred_at: new Date(START - n * DAY).toISOString() }),
  );
  const [first, second] = await Promise.all(
    MODELS.map(async (model) => {
      const { reader, views } = await readerOf(given, scoringBy(MODEL_LENS, model));
      const row = (await views.read([{ get: identityRow(ALICE) }])).results[0] as unknown as IdentityRow;
      expect(row.spread).toBeDefined();
      const before = views.bytesRead;
      score(await reader.snapshot(ALICE, {}), LOG);
      return views.bytesRead - before;
    }),
  );
  expect(second).toBe(first);
});
