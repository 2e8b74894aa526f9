import fc from 'fast-check';
import { type IdentityEvent, isOfAction, signOf, subjectOf } from '../../projections/identity-events.js';
import { type DomainEvent, decodeEvent } from '../../projections/events.js';
import { type Coordinates, toCoordinates } from '../../src/features/disc/coordinates.js';
import type { HistoryEntryDto } from '../../src/features/disc/disc.dto.js';
import { GetHistory, GetHistoryHandler } from '../../src/features/disc/disc.handlers.js';
import { RunningStanding, historyEntry } from '../../src/features/disc/history.js';
import { IdentityReader } from '../../src/features/disc/identity-reader.js';
import { score } from '../../src/features/disc/score.js';
import type { Lenses } from '../../src/features/lenses/lenses.js';
import { formatPosition, parsePosition } from '../../src/kernel/positions.js';
import { Problem } from '../../src/kernel/problems.js';
import { isDue } from '../../src/kernel/turn.js';
import type { Views } from '../../src/read-side/views.js';
import { metricHealth } from '../../src/scoring/health.js';
import { MODEL_LENS } from '../../src/scoring/lens.js';
import { MODELS, type Scoring, scoringBy } from '../../src/scoring/models/all.js';
import { CRITICALITIES } from '../../src/scoring/model.js';
import { type Given, badStatus, badStatusCleared, granted, logOf, relayed, withChanges } from '../projections/log.js';
import { repeated } from '../faults/faults.js';
import { vpLens } from '../scoring/evidence.js';
import { GrowingViews, LOG, folded } from './growing-views.js';

/**
 * What is read of an identity, large or small, present or past, through any lens, while events go on being applied
 * between the reads, is what a fold of its events gives.
 */

const ALICE = 'tris:alice';
const DAY = 86_400_000;
const START = Date.UTC(2026, 0, 1);
/** One of them is named like a total of the model's own lens. */
const METRICS = [
  'financial_earned',
  'financial_swap',
  'financial_default_flags',
  'social_vouch',
  'compliance_trade_flags',
  'security_audit',
];
const LENSES: Scoring[] = [
  MODEL_LENS,
  vpLens({ financial_earned: 140, compliance_trade_flags: 30, creative_none: 70 }),
].flatMap((lens) => MODELS.map((model) => scoringBy(lens, model)));

const iso = (ms: number) => new Date(ms).toISOString();
/** Late and early, several at one time, at the ends of days. */
const occurrences = fc.oneof(
  fc.integer({ min: START - 300 * DAY, max: START + DAY }),
  fc.constantFrom(START - 40 * DAY, START - 40 * DAY - 1, START - 3 * DAY, START - 3 * DAY + 1),
  fc.integer({ min: START - 41 * DAY, max: START - 39 * DAY }),
);
const events: fc.Arbitrary<Given | number> = fc.oneof(
  // Withdraws or reinstates an action before it.
  { weight: 4, arbitrary: fc.oneof(fc.nat(), fc.nat(5)) },
  {
    weight: 12,
    arbitrary: fc
      .tuple(fc.constantFrom(...METRICS), fc.constantFrom(...CRITICALITIES), occurrences)
      .map(([metric, criticality, at]) => relayed(ALICE, metric, criticality, { occurred_at: iso(at) })),
  },
  fc.integer({ min: 1, max: 6 }).map((level) => badStatus(ALICE, level)),
  fc.constant(badStatusCleared(ALICE)),
  fc.constantFrom('key:a', 'key:b').map((issuer) => granted(ALICE, issuer)),
  fc.constant(relayed('tris:bob', 'social_vouch', 'Low')),
);
/** Recorded one after the other, by a clock that is set back now and then. */
const logs = (length: { minLength: number; maxLength: number }, kinds: fc.Arbitrary<Given | number> = events) =>
  fc
    .array(fc.tuple(kinds, fc.integer({ min: 0, max: 30 })), { ...length, size: 'max' })
    .map((list) => {
      let now = START;
      const given = withChanges(
        ALICE,
        list.map(([event]) => (typeof event === 'number' ? event : [event])),
      );
      const recorded: string[] = [];
      return logOf(
        given.map((event, i) => {
          const minutes = list[i]![1];
          now += minutes === 30 ? -3_600_000 : minutes * 60_000;
          recorded.push(iso(now));
          const { action_id } = event.data as { action_id?: string };
          const of = action_id === undefined ? i : Number(action_id.slice(1)) - 1;
          return { ...event, occurred_at: event.occurred_at ?? recorded[of]!, recorded_at: iso(now) };
        }),
      ).map(decodeEvent);
    })
    .filter((log) => log.length > length.minLength / 2);

