import fc from 'fast-check';
import { type DomainEvent, decodeEvent } from '../../projections/events.js';
import type { Coordinates } from '../../src/features/disc/coordinates.js';
import {
  GetExplanation,
  GetExplanationHandler,
  GetMetrics,
  GetMetricsHandler,
  GetReports,
  GetReportsHandler,
} from '../../src/features/disc/disc.handlers.js';
import { explain } from '../../src/features/disc/explain.js';
import { IdentityReader } from '../../src/features/disc/identity-reader.js';
import { metrics } from '../../src/features/disc/metrics.js';
import { type Depth, type Window, reportOf } from '../../src/features/disc/report.js';
import { score } from '../../src/features/disc/score.js';
import type { Lenses } from '../../src/features/lenses/lenses.js';
import type { SigningKeys } from '../../src/credentials/signing-keys.js';
import { formatPosition } from '../../src/kernel/positions.js';
import { Problem } from '../../src/kernel/problems.js';
import type { Views } from '../../src/read-side/views.js';
import type { Scoring } from '../../src/scoring/models/all.js';
import { CRITICALITIES, MODEL } from '../../src/scoring/model.js';
import { type Given, logOf, relayed, withoutWithdrawn } from '../projections/log.js';
import { SEED, randomFrom, repeated } from '../faults/faults.js';
import { ALICE, BUSY, DAY, LENSES, PLATFORMS, START, iso, logs, occurrences } from './arbitrary-histories.js';
import { GrowingViews, LOG, folded } from './growing-views.js';

/**
 * What is told of an identity from sums, present or past, on days of many actions, through any lens, while events go on
 * being applied between the reads, is what its events tell one by one.
 */

interface Asked {
  at: Coordinates;
  lens: Scoring;
  window: Window;
  depth: Depth;
}

async function compare(log: readonly DomainEvent[], applied: number, perRead: number, asked: Asked, after = 0) {
  const { at, lens, window, depth } = asked;
  const views = new GrowingViews(log, perRead, after);
  await views.grow(applied);
  const fixedLens = { queries: () => [], resolve: async () => lens } as unknown as Lenses;
  const reader = new IdentityReader(views as unknown as Views, () => START + 2 * DAY, fixedLens);
  // Each handler sees the identity from where it was seen first.
  const [seen] = await reader.snapshots([ALICE], at);
  if (!seen || seen instanceof Problem) return;
  const full = await folded(log, seen);
  expect(score(seen, LOG)).toEqual(score(full, LOG));
  reader.snapshot = async () => seen;
  reader.snapshots = async () => [seen];

  const explanation = await new GetExplanationHandler(reader).execute(
    new GetExplanation({ trisId: ALICE, coordinates: at }),
  );
  expect(explanation.body).toEqual(await explain(full, LOG));

  const keys = { sign: async () => 'proof' } as unknown as SigningKeys;
  const reports = new GetReportsHandler(reader, keys, views as unknown as Views, () => START);
  const [report] = await reports.execute(new GetReports({ trisIds: [ALICE], coordinates: at, window, depth }));
  expect(report).toEqual({ ...(await reportOf(full, window, depth, LOG)), proof: 'proof', generated_at: iso(START) });

  const kept = await folded(withoutWithdrawn(log, seen.position), seen);
  expect(score(seen, LOG)).toEqual(score(kept, LOG));
  expect(counted(explanation.body)).toEqual(counted(await explain(kept, LOG)));
  expect(counted(await reportOf(seen, window, depth, LOG))).toEqual(counted(await reportOf(kept, window, depth, LOG)));
  expect((await seen.reader.metrics(ACTIONS)).sort()).toEqual(Object.keys(kept.state.evidence).sort());

  // A metric is asked for by its alias too.
  const some = Object.keys(full.state.evidence).slice(0, 20);
  const names = some.flatMap((metric) => [metric, metric.replace('financial_', 'finance_')]);
  const health = new GetMetricsHandler(reader, views as unknown as Views, keys, () => START);
  const [answer] = await health.execute(
    new GetMetrics({ trisIds: [ALICE], coordinates: at, names, pointer: '?metrics' }),
  );
  expect(answer).toMatchObject({ payload: await metrics(full, names, new Set(), '?metrics') });
}

/** An answer without what tells of actions that are withdrawn. */
function counted(answer: object): unknown {
  const told = new Set(['withdrawn', 'last_at', 'report_id', 'report_hash', 'portable_hash']);
  return JSON.parse(JSON.stringify(answer, (key, value: unknown) => (told.has(key) ? undefined : value)));
}

