import fc from 'fast-check';
import { actionRow } from '../../projections/actions.js';
import { type CredonationRow, credonationsOf } from '../../projections/credonations.js';
import { DECISIONS, decisionsAbout, decisionsBy, decisionsOf } from '../../projections/decisions.js';
import {
  ACKNOWLEDGED_DEAD_LETTERS,
  OPEN_DEAD_LETTERS,
  UNATTRIBUTED,
  deadLetterRow,
} from '../../projections/dead-letters.js';
import { FEW_ENTRIES, LEVELS } from '../../projections/evidence-rows.js';
import { CHANGES, identityRow } from '../../projections/identities.js';
import { ORGANIZATIONS, platformsOf } from '../../projections/organizations.js';
import { shortId } from '../../projections/projection.js';
import { positionOf, sortByPosition } from '../../src/kernel/positions.js';
import { timelineOf, unpack } from '../../projections/timeline.js';
import { recordRow, troveList } from '../../projections/trove.js';
import { UNREADABLE } from '../../src/kernel/event-definition.js';
import {
  type Given,
  RECORDED,
  about,
  accessPolicy,
  acknowledged,
  badStatus,
  badStatusCleared,
  checked,
  endorsed,
  granted,
  platformOf,
  relayed,
  revoked,
  rowsAfter,
  trove,
  withChanges,
} from './log.js';

const ALICE = 'tris:alice';
const recorded = Date.parse(RECORDED);
const unknown = {
  events: 1,
  recorded,
  stamped: recorded,
  earned: 0,
  flagged: 0,
  evidence: {},
  actions: 0,
  bad_status: null,
  verifications: [],
  changed: 0,
  latest: 0,
  dead_letters: [],
};