/** Within the time in which such a log is recorded, before it, and after it. */
const recordings = fc.integer({ min: -60, max: 700 * 16 }).map((minutes) => START + minutes * 60_000);

function eventsOf(log: readonly DomainEvent[]): IdentityEvent[] {
  return log.flatMap((event) => {
    const subject = subjectOf(event);
    return subject?.tris_id === ALICE ? [subject.event] : [];
  });
}

function lastKnown(log: readonly DomainEvent[], knownAt: number): number {
  let last = 0;
  for (const { recorded_at, position } of eventsOf(log)) {
    if (recorded_at > knownAt) return last;
    last = position;
  }
  return last;
}

async function readerOf(log: readonly DomainEvent[], applied: number, perRead: number, now: number, lens: Scoring) {
  const views = new GrowingViews(log, perRead);
  await views.grow(applied);
  const fixedLens = { queries: () => [], resolve: async () => lens } as unknown as Lenses;
  return new IdentityReader(views as unknown as Views, () => now, fixedLens);
}

async function compare(log: readonly DomainEvent[], applied: number, perRead: number, at: Coordinates, lens: Scoring) {
  const reader = await readerOf(log, applied, perRead, START + 2 * DAY, lens);
  const [seen] = await reader.snapshots([ALICE], at);
  const known = log.slice(0, applied);
  if (seen instanceof Problem) {
    const asked = at.as_of_position === undefined ? applied : parsePosition(at.as_of_position, LOG)!;
    const position = at.known_at === undefined ? asked : lastKnown(known, at.known_at);
    const viewpoint = {
      tris_id: ALICE,
      as_of: at.as_of ?? Infinity,
      isPresent: false,
      position,
      lens,
      generation: 'g',
    };
    expect((await folded(known, viewpoint)).state.changed).toBe(0);
    return;
  }
  const expected = await folded(known, seen!);
  expect(score(seen!, LOG)).toEqual(score(expected, LOG));
  expect(seen!.state.actions).toBe(expected.state.actions);
  if (at.known_at !== undefined) expect(seen!.position).toBe(lastKnown(known, at.known_at));
  const named = await seen!.reader.evidenceOf(METRICS);
  for (const metric of METRICS) {
    expect(Object.hasOwn(named, metric)).toBe(Object.hasOwn(expected.state.evidence, metric));
    expect(metricHealth(named, metric, lens, seen!.as_of)).toBe(
      metricHealth(expected.state.evidence, metric, lens, seen!.as_of),
    );
  }
  const days = (evidence: typeof named) =>
    Object.fromEntries(METRICS.map((metric) => [metric, evidence[metric]?.days]));
  expect(days(named)).toEqual(days(expected.state.evidence));
  expect((await seen!.reader.metrics(METRICS.length)).sort()).toEqual(Object.keys(expected.state.evidence).sort());
}

const lenses = fc.constantFrom(...LENSES);
const perRead = fc.constantFrom(0, 1, 7);
const times = fc.oneof(occurrences, fc.integer({ min: START, max: START + 5 * DAY }));

test('the present state is the fold of all events', () => {
  return fc.assert(
    fc.asyncProperty(
      logs({ minLength: 1, maxLength: 400 }),
      fc.nat(399),
      perRead,
      lenses,
      (log, applied, grows, lens) => compare(log, 1 + (applied % log.length), grows, {}, lens),
    ),
    { numRuns: repeated(10, 40) },
  );
});

test('the present includes all that servers have stamped, by whatever clock, and is the same by its own coordinates', () => {
  const stamped = fc.constantFrom(...METRICS).map((metric): Given => relayed(ALICE, metric, 'High'));
  return fc.assert(
    fc.asyncProperty(
      logs({ minLength: 1, maxLength: 150 }, fc.oneof(events, stamped)),
      perRead,
      fc.integer({ min: -6, max: 6 }),
      lenses,
      async (log, grows, hours, lens) => {
        const now = START + hours * 3_600_000;
        const reader = await readerOf(log, log.length, grows, now, lens);
        const [seen] = await reader.snapshots([ALICE], {});
        if (seen instanceof Problem) return;
        const count = eventsOf(log)
          .filter(({ occurred_at, recorded_at }) => occurred_at === recorded_at || occurred_at <= seen!.as_of)
          .reduce((sum, event) => sum + (isOfAction(event) ? signOf(event) : 0), 0);
        expect(seen!.state.actions).toBe(count);
        const own = { as_of: iso(seen!.as_of), as_of_position: formatPosition(LOG, seen!.position) };
        const [again] = await reader.snapshots([ALICE], toCoordinates(own, now, '?'));
        if (again instanceof Problem) throw again;
        expect(score(again!, LOG)).toEqual(score(seen!, LOG));
      },
    ),
    { numRuns: repeated(15, 60) },
  );
});

