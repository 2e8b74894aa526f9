import fc from 'fast-check';
import { type DomainEvent, type EventOf, decodeEvent } from '../../projections/events.js';
import { ListCredonations, ListCredonationsHandler } from '../../src/features/credonations/credonations.handlers.js';
import type { Coordinates } from '../../src/features/disc/coordinates.js';
import {
  GetExplanation,
  GetExplanationHandler,
  GetHistory,
  GetHistoryHandler,
} from '../../src/features/disc/disc.handlers.js';
import { type Facts, SubjectFacts } from '../../src/features/access/facts.js';
import { changedBy, countedAction } from '../../src/features/disc/evidence-reader.js';
import { IdentityReader, type IdentitySnapshot } from '../../src/features/disc/identity-reader.js';
import { reportOf } from '../../src/features/disc/report.js';
import { score } from '../../src/features/disc/score.js';
import type { Lenses } from '../../src/features/lenses/lenses.js';
import { formatPosition } from '../../src/kernel/positions.js';
import { Problem } from '../../src/kernel/problems.js';
import type { Views } from '../../src/read-side/views.js';
import { MODEL_LENS } from '../../src/scoring/lens.js';
import { MODEL } from '../../src/scoring/model.js';
import { type Scoring, scoringBy } from '../../src/scoring/models/all.js';
import { disc1 } from '../../src/scoring/models/disc-1.js';
import { type Given, endorsed, logOf, relayed, withChanges, withoutWithdrawn } from '../projections/log.js';
import { limit, repeated } from '../faults/faults.js';
import { ALICE, BUSY, DAY, LENSES, START, iso, logs } from './arbitrary-histories.js';
import { GrowingViews, LOG } from './growing-views.js';

/** What is told of an identity after some of its actions were withdrawn or reinstated. */

const DISC_1 = scoringBy(MODEL_LENS, disc1);

async function seenAt(log: readonly DomainEvent[], at: Coordinates, lens: Scoring): Promise<IdentitySnapshot> {
  const views = new GrowingViews(log, 0);
  await views.grow(log.length);
  return readerOf(views, lens).snapshot(ALICE, at);
}

function readerOf(views: GrowingViews, lens: Scoring): IdentityReader {
  const fixedLens = { queries: () => [], resolve: async () => lens } as unknown as Lenses;
  return new IdentityReader(views as unknown as Views, () => START + 2 * DAY, fixedLens);
}

function measured({ actions, net_tct, score, reliability, evidence, health }: Facts) {
  return {
    actions,
    net_tct,
    score,
    reliability,
    evidence,
    health: MODEL.categories.map(health),
  };
}

/** What is told of Alice after the first so many events were applied, each time so many at once. */
async function told(
  log: readonly DomainEvent[],
  applied: number,
  { at = {}, lens = DISC_1, step = Infinity }: { at?: Coordinates; lens?: Scoring; step?: number } = {},
) {
  const views = new GrowingViews(log, 0);
  for (let done = 0; done < applied; done += step) await views.grow(Math.min(step, applied - done));
  const reader = readerOf(views, lens);
  const [seen] = await reader.snapshots([ALICE], at);
  if (!seen || seen instanceof Problem) return null;
  const { body: history } = await new GetHistoryHandler(reader).execute(
    new GetHistory({ trisId: ALICE, coordinates: at, limit: Number.MAX_SAFE_INTEGER, cursor: undefined, recorded: {} }),
  );
  const { body: explanation } = await new GetExplanationHandler(reader).execute(
    new GetExplanation({ trisId: ALICE, coordinates: at }),
  );
  const { body: list } = await new ListCredonationsHandler(views as unknown as Views).execute(
    new ListCredonations({ trisId: ALICE, limit: Number.MAX_SAFE_INTEGER, cursor: undefined }),
  );
  return {
    score: score(seen, LOG),
    explanation,
    report: await reportOf(seen, 12, 'analysis', LOG),
    history: history.entries,
    validations: list.validations,
  };
}