describe('identities', () => {
  test('count actions per metric, day and criticality', async () => {
    const rows = await rowsAfter([
      relayed(ALICE, 'financial_swap', 'High', { occurred_at: '2026-02-27T23:59:59.999Z' }),
      relayed(ALICE, 'financial_swap', 'High', { occurred_at: '2026-02-28T00:00:00.000Z' }),
      relayed(ALICE, 'financial_swap', 'Minimal', { occurred_at: '2026-02-27T00:00:00.000Z' }),
      relayed(ALICE, 'social_vouch', 'Critical'),
    ]);
    const day = Date.UTC(2026, 1, 27) / 86_400_000;
    expect(rows.get(identityRow(ALICE))).toEqual({
      ...unknown,
      evidence: {
        financial_swap: { last: Date.UTC(2026, 1, 28), days: [day, 1, 0, 0, 1, 0, day + 1, 0, 0, 0, 1, 0] },
        social_vouch: { last: recorded, days: [day + 2, 0, 0, 0, 0, 1] },
      },
      actions: 4,
      events: 4,
      earned: 350,
      changed: 4,
      latest: recorded,
    });
  });

  test('have an operator’s BAD status from its recording until it is cleared', async () => {
    const given = [badStatus(ALICE, 2), badStatus(ALICE, 1)];
    const set = (await rowsAfter(given)).get(identityRow(ALICE));
    expect(set).toMatchObject({ bad_status: { level: 1, reason_code: 'fraud', since: recorded }, changed: 2 });
    const cleared = (await rowsAfter([...given, badStatusCleared(ALICE)])).get(identityRow(ALICE));
    expect(cleared).toMatchObject({ bad_status: null, changed: 3 });
  });

  test('hold one verification per status, issuer and scheme; a later grant replaces it', async () => {
    const rows = await rowsAfter([
      granted(ALICE, 'tris:kyc'),
      granted(ALICE, 'key:ops'),
      granted(ALICE, 'tris:kyc', '2027-01-01T00:00:00.000Z'),
    ]);
    expect(rows.get(identityRow(ALICE))).toMatchObject({
      verifications: [
        { status: 'zk-KYH', issuer: 'key:ops', scheme: 'operator', expires_at: null },
        { status: 'zk-KYH', issuer: 'tris:kyc', scheme: 'operator', expires_at: '2027-01-01T00:00:00.000Z' },
      ],
    });
  });

  test.each([
    ['tris:kyc', ['key:ops']],
    [null, []],
    ['tris:other', ['tris:kyc', 'key:ops']],
  ])('lose the grants of the issuer that is revoked (%p)', async (issuer, left) => {
    const rows = await rowsAfter([granted(ALICE, 'tris:kyc'), granted(ALICE, 'key:ops'), revoked(ALICE, issuer)]);
    const { verifications } = rows.get(identityRow(ALICE)) as unknown as { verifications: { issuer: string }[] };
    expect(verifications.map((held) => held.issuer)).toEqual(left);
  });

  test('are known by any event about them, organizations included, and by nothing else', async () => {
    const rows = await rowsAfter([
      about('OrganizationRegistered', 'tris:dao'),
      platformOf('lender', 'tris:bank'),
      endorsed(ALICE, 'lender', 100),
      { type: 'IdempotencyKeyClaimed', data: { stream: 'identity-tris:bob' } },
    ]);
    expect(rows.get(identityRow('tris:dao'))).toEqual({ ...unknown, changed: 1, latest: recorded });
    for (const id of ['tris:bank', ALICE, 'tris:bob']) expect(rows.get(identityRow(id))).toBeUndefined();
  });

  test.each([[[Infinity]], [[1]], [[2, 1]]])(
    'stand in the feed of changes once, at their last change, in batches of %p',
    async (sizes) => {
      const log = [
        relayed(ALICE, 'social_vouch', 'Low'),
        relayed('tris:bob', 'social_vouch', 'Low'),
        badStatus(ALICE, 3),
        relayed('tris:carol', 'social_vouch', 'Low'),
        badStatusCleared(ALICE),
      ];
      const rows = await rowsAfter(log, { sizes });
      expect(rows.range(CHANGES).map(({ sort, value }) => [positionOf(sort), value])).toEqual([
        [2, 'tris:bob'],
        [4, 'tris:carol'],
        [5, ALICE],
      ]);
    },
  );

  test('keep the sums of the model’s own lens, flags separately', async () => {
    const rows = await rowsAfter([
      relayed(ALICE, 'financial_swap', 'High'),
      relayed(ALICE, 'social_spam_flags', 'Low'),
      relayed(ALICE, 'social_vouch', 'Low'),
    ]);
    expect(rows.get(identityRow(ALICE))).toMatchObject({ earned: 130, flagged: 30 });
  });

  test('with many events have rows whose size does not grow with them', async () => {
    const log = Array.from({ length: 2_000 }, (_, n) =>
      relayed(ALICE, `financial_kind_${n % 400}`, 'High', {
        occurred_at: new Date(recorded - (n % 900) * 86_400_000).toISOString(),
      }),
    );
    const rows = await rowsAfter(log, { sizes: [100] });
    const largest = Math.max(...[...rows.texts.values()].map((text) => text.length));
    expect(largest).toBeLessThan(2_000);
    expect(rows.get(identityRow(ALICE))).toMatchObject({ evidence: null, actions: 2_000 });
  });
});

describe('the timeline', () => {
  test('returns every event about an identity, in log order', async () => {
    const given = [
      relayed(ALICE, 'financial_swap', 'Critical', { occurred_at: '2020-01-01T00:00:00.000Z' }),
      relayed('tris:bob', 'social_vouch', 'Low'),
      badStatus(ALICE, 2),
      granted(ALICE, 'key:ops'),
      endorsed(ALICE, 'lender', 140),
      about('OrganizationRegistered', ALICE),
      { type: 'BadStatusSet', data: { tris_id: ALICE, level: 99, reason_code: 'x' } },
    ];
    const rows = (await rowsAfter(given)).range(timelineOf(ALICE));
    const events = rows.map(({ sort, value }) => unpack(ALICE, positionOf(sort), value));
    expect(events.map(({ position, type, id }) => [position, type, id])).toEqual([
      [1, 'ActionRelayed', 'e1'],
      [3, 'BadStatusSet', 'e3'],
      [4, 'VerificationGranted', 'e4'],
      [6, 'OrganizationRegistered', 'e6'],
      [7, 'Undecodable', 'e7'],
    ]);
    expect(events[0]).toEqual({
      id: 'e1',
      stream: '',
      position: 1,
      occurred_at: Date.UTC(2020, 0, 1),
      recorded_at: recorded,
      type: 'ActionRelayed',
      data: { ...given[0]!.data, source: 'vouched' },
    });
    expect(events[1]!.data).toEqual(given[2]!.data);
  });
});