test('an identity whose only events occurred after the present is as unknown as by the coordinates of the present', async () => {
  const [given] = logOf([relayed(ALICE, METRICS[0]!, 'Low', { occurred_at: iso(START - 4 * 3_600_000) })]);
  const now = START - 5 * 3_600_000;
  const reader = await readerOf([decodeEvent(given!)], 1, 0, now, LENSES[0]!);
  const unknown = [expect.objectContaining({ code: 'identity_not_found' })];
  expect(await reader.snapshots([ALICE], {})).toEqual(unknown);
  expect(await reader.snapshots([ALICE], toCoordinates({ as_of: iso(now) }, now, '?'))).toEqual(unknown);
});

test('the present ends with the hour, or just before a verification expires that is still valid', async () => {
  const now = START + DAY + 1_000;
  const expiring = (expiry: number) =>
    logOf([{ ...granted(ALICE, 'key:a', iso(expiry)), recorded_at: iso(START) }]).map(decodeEvent);
  const presentOf = async (expiry: number) => {
    const reader = await readerOf(expiring(expiry), 1, 0, now, LENSES[0]!);
    const snapshot = await reader.snapshot(ALICE, {});
    return [snapshot.as_of, score(snapshot, LOG).verification.length];
  };
  const end = START + DAY + 3_599_999;
  expect(await presentOf(now + 1)).toEqual([now, 1]);
  expect(await presentOf(end)).toEqual([end - 1, 1]);
  expect(await presentOf(end + 1)).toEqual([end, 1]);
  expect(await presentOf(now)).toEqual([end, 0]);
});

test('a state as of a past time is the fold of what had occurred by then', () => {
  return fc.assert(
    fc.asyncProperty(
      logs({ minLength: 60, maxLength: 400 }),
      fc.nat(399),
      perRead,
      times,
      lenses,
      (log, applied, grows, as_of, lens) => compare(log, 1 + (applied % log.length), grows, { as_of }, lens),
    ),
    { numRuns: repeated(15, 60) },
  );
});

test('a state as of a position, or as it was known at a time, is the fold of what had been recorded by then', () => {
  return fc.assert(
    fc.asyncProperty(
      fc.oneof(logs({ minLength: 20, maxLength: 80 }), logs({ minLength: 300, maxLength: 900 })),
      perRead,
      fc.nat(),
      // Many are the very time at which an event was recorded.
      fc.oneof(times, recordings),
      fc.option(times, { nil: undefined }),
      fc.boolean(),
      lenses,
      (log, grows, at, known_at, as_of, byPosition, lens) => {
        const as_of_position = formatPosition(LOG, 1 + (at % (log.length - 10)));
        return compare(log, log.length - 10, grows, byPosition ? { as_of, as_of_position } : { as_of, known_at }, lens);
      },
    ),
    { numRuns: repeated(15, 60) },
  );
});

/** Most at one time, the others around it: parts of a day are divided on every level. */
const BUSY = START - 40 * DAY + 45_296_789;
const around = (ms: number) => fc.integer({ min: BUSY - ms, max: BUSY + ms });
const busy = fc.oneof({ weight: 12, arbitrary: fc.constant(BUSY) }, around(2), around(90), around(9_000), around(DAY));
const busyEvents = fc
  .tuple(
    fc.oneof({ weight: 3, arbitrary: fc.constant(METRICS[0]!) }, fc.constantFrom(...METRICS)),
    fc.constantFrom(...CRITICALITIES),
    busy,
  )
  .map(([metric, criticality, at]) => relayed(ALICE, metric, criticality, { occurred_at: iso(at) }));

test('the same holds for a day that is divided on several levels', () => {
  return fc.assert(
    fc.asyncProperty(
      logs({ minLength: 900, maxLength: 1_200 }, busyEvents),
      perRead,
      fc.nat(),
      fc.option(busy, { nil: undefined }),
      lenses,
      (log, grows, at, as_of, lens) => {
        const as_of_position = formatPosition(LOG, 1 + (at % (log.length - 10)));
        return compare(log, log.length - 10, grows, { as_of, as_of_position }, lens);
      },
    ),
    { numRuns: repeated(15, 60) },
  );
});