/** What is told but for the numbers of withdrawn actions, and what depends on them. */
function counted(answers: Awaited<ReturnType<typeof told>>): unknown {
  const ofWithdrawals = new Set([
    'withdrawn',
    'last_at',
    'report_id',
    'report_hash',
    'portable_hash',
    'position',
    'history',
  ]);
  return JSON.parse(JSON.stringify(answers, (key, value: unknown) => (ofWithdrawals.has(key) ? undefined : value)));
}

describe('random histories with withdrawals and reinstatements', () => {
  test(
    'tell what those without the withdrawn actions tell, and of the past what they told then',
    () => {
      return fc.assert(
        fc.asyncProperty(
          logs({ minLength: 1, maxLength: 160 }).filter(({ length }) => length > 0),
          fc.constantFrom(...LENSES),
          fc.integer({ min: 1, max: 40 }),
          fc.nat(),
          fc.option(fc.constantFrom(BUSY, BUSY + 1, START + DAY), { nil: undefined }),
          async (log, lens, step, nth, as_of) => {
            const now = await told(log, log.length, { lens });
            expect(await told(log, log.length, { lens, step })).toEqual(now);
            const kept = await told(withoutWithdrawn(log, log.length), log.length, { lens });
            if (kept) expect(counted(now)).toEqual(counted(kept));

            let last = 1 + (nth % log.length);
            while (log[last]?.type === 'CredonationRecorded') last++;
            const at = { as_of: as_of ?? START + DAY, as_of_position: formatPosition(LOG, last) };
            const { validations: _1, ...then } = { validations: [], ...(await told(log, last, { at, lens })) };
            const { validations: _2, ...since } = { validations: [], ...(await told(log, log.length, { at, lens })) };
            expect(JSON.stringify(since)).toBe(JSON.stringify(then));
          },
        ),
        { numRuns: repeated(60, 300), endOnFailure: true },
      );
    },
    limit(120_000),
  );

  test(
    'give what is measured without an action, if it is taken out of the state of any position and time',
    () => {
      return fc.assert(
        fc.asyncProperty(
          logs({ minLength: 1, maxLength: 160 }).filter(({ length }) => length > 0),
          fc.constantFrom(...LENSES),
          fc.nat(),
          fc.nat(),
          fc.constantFrom(BUSY, BUSY + 1, START + DAY),
          async (log, lens, nth, which, as_of) => {
            const position = 1 + (nth % log.length);
            const kept = new Set(withoutWithdrawn(log, position).map((event) => event.type + event.id));
            const counted = log.filter(
              (event): event is EventOf<'ActionRelayed'> =>
                event.type === 'ActionRelayed' &&
                event.data.tris_id === ALICE &&
                event.occurred_at <= as_of &&
                event.position <= position &&
                kept.has(event.type + event.id),
            );
            const action = counted[which % counted.length];
            if (!action) return;
            const { data, id } = action;
            const taken = countedAction(action);
            const before = await seenAt(log, { as_of, as_of_position: formatPosition(LOG, position) }, lens);
            const change = { type: 'ActionWithdrawn', id: 'change', position: position + 1 } as const;
            const withdrawal = {
              ...action,
              ...change,
              data: { ...data, action_id: id, reason: 'mistake' },
            } as DomainEvent;
            const after = await seenAt([...log.slice(0, position), withdrawal], { as_of }, lens);
            const trusts = () => true;
            expect(measured(new SubjectFacts(changedBy(before.state, [taken], -1, lens), lens, as_of, trusts))).toEqual(
              measured(new SubjectFacts(after.state, lens, as_of, trusts)),
            );
            expect(measured(new SubjectFacts(changedBy(after.state, [taken], 1, lens), lens, as_of, trusts))).toEqual(
              measured(new SubjectFacts(before.state, lens, as_of, trusts)),
            );
          },
        ),
        { numRuns: repeated(60, 300), endOnFailure: true },
      );
    },
    limit(120_000),
  );
});