test('the id of an event takes 22 characters in a key, and stays another one', () => {
  fc.assert(
    fc.property(fc.uuid(), fc.uuid(), (a, b) => {
      expect(shortId(a)).toBe(Buffer.from(a.replaceAll('-', ''), 'hex').toString('base64url'));
      expect(shortId(a) === shortId(b)).toBe(a === b);
    }),
  );
  expect(shortId('e1')).toBe('e1');
});

test('actions are found by the id of their event, whatever becomes of them', async () => {
  const rows = await rowsAfter([
    ...withChanges(ALICE, [[relayed(ALICE, 'financial_swap', 'High'), endorsed(ALICE, 'lender', 100)], 0]),
    trove('TroveRecordSubmitted'),
    relayed('tris:bob', 'social_vouch', 'Low', { stream: 'trove-1' }),
    { type: 'ActionRelayed', data: { tris_id: ALICE, metric: 1 } },
  ]);
  const found = ['e1', 'e2', 'e3', 'e5', 'e6'].map((id) => rows.get(actionRow(id)));
  expect(found).toEqual([1, undefined, undefined, 5, undefined]);
});

describe('credonations', () => {
  const received = async (given: Parameters<typeof rowsAfter>[0]) =>
    (await rowsAfter(given, { sizes: [1] })).range(credonationsOf(ALICE)).map(({ value }) => value);

  test('come from the organization registered for the platform before them in the log', async () => {
    const given = [
      endorsed(ALICE, 'lender', 10),
      platformOf('lender', 'tris:bank'),
      endorsed(ALICE, 'lender', 30),
      endorsed(ALICE, 'unowned', 70),
    ];
    const expected = ['tris:platform:lender', 'tris:bank', 'tris:platform:unowned'];
    expect((await received(given)).map((row) => (row as CredonationRow)[0])).toEqual(expected);
    const atOnce = (await rowsAfter(given)).range(credonationsOf(ALICE)).map(({ value }) => value);
    expect(atOnce).toEqual(await received(given));
  });

  test('keep the amount, the category and when the action occurred, in log order', async () => {
    const early = { occurred_at: '2019-05-01T00:00:00.000Z' };
    expect(await received([endorsed(ALICE, 'lender', 140), endorsed(ALICE, 'lender', 10, early)])).toEqual([
      ['tris:platform:lender', 140, recorded, 'financial', 'e1'],
      ['tris:platform:lender', 10, Date.UTC(2019, 4, 1), 'financial', 'e2'],
    ]);
  });

  test('never go from an identity to itself', async () => {
    expect(await received([platformOf('own', ALICE), endorsed(ALICE, 'own', 100)])).toEqual([]);
    const rows = await rowsAfter([endorsed('tris:platform:lender', 'lender', 100)]);
    expect(rows.range(credonationsOf('tris:platform:lender'))).toEqual([]);
  });
});