test('the history of a large identity up to a position includes the statement at that position', async () => {
  const actions = Array.from({ length: 100 }, () => relayed(ALICE, METRICS[0]!, 'Low'));
  const recordedAt = (time: number) => (given: Given) => ({ ...given, recorded_at: iso(time) });
  const known = [...actions, badStatus(ALICE, 3)].map(recordedAt(START));
  const log = logOf([...known, ...actions.map(recordedAt(START + 1))]).map(decodeEvent);
  const reader = await readerOf(log, log.length, 0, START + DAY, LENSES[0]!);
  const coordinates = { as_of: START, as_of_position: formatPosition(LOG, actions.length + 1) };
  const query = new GetHistory({ trisId: ALICE, coordinates, limit: 1_000, cursor: undefined, recorded: {} });
  const { entries } = (await new GetHistoryHandler(reader).execute(query)).body;
  expect([entries.length, entries.at(-1)!.event_type]).toEqual([actions.length + 1, 'BadStatusSet']);
});

test('the pages of a history as of a past time are the events that had occurred by then, in log order; of a range, those recorded in it', () => {
  return fc.assert(
    fc.asyncProperty(
      logs({ minLength: 200, maxLength: 700 }),
      perRead,
      fc.nat(),
      times,
      lenses,
      fc.constantFrom(3, 50, 1_000),
      fc.record({ from: recordings, to: recordings }, { requiredKeys: [] }),
      async (log, grows, at, as_of, lens, limit, recorded) => {
        const views = new GrowingViews(log, grows);
        await views.grow(log.length - 10);
        const fixedLens = { queries: () => [], resolve: async () => lens } as unknown as Lenses;
        const reader = new IdentityReader(views as unknown as Views, () => START + 2 * DAY, fixedLens);
        const position = 1 + (at % (log.length - 10));
        const coordinates = { as_of, as_of_position: formatPosition(LOG, position) };
        const running = new RunningStanding(lens);
        const known = log.slice(0, position);
        const after = recorded.from === undefined ? 0 : lastKnown(known, recorded.from - 1);
        const until = recorded.to === undefined ? position : lastKnown(known, recorded.to);
        const all = eventsOf(known).filter((event) => event.occurred_at <= as_of);
        const expected = all
          .map((event) => ({ event, entry: historyEntry(event, running, LOG) }))
          .filter(({ event }) => event.position > after && event.position <= until)
          .map(({ entry }) => entry);
        const entries: HistoryEntryDto[] = [];
        let cursor: string | undefined;
        do {
          const query = new GetHistory({ trisId: ALICE, coordinates, limit, cursor, recorded });
          const { body } = await new GetHistoryHandler(reader).execute(query).catch((error: Problem) => {
            expect([error.code, all]).toEqual(['identity_not_found', []]);
            return { body: { entries: [], next_cursor: null } };
          });
          entries.push(...body.entries);
          cursor = body.next_cursor ?? undefined;
        } while (cursor !== undefined);
        expect(entries).toEqual(expected);
      },
    ),
    { numRuns: repeated(10, 40), endOnFailure: true },
  );
});

test('a state as of a time within a day reads about as much with five times as many actions on that day', async () => {
  const day = START - 40 * DAY;
  const bytesOf = async (actions: number) => {
    const given = Array.from({ length: actions }, (_, n) =>
      relayed(ALICE, METRICS[n % METRICS.length]!, 'High', { occurred_at: iso(day + ((n * 7_919_003) % DAY)) }),
    );
    const views = new GrowingViews(logOf(given).map(decodeEvent), 0);
    await views.grow(actions);
    const fixedLens = { queries: () => [], resolve: async () => LENSES[0] } as unknown as Lenses;
    const reader = new IdentityReader(views as unknown as Views, () => START, fixedLens);
    const before = views.bytesRead;
    const as_of = day + 45_296_789;
    const now = await reader.snapshot(ALICE, { as_of });
    expect(now.state.actions / actions).toBeCloseTo(45_296_789 / DAY, 1);
    const half = await reader.snapshot(ALICE, { as_of, as_of_position: formatPosition(LOG, actions / 2) });
    expect((2 * half.state.actions) / actions).toBeCloseTo(45_296_789 / DAY, 1);
    return views.bytesRead - before;
  };
  expect(await bytesOf(10_000)).toBeLessThan(2 * (await bytesOf(2_000)));
});

test('a look-up of one small identity does not wait for the turns of long work', async () => {
  const given = [relayed(ALICE, METRICS[0]!, 'High')];
  const reader = await readerOf(logOf(given).map(decodeEvent), 1, 0, START + 2 * DAY, LENSES[0]!);
  await new Promise(setImmediate);
  while (!isDue());
  let isNextTurn = false;
  setImmediate(() => (isNextTurn = true));
  const { state } = await reader.snapshot(ALICE, {});
  expect([state.actions, isNextTurn]).toEqual([1, false]);
});
