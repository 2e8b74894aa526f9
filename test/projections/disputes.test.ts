import { DUE_DISPUTES, disputeRow, disputes, disputesOf } from '../../projections/disputes.js';
import { type Outcome, disputeStream } from '../../src/features/disputes/domain/dispute.js';
import { positionOf } from '../../src/kernel/positions.js';
import { type Given, RECORDED, rowsAfter } from './log.js';

const [ALICE, BOB, LENDCO] = ['tris:alice', 'tris:bob', 'tris:lendco'];
const ONE = '1'.repeat(64);
const TWO = '2'.repeat(64);

const opened = (id: string, tris_id: string, more: object = {}): Given => ({
  type: 'DisputeOpened',
  stream: disputeStream(id),
  data: {
    tris_id,
    about: 'action',
    event_id: 'e0',
    action_id: `a-${id}`,
    platform_id: 'lendco-app',
    status: null,
    issuer: LENDCO,
    statement_hash: null,
    ...more,
  },
});
const answered = (id: string, tris_id: string, outcome: Outcome): Given => ({
  type: 'DisputeAnswered',
  stream: disputeStream(id),
  data: { tris_id, outcome, decided_by: LENDCO, note_hash: null },
});
const lapsed = (id: string, tris_id: string): Given => ({
  type: 'DisputeLapsed',
  stream: disputeStream(id),
  data: { tris_id },
});
const changed =
  (type: 'ActionWithdrawn' | 'ActionReinstated') =>
  (tris_id: string, action_id: string): Given => ({
    type,
    data: {
      tris_id,
      action_id,
      metric: 'default',
      criticality: 'Critical',
      platform_id: 'lendco-app',
      source: 'vouched',
      reason: 'disputed',
    },
  });
const withdrawn = changed('ActionWithdrawn');
const reinstated = changed('ActionReinstated');

type Who = Parameters<typeof disputesOf>[0];
/** Ids by position, in one batch and event by event. */
async function after(...events: Given[]) {
  const rows = await rowsAfter(events, { projections: [disputes] });
  expect((await rowsAfter(events, { projections: [disputes], sizes: [1] })).bytes).toBe(rows.bytes);
  const listed = (list: { view: string; key: string }) =>
    rows.range(list).map(({ sort, value }) => [list === DUE_DISPUTES ? sort : positionOf(sort), value]);
  return {
    rows,
    list: (who: Who, open = false) => listed(disputesOf(who, open)),
    due: listed(DUE_DISPUTES),
  };
}

test('an open dispute is listed by identity, by who made the statement, and among all', async () => {
  const { rows, list, due } = await after(opened(ONE, ALICE), opened(TWO, BOB, { issuer: null }));
  for (const open of [false, true]) {
    expect(list(null, open)).toEqual([
      [1, ONE],
      [2, TWO],
    ]);
    expect(list({ about: ALICE }, open)).toEqual([[1, ONE]]);
    expect(list({ about: BOB }, open)).toEqual([[2, TWO]]);
    expect(list({ by: LENDCO }, open)).toEqual([[1, ONE]]);
  }
  expect(due).toEqual([]);
  expect(rows.get(disputeRow(ONE))).toMatchObject({
    dispute_id: ONE,
    tris_id: ALICE,
    opened_at: Date.parse(RECORDED),
    position: 1,
    state: 'open',
    lapsed: null,
    answers: [],
  });
});

test('an answered dispute leaves the lists of open ones only; opened again, it is listed once, at its new place', async () => {
  const rejected = [opened(ONE, ALICE), opened(TWO, ALICE), answered(ONE, ALICE, 'rejected')];
  const first = await after(...rejected);
  for (const who of [null, { about: ALICE }, { by: LENDCO }]) {
    expect([first.list(who, true), first.list(who)]).toEqual([
      [[2, TWO]],
      [
        [1, ONE],
        [2, TWO],
      ],
    ]);
  }
  const second = await after(...rejected, opened(ONE, ALICE, { statement_hash: 'a'.repeat(64) }));
  for (const who of [null, { about: ALICE }, { by: LENDCO }]) {
    for (const open of [false, true])
      expect(second.list(who, open)).toEqual([
        [2, TWO],
        [4, ONE],
      ]);
  }
});

test('an upheld dispute of an action is due until the action is withdrawn', async () => {
  const upheld = [opened(ONE, ALICE), answered(ONE, ALICE, 'upheld')];
  expect((await after(...upheld)).due).toEqual([[`a-${ONE}`, { dispute_id: ONE, position: 2 }]]);
  expect((await after(...upheld, withdrawn(ALICE, 'another'))).due).toHaveLength(1);
  expect((await after(...upheld, withdrawn(ALICE, `a-${ONE}`))).due).toEqual([]);
});

test('a dispute that has lapsed is not open, and due until the action is withdrawn; after a rejection, until it is reinstated', async () => {
  const lapse = [opened(ONE, ALICE), lapsed(ONE, ALICE)];
  const first = await after(...lapse);
  for (const who of [null, { about: ALICE }, { by: LENDCO }]) {
    expect([first.list(who, true), first.list(who)]).toEqual([[], [[1, ONE]]]);
  }
  expect(first.due).toEqual([[`a-${ONE}`, { dispute_id: ONE, position: 2 }]]);
  const settled = [...lapse, withdrawn(ALICE, `a-${ONE}`)];
  expect((await after(...settled)).due).toEqual([]);
  expect((await after(...settled, answered(ONE, ALICE, 'upheld'), withdrawn(ALICE, `a-${ONE}`))).due).toEqual([]);
  const rejected = [...settled, answered(ONE, ALICE, 'rejected')];
  expect((await after(...rejected)).due).toEqual([[`a-${ONE}`, { dispute_id: ONE, position: 4 }]]);
  expect((await after(...rejected, reinstated(ALICE, `a-${ONE}`))).due).toEqual([]);
});

test('a rejected dispute is never due, nor one of a verification or a BAD status', async () => {
  const about = (kind: string) => opened(TWO, BOB, { about: kind, action_id: null, platform_id: null });
  expect((await after(opened(ONE, ALICE), answered(ONE, ALICE, 'rejected'))).due).toEqual([]);
  for (const kind of ['verification', 'bad_status']) {
    expect((await after(about(kind), answered(TWO, BOB, 'upheld'))).due).toEqual([]);
  }
});