describe('withdrawals', () => {
  const at = (n: number) => ({ occurred_at: new Date(recorded - (n % 3) * 1_000).toISOString() });
  const list = Array.from({ length: 700 }, (_, n) => {
    if (n % 4 > 1) return n * 7_919;
    if (n === 300) return [platformOf('lender', 'tris:bank')];
    return [relayed(ALICE, `social_kind_${n % 5}`, 'Low', at(n)), endorsed(ALICE, 'lender', 30, at(n))];
  });
  const log = withChanges(ALICE, list);

  test('give the same rows whether they are folded one by one or many at once', async () => {
    const { bytes } = await rowsAfter(log);
    for (const sizes of [[1], [7, 100]]) expect((await rowsAfter(log, { sizes })).bytes === bytes).toBe(true);
  });

  test('of all actions leave nothing but their names, and the identity is known', async () => {
    const actions = Array.from({ length: 70 }, (_, n) => n);
    const given = withChanges(ALICE, [...actions.map(() => [relayed(ALICE, 'social_vouch', 'Low')]), ...actions]);
    for (const events of [given, given.filter((_, n) => n % 70 < 30)]) {
      const row = (await rowsAfter(events)).get(identityRow(ALICE));
      expect(row).toMatchObject({ actions: 0, withdrawn: events.length / 2, earned: 0, flagged: 0 });
    }
  });

  test('and relays of one action again and again add no more entries to its day than relays do', async () => {
    const again = withChanges(ALICE, [[relayed(ALICE, 'social_vouch', 'Low')], ...Array<number>(2_000).fill(0)]);
    const rows = await rowsAfter(again, { sizes: [100] });
    const entries = [...rows.texts.keys()].filter((address) => address.startsWith('identities.days|'));
    expect(entries.length).toBeLessThanOrEqual(FEW_ENTRIES * LEVELS);
  });
});

describe('organizations', () => {
  test('are listed with their vetting, and with their platforms', async () => {
    const rows = await rowsAfter([
      platformOf('p2', 'tris:bank'),
      about('OrganizationRegistered', 'tris:bank'),
      about('OrganizationVetted', 'tris:bank'),
      about('OrganizationRegistered', 'tris:dao'),
      about('OrganizationVetted', 'tris:dao'),
      about('OrganizationVettingRevoked', 'tris:dao'),
      platformOf('p1', 'tris:bank'),
      about('OrganizationVetted', 'tris:never-registered'),
    ]);
    expect(rows.range(ORGANIZATIONS).map(({ value }) => value)).toEqual([
      { tris_org: 'tris:bank', registered_at: recorded, vetted: true },
      { tris_org: 'tris:dao', registered_at: recorded, vetted: false },
    ]);
    expect(rows.range(platformsOf('tris:bank')).map(({ sort }) => sort)).toEqual(['p1', 'p2']);
  });
});