/** Of an action of High criticality. */
const TCT = 100;
const action = (metric: string, occurred_at: string): Given[] => [
  relayed(ALICE, metric, 'High', { occurred_at }),
  endorsed(ALICE, 'lender', TCT, { occurred_at }),
];
const decoded = (list: readonly (readonly Given[] | number)[]) =>
  logOf(withChanges(ALICE, list).map((event, i) => ({ ...event, recorded_at: iso(START + i) }))).map(decodeEvent);
/** Of 70 actions before, the evidence is spread over rows. */
describe.each([0, 70])('with %i actions before', (n) => {
  const before = Array.from({ length: n }, () => action('social_vouch', iso(BUSY)));
  const early = iso(BUSY - 60_000);
  const late = iso(BUSY - 30_000);
  const log = decoded([...before, action('financial_loan', early), action('financial_loan', late), n + 1]);
  const last = log.length;

  test('a withdrawn action counts nowhere, and its time remains the last one of its metric', async () => {
    const { score, explanation, report, validations } = (await told(log, last))!;
    expect(score.total_tct).toBe(TCT * (n + 1));
    expect(explanation.withdrawn).toBe(1);
    expect(explanation.contributions.find(({ metric }) => metric === 'financial_loan')).toMatchObject({
      actions: 1,
      last_at: late,
    });
    expect(report).toMatchObject({ withdrawn: 1, actions_by_metric: { financial_loan: 1 } });
    expect(validations.map(({ timestamp }) => timestamp)).not.toContain(late);
    expect(validations).toHaveLength(n + 1);
  });

  test('its history has the action and the withdrawal, with the reason', async () => {
    const entries = (await told(log, last))!.history.slice(-2);
    const of = { metric: 'financial_loan', platform_id: 'lender', occurred_at: late };
    expect(entries).toEqual([
      expect.objectContaining({ ...of, event_type: 'ActionRelayed', tct_delta: TCT, total_tct: TCT * (n + 2) }),
      expect.objectContaining({
        ...of,
        event_type: 'ActionWithdrawn',
        action_id: entries[0]!.event_id,
        reason: 'mistake',
        tct_delta: -TCT,
        total_tct: TCT * (n + 1),
      }),
    ]);
    expect(entries[0]).not.toHaveProperty('reason');
  });

  test('a time within its day has neither the action nor its credonation', async () => {
    for (const [as_of, actions] of [
      [BUSY - 60_001, 0],
      [BUSY - 60_000, 1],
      [BUSY - 30_000, 1],
    ] as const) {
      const { score, report } = (await told(log, last, { at: { as_of } })) ?? {};
      expect(score?.total_tct ?? 0).toBe(TCT * actions);
      expect(report?.top_credonators[0]?.amount ?? 0).toBe(TCT * actions);
    }
  });

  test('a reinstated action counts again', async () => {
    const again = decoded([...before, action('financial_loan', early), action('financial_loan', late), n + 1, n + 1]);
    const without = decoded([...before, action('financial_loan', early), action('financial_loan', late)]);
    const answers = await told(again, again.length);
    expect(answers!.explanation).not.toHaveProperty('withdrawn');
    expect(counted(answers)).toEqual(counted(await told(without, without.length)));
  });
});

test.each([1, 70])('an identity all of whose %i actions are withdrawn is known, without evidence', async (n) => {
  const actions = Array.from({ length: n }, () => action('financial_loan', iso(BUSY)));
  const log = decoded([...actions, ...actions.keys(), action('financial_loan', iso(BUSY + DAY))]);
  for (const [applied, at] of [
    [log.length - 2, {}],
    [log.length, { as_of: BUSY }],
  ] as const) {
    const { score, explanation } = (await told(log, applied, { at }))!;
    expect(score).toMatchObject({ total_tct: 0 });
    expect(explanation).toMatchObject({ withdrawn: n, contributions: [], platforms: [] });
  }
  expect((await told(log, log.length - 2))!.validations).toEqual([]);
  expect(await told(log, log.length, { at: { as_of: BUSY - 1 } })).toBeNull();
});