const times = fc.integer({ min: START, max: START + 5 * DAY });
const asked = fc.record({
  lens: fc.constantFrom(...LENSES),
  window: fc.constantFrom<Window>(1, 3, 12),
  depth: fc.constantFrom<Depth>('snapshot', 'insight', 'analysis'),
});
const perRead = fc.constantFrom(0, 1, 7);
/** The state of the last events but a few, or of a position of the log. */
const positions = fc.option(fc.nat(), { nil: undefined });

function placeIn(log: readonly DomainEvent[], position: number | undefined) {
  const applied = log.length - (log.length > 100 ? 40 : 0);
  const as_of_position = position === undefined ? undefined : formatPosition(LOG, 1 + (position % applied));
  return { applied, as_of_position };
}

test('explanations and reports of the present equal those computed event by event', () => {
  return fc.assert(
    fc.asyncProperty(
      logs({ minLength: 60, maxLength: 500 }),
      perRead,
      asked,
      fc.integer({ min: 0, max: 8 }),
      (log, grows, ask, after) => compare(log, placeIn(log, undefined).applied, grows, { ...ask, at: {} }, after),
    ),
    { numRuns: repeated(6, 25), endOnFailure: true },
  );
});

test('explanations and reports of any past equal those computed event by event', () => {
  const asOf = fc.option(fc.oneof(occurrences, times), { nil: undefined });
  return fc.assert(
    fc.asyncProperty(
      logs({ minLength: 300, maxLength: 900 }),
      perRead,
      asked,
      asOf,
      positions,
      (log, grows, ask, as_of, at) => {
        const { applied, as_of_position } = placeIn(log, at);
        return compare(log, applied, grows, { ...ask, at: { as_of, as_of_position } });
      },
    ),
    { numRuns: repeated(10, 40), endOnFailure: true },
  );
});

test('the same holds for windows that begin within a day of many actions', () => {
  const begins = fc.integer({ min: BUSY - 2, max: BUSY + 2 });
  return fc.assert(
    fc.asyncProperty(
      logs({ minLength: 900, maxLength: 1_100 }),
      perRead,
      asked,
      begins,
      positions,
      (log, grows, ask, begin, at) => {
        const end = new Date(begin);
        end.setUTCMonth(end.getUTCMonth() + ask.window);
        const { applied, as_of_position } = placeIn(log, at);
        return compare(log, applied, grows, { ...ask, at: { as_of: end.getTime(), as_of_position } });
      },
    ),
    { numRuns: repeated(6, 25), endOnFailure: true },
  );
});

/** HISTORY_ACTIONS: the number of actions of each history. */
const ACTIONS = Number(process.env['HISTORY_ACTIONS'] ?? repeated(300, 2_000));
const random = randomFrom(SEED);
const upTo = (most: number) => Math.floor(random() * most);
/** How many metrics the actions of a history have, and how long ago the n-th of them occurred, ms. */
const HISTORIES: Record<string, { metrics: number; ago: (n: number) => number }> = {
  'in one day': { metrics: 17, ago: () => 40 * DAY + upTo(DAY) },
  'from before 1970': { metrics: 17, ago: () => upTo(40_000) * DAY },
  'in ten years': { metrics: 17, ago: () => upTo(3_650) * DAY },
  'at one time': { metrics: 17, ago: () => 40 * DAY },
  'a year late': { metrics: 17, ago: (n) => 365 * DAY + (ACTIONS - n) * 1_000 },
  'newest first': { metrics: 17, ago: (n) => Math.floor((n / ACTIONS) * 3_650 * DAY) },
  'of 10,000 metrics': { metrics: 10_000, ago: () => upTo(1_000) * DAY },
};

test.each(Object.entries(HISTORIES))(
  'the same holds for a history %s, from any time and position',
  async (_name, { metrics, ago }) => {
    const events = Array.from({ length: ACTIONS }, (_, n): Given => {
      const metric = upTo(metrics);
      const name = `${MODEL.categories[metric % MODEL.categories.length]}_kind_${metric}${metric % 20 === 19 ? '_flags' : ''}`;
      const action = relayed(ALICE, name, CRITICALITIES[upTo(CRITICALITIES.length)]!, {
        occurred_at: iso(START - ago(n)),
      });
      return { ...action, data: { ...action.data, platform_id: PLATFORMS[upTo(PLATFORMS.length)]! } };
    });
    const log = logOf(events.map((event, i) => ({ ...event, recorded_at: iso(START + i) }))).map(decodeEvent);
    const middle = formatPosition(LOG, Math.floor(log.length / 2));
    const past = START - ago(Math.floor(ACTIONS / 2));
    for (const at of [{}, { as_of: past }, { as_of_position: middle }, { as_of: past, as_of_position: middle }]) {
      for (const lens of LENSES) await compare(log, log.length, 0, { at, lens, window: 12, depth: 'analysis' });
    }
  },
);