describe('an event that cannot be decoded', () => {
  const broken = relayed(ALICE, 'financial_swap', 'Enormous');

  test('marks its identity and is listed, and later events are applied', async () => {
    const rows = await rowsAfter([broken, relayed(ALICE, 'financial_swap', 'High')]);
    expect(rows.get(identityRow(ALICE))).toMatchObject({ dead_letters: ['e1'], actions: 1, changed: 2 });
    expect(rows.range(OPEN_DEAD_LETTERS)).toEqual([{ sort: sortByPosition(1), value: letter }]);
    expect(rows.get(deadLetterRow('e1'))).toEqual(letter);
  });

  const letter = {
    event_id: 'e1',
    event_type: 'ActionRelayed',
    stream: 'stream-1',
    position: 1,
    tris_id: ALICE,
    reason: 'its data is not that of ActionRelayed schema 1',
    acknowledged: null,
  };

  test.each([[[Infinity]], [[1]], [[2, 1]]])(
    'is got past by an acknowledgement, and each by its own, in batches of %p',
    async (sizes) => {
      const log = [broken, broken, acknowledged('e1', ALICE)];
      const rows = await rowsAfter(log, { sizes });
      expect(rows.get(identityRow(ALICE))).toMatchObject({ dead_letters: ['e2'], changed: 3 });
      expect(rows.range(OPEN_DEAD_LETTERS).map(({ value }) => value)).toMatchObject([{ event_id: 'e2' }]);
      const done = { ...letter, acknowledged: { at: recorded, by: 'key:ops', reason_code: 'lost_for_good' } };
      expect(rows.range(ACKNOWLEDGED_DEAD_LETTERS)).toEqual([{ sort: sortByPosition(1), value: done }]);
      expect(rows.get(deadLetterRow('e1'))).toEqual(done);

      const all = await rowsAfter([...log, acknowledged('e2', ALICE)], { sizes });
      expect(all.get(identityRow(ALICE))).toMatchObject({ dead_letters: [], changed: 4 });
      expect(all.range(OPEN_DEAD_LETTERS)).toEqual([]);
    },
  );

  test('counts in a build that can decode it, acknowledged or not', async () => {
    const log = [relayed(ALICE, 'financial_swap', 'High'), broken, acknowledged('e1', ALICE)];
    const rows = await rowsAfter(log);
    expect(rows.get(identityRow(ALICE))).toMatchObject({ actions: 1, dead_letters: ['e2'] });
    expect(rows.range(ACKNOWLEDGED_DEAD_LETTERS)).toEqual([]);
    expect(rows.get(deadLetterRow('e1'))).toBeUndefined();
  });

  test('without an identity can be acknowledged too', async () => {
    const rows = await rowsAfter([{ type: 'PlatformRegistered', data: { platform_id: 7 } }, acknowledged('e1', null)]);
    expect(rows.range(OPEN_DEAD_LETTERS)).toEqual([]);
    expect(rows.range(ACKNOWLEDGED_DEAD_LETTERS)).toHaveLength(1);
  });

  test('counts as one that may be about anyone only if it is damaged, until it is acknowledged', async () => {
    const damaged = { type: UNREADABLE, data: {}, damage: { reason: 'its checksum is wrong', tris_id: null } };
    const another = { type: 'PlatformRegistered', data: { platform_id: 7 } };
    const count = async (...log: Given[]) => (await rowsAfter([damaged, damaged, another, ...log])).get(UNATTRIBUTED);
    expect(await count()).toBe(2);
    expect(await count(acknowledged('e3', null))).toBe(2);
    expect(await count(acknowledged('e1', null), acknowledged('e1', null))).toBe(1);
  });

  test.each([
    ['the organization in its data', about('OrganizationVetted', 'tris:dao'), 'tris:dao'],
    ['the name of its stream', { type: 'BadStatusSet', data: {}, stream: 'identity-tris:eve' }, 'tris:eve'],
  ])('is about %s', async (_name, given, trisId) => {
    const rows = await rowsAfter([{ ...given, occurred_at: 'yesterday' }]);
    expect(rows.get(identityRow(trisId))).toMatchObject({ dead_letters: ['e1'] });
  });

  test('without a time of its own leaves the identity’s latest time a number', async () => {
    const rows = await rowsAfter([relayed(ALICE, 'financial_swap', 'High'), { ...broken, occurred_at: 'yesterday' }]);
    expect(rows.get(identityRow(ALICE))).toMatchObject({ dead_letters: ['e2'], latest: recorded });
    for (const { sort, value } of rows.range(timelineOf(ALICE))) {
      expect(() => new Date(unpack(ALICE, positionOf(sort), value).occurred_at).toISOString()).not.toThrow();
    }
  });

  test('that names no identity is listed too', async () => {
    const rows = await rowsAfter([{ type: 'PlatformRegistered', data: { platform_id: 7 } }]);
    expect(rows.range(OPEN_DEAD_LETTERS).map(({ value }) => value)).toMatchObject([{ tris_id: null }]);
  });
});

describe('trove', () => {
  const [submitted, proof, approved, rejected, lifted] = (
    [
      'TroveRecordSubmitted',
      'TroveProofSubmitted',
      'TroveRecordApproved',
      'TroveRecordRejected',
      'TroveRejectionLifted',
    ] as const
  ).map(trove) as [Given, Given, Given, Given, Given];
  const byProof = { ...rejected, data: { ...rejected.data, method: 'signature', decided_by: 'lab' } };
  const action = { ...relayed(ALICE, 'creative_code', 'High'), stream: submitted.stream };
  const record = recordRow('c'.repeat(64));
  const lists = (rows: Awaited<ReturnType<typeof rowsAfter>>) =>
    (['Pending', 'Approved', 'Rejected', null] as const).filter(
      (status) => rows.get({ ...troveList(ALICE, status), sort: sortByPosition(1) }) !== undefined,
    );

  test('has a record in the list of its status only, and of all', async () => {
    expect(lists(await rowsAfter([submitted]))).toEqual(['Pending', null]);
    expect(lists(await rowsAfter([submitted, rejected]))).toEqual(['Rejected', null]);
    expect(lists(await rowsAfter([submitted, rejected, lifted]))).toEqual(['Pending', null]);
    expect(lists(await rowsAfter([submitted, byProof, proof]))).toEqual(['Pending', null]);
    expect(lists(await rowsAfter([submitted, byProof, proof, approved, action]))).toEqual(['Approved', null]);
    const revoked = trove('TroveRecordRevoked');
    expect(lists(await rowsAfter([submitted, approved, action, revoked]))).toEqual(['Rejected', null]);
    expect(lists(await rowsAfter([submitted, approved, action, revoked, lifted]))).toEqual(['Pending', null]);
    // In older logs, a proof could follow an operator's rejection.
    expect(lists(await rowsAfter([submitted, rejected, proof]))).toEqual(['Rejected', null]);
    expect(lists(await rowsAfter([submitted, rejected, proof, approved, action]))).toEqual(['Approved', null]);
  });

  test('names the action that an approved record became', async () => {
    expect((await rowsAfter([submitted, approved, action])).get(record)).toMatchObject({
      status: 'Approved',
      rulings: [{ decided_by: 'key:reviewer', approved: true, reason_code: null, action_id: 'e3' }],
    });
    expect((await rowsAfter([submitted, rejected])).get(record)).toMatchObject({
      rulings: [{ reason_code: 'wrong', approved: false, action_id: null }],
    });
  });

  test('a new proof reopens a record that was rejected for its proof', async () => {
    const rows = await rowsAfter([submitted, byProof, proof]);
    expect(rows.get(record)).toMatchObject({ status: 'Pending', proofs: 1, proof: { issuer: 'lab' }, rulings: [] });
  });
});

describe('decisions', () => {
  const log = [
    accessPolicy('AP_A_V1', null),
    accessPolicy('AP_B_V1', 'tris:bank'),
    checked(ALICE, 'AP_A_V1', '2026-03-01T10:00:03.000Z', 'third'),
    checked(ALICE, 'AP_B_V1', '2026-03-01T10:00:01.000Z', 'first'),
    checked('tris:bob', 'AP_B_V1', '2026-03-01T10:00:02.000Z', 'second'),
  ];

  test.each([[[Infinity]], [[1]]])('stand in five lists by the time of the check, in batches of %p', async (sizes) => {
    const rows = await rowsAfter(log, { sizes });
    const ids = (list: { view: string; key: string }) =>
      rows.range(list).map(({ value }) => (value as { jti: string }).jti);
    expect(ids(DECISIONS)).toEqual(['first', 'second', 'third']);
    expect(ids(decisionsAbout(ALICE))).toEqual(['first', 'third']);
    expect(ids(decisionsAbout(ALICE, 'tris:bank'))).toEqual(['first']);
    expect(ids(decisionsBy('AP_B_V1'))).toEqual(['first', 'second']);
    expect(ids(decisionsOf('tris:bank'))).toEqual(['first', 'second']);
    expect(rows.range(DECISIONS)[0]!.value).toEqual({
      jti: 'first',
      subject_tris: ALICE,
      policy_id: 'AP_B_V1',
      owner: 'tris:bank',
      granted: false,
    });
  });
});
