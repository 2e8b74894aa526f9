import { jest } from '@jest/globals';
import { positionOfSort, sortByTime } from '../../projections/decisions.js';
import { sortByPosition } from '../../src/kernel/positions.js';
import type { RangeRow } from '../../src/stores/ports/read-models.js';
import { type Service, as, relay, seen, startServiceWithKeys } from './service.fixture.js';

/** Recorded access decisions over HTTP: who sees which, and how they page. */

const LENDER = 'tris:lender';
const KEYS = [
  { id: 'operator', scopes: ['ops', 'relay:write', 'policies:write', 'access:check'] },
  { id: 'auditor', scopes: ['audit:read'] },
  { id: 'lender', scopes: ['policies:write', 'access:check'], organization: LENDER },
  { id: 'lender-auditor', scopes: ['audit:read'], organization: LENDER },
  { id: 'lender-relay', scopes: ['relay:write'], organization: LENDER },
  { id: 'other', scopes: ['access:check'], organization: 'tris:other' },
];

let service: Service;
let now = Date.now();
/** `checked_at` of the decisions in the order in which they were made. */
const times: string[] = [];
const SUBJECTS = ['tris:alice', 'tris:bob'];

/** Twelve decisions, a second apart: both subjects by both policies, three times; alice passes both. */
beforeAll(async () => {
  service = await startServiceWithKeys(KEYS, {}, () => now);
  const { post } = service;
  const rules = { disc_min: 7.2 };
  const policies = [
    await post('/v1/policies/ap', { policy_id: 'AP_OPERATORS_V1', rules }, as('operator')),
    await post('/v1/policies/ap', { policy_id: 'AP_LENDER_V1', rules }, as('lender')),
  ];
  expect(policies.map(({ status }) => status)).toEqual([201, 201]);
  const action = { tris_id: 'tris:alice', category: 'financial', action_type: 'repayment', criticality: 'critical' };
  const position = await relay(service, [action], as('operator'));
  for (let round = 0; round < 3; round++) {
    for (const policy_id of ['AP_OPERATORS_V1', 'AP_LENDER_V1']) {
      for (const subject_tris of SUBJECTS) {
        now += 1_000;
        const headers = { ...as('operator'), 'credence-min-position': position };
        const { status, json } = await post('/v1/policies/ap/check', { policy_id, subject_tris }, headers);
        expect([status, json.granted]).toEqual([200, subject_tris === 'tris:alice']);
        times.push(json.checked_at);
      }
    }
  }
});
afterAll(() => service.close());

const PATH = '/v1/access/decisions';
const list = async (query: string, key: string) =>
  service.get(`${PATH}${query}`, { ...as(key), ...(await seen(service)) });
const decisionsOf = async (query: string, key: string) => (await list(query, key)).json.decisions;
type Decision = { jti: string; policy_id: string; subject_tris: string; granted: boolean; checked_at: string };
const timesOf = async (query: string, key = 'auditor') =>
  (await decisionsOf(query, key)).map(({ checked_at }: Decision) => times.indexOf(checked_at));

test('each has its outcome, reasons, how it would pass and its coordinates', async () => {
  const [latest, before] = await decisionsOf('?limit=2', 'lender');
  expect(latest).toEqual({
    jti: expect.stringMatching(/^[0-9a-f-]{36}$/),
    policy_id: 'AP_LENDER_V1',
    policy_hash: expect.stringMatching(/^[0-9a-f]{64}$/),
    subject_tris: 'tris:bob',
    granted: false,
    audience: null,
    score: null,
    reasons: [{ pointer: '', rule: 'identity', required: 'known', actual: null, outcome: 'unknown' }],
    how_to_pass: [{ fact: 'net_tct', required: expect.any(Number), actual: 0, pointers: ['/disc_min'] }],
    checked_at: times.at(-1),
    checked_by: 'key:operator',
    expires_at: null,
    revoked: false,
    voucher: null,
    as_of: times.at(-1),
    position: expect.stringMatching(/\.\d+$/),
    lens: null,
    model: { id: expect.stringMatching(/^disc-/), hash: expect.any(String) },
    recorded_position: expect.stringMatching(/\.\d+$/),
  });
  expect(before).toMatchObject({
    subject_tris: 'tris:alice',
    granted: true,
    reasons: [],
    how_to_pass: [],
    lens: { policy_id: null, content_hash: expect.any(String) },
  });
  expect(Date.parse(before.expires_at) - Date.parse(before.checked_at)).toBeLessThanOrEqual(600_000);
});

test('one is read by its jti, and says when its token was revoked', async () => {
  const [granted] = await decisionsOf('?granted=true&limit=1', 'auditor');
  const get = (key: string) => service.get(`${PATH}/${granted.jti}`, as(key));
  expect((await get('auditor')).json).toEqual({ ...granted, codes: [] });
  expect((await get('lender')).json).toEqual({ ...granted, codes: [] });
  await service.post('/v1/eligibility/revoke', { jti: granted.jti }, as('operator'));
  expect((await get('auditor')).json).toEqual({ ...granted, revoked: true, codes: [] });
  const other = await get('other');
  expect([other.status, other.json.code]).toEqual([404, 'decision_not_found']);
  const unknown = await service.get(`${PATH}/00000000-0000-4000-8000-000000000000`, as('auditor'));
  expect([unknown.status, unknown.json.code]).toEqual([404, 'decision_not_found']);
  expect((await service.get(`${PATH}/x`, as('auditor'))).json.errors[0].pointer).toBe('jti');
});

test.each<[string, number[]]>([
  ['', [11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0]],
  ['?subject=tris:alice', [10, 8, 6, 4, 2, 0]],
  ['?policy_id=AP_LENDER_V1', [11, 10, 7, 6, 3, 2]],
  ['?subject=tris:bob&policy_id=AP_LENDER_V1', [11, 7, 3]],
  ['?granted=false&policy_id=AP_OPERATORS_V1', [9, 5, 1]],
  ['?subject=tris:bob&granted=true', []],
  ['?subject=tris:nobody', []],
])('are selected, the latest first: %s', async (query, expected) => {
  expect(await timesOf(query)).toEqual(expected);
});

test('are selected by the time of the check, both ends included', async () => {
  expect(await timesOf(`?from=${times[3]}&to=${times[5]}`)).toEqual([5, 4, 3]);
  expect(await timesOf(`?subject=tris:alice&from=${times[10]}`)).toEqual([10]);
  expect(await timesOf(`?to=${times[0]}`)).toEqual([0]);
  expect(await timesOf(`?to=${new Date(Date.parse(times[0]!) - 1).toISOString()}`)).toEqual([]);
  const { status, json } = await list(`?from=${times[5]}&to=${times[3]}`, 'auditor');
  expect([status, json.errors[0]]).toEqual([
    400,
    { pointer: '?to', code: 'before_from', message: 'to must not be before from' },
  ]);
});

test.each(['', '&granted=false', `&subject=tris:alice`])('page by page are each listed once%s', async (filter) => {
  const all = await timesOf(`?limit=100${filter}`);
  for (const limit of [1, 4, 5, all.length]) {
    const paged: number[] = [];
    let pages = 0;
    for (let cursor = ''; ; pages++) {
      const { json } = await list(`?limit=${limit}${filter}${cursor}`, 'auditor');
      paged.push(...json.decisions.map(({ checked_at }: Decision) => times.indexOf(checked_at)));
      if (json.next_cursor === null) break;
      cursor = `&cursor=${json.next_cursor}`;
    }
    expect(paged).toEqual(all);
    expect(pages + 1).toBe(Math.ceil(all.length / limit));
  }
});

test('a page looks at a thousand decisions at most, and the next continues behind them', async () => {
  const reads: number[] = [];
  const { readModels } = service.stores;
  const read = readModels.read.bind(readModels);
  // 3,000 denials before one grant, as the rows of such a log would be.
  readModels.read = async (generation, queries) => {
    const [first] = queries;
    if (!first || !('range' in first) || first.range.view !== 'decisions.subject') return read(generation, queries);
    const { after = '9', limit } = first.range;
    const from = after === '9' ? 3_000 : positionOfSort(after) - 1;
    const rows = Array.from({ length: Math.max(0, Math.min(limit, from + 1)) }, (_, i) => ({
      sort: sortByTime(1) + sortByPosition(from - i),
      value: { jti: 'none', subject_tris: 'tris:a', policy_id: 'AP_A_V1', owner: null, granted: false },
    }));
    reads.push(rows.length);
    return { ...(await read(generation, []))!, results: [rows] };
  };
  try {
    let cursor = '';
    const seenByPage: number[] = [];
    for (let pages = 0; pages < 10; pages++) {
      reads.length = 0;
      const { json } = await list(`?subject=tris:a&granted=true${cursor}`, 'auditor');
      expect(json.decisions).toEqual([]);
      seenByPage.push(reads.reduce((sum, count) => sum + count, 0));
      if (json.next_cursor === null) break;
      cursor = `&cursor=${json.next_cursor}`;
    }
    expect(seenByPage).toEqual([1_000, 1_000, 1_000, 1]);
  } finally {
    readModels.read = read;
  }
});

describe('a key of an organization', () => {
  test.each(['lender', 'lender-auditor'])('sees the decisions by its own policies only: %s', async (key) => {
    expect(await timesOf('', key)).toEqual([11, 10, 7, 6, 3, 2]);
    expect(await timesOf('?subject=tris:alice', key)).toEqual([10, 6, 2]);
    expect(await timesOf('?policy_id=AP_LENDER_V1&granted=true', key)).toEqual([10, 6, 2]);
    const { status, json } = await list('?policy_id=AP_OPERATORS_V1', key);
    expect([status, json.code]).toEqual([403, 'forbidden']);
    const [operators] = await decisionsOf('?policy_id=AP_OPERATORS_V1&limit=1', 'auditor');
    expect((await service.get(`${PATH}/${operators.jti}`, as(key))).json.code).toBe('decision_not_found');
  });

  test('of another organization sees none', async () => {
    expect(await timesOf('', 'other')).toEqual([]);
  });

  // Pages of a bounded number of rows would show how many there are, and their cursors when the checks were.
  test('about a subject reads no rows of decisions by the policies of others', async () => {
    const { readModels } = service.stores;
    const read = jest.spyOn(readModels, 'read');
    try {
      for (const key of ['lender', 'other']) await list('?subject=tris:alice', key);
      const answers = await Promise.all(
        read.mock.results.map(({ value }) => value as ReturnType<typeof readModels.read>),
      );
      const rows = answers.flatMap((answer) => answer!.results.flat()) as RangeRow[];
      const owners = rows
        .map(({ value }) => (value as { owner?: string }).owner)
        .filter((owner) => owner !== undefined);
      expect(owners).toEqual(Array(3).fill(LENDER));
    } finally {
      read.mockRestore();
    }
  });

  test.each([
    ['lender-relay', 403],
    ['operator', 403],
  ])('without the scope is refused, as is an operator’s: %s', async (key, status) => {
    const answer = await list('', key);
    expect([answer.status, answer.json.code]).toEqual([status, 'forbidden']);
    expect(answer.json.detail).toMatch(/lacks the scope "audit:read"/);
  });
});

test('a cursor of a page without a time gives none but the decisions of the time that is asked for with it', async () => {
  const { next_cursor } = (await list('?limit=1', 'auditor')).json;
  expect(await timesOf(`?to=${times[4]}&cursor=${next_cursor}`)).toEqual([4, 3, 2, 1, 0]);
});

test('a cursor that was made up, and wrong parameters, are refused', async () => {
  for (const [query, pointer] of [
    ['?cursor=0', '?cursor'],
    ['?granted=yes', '?granted'],
    ['?subject=bob', '?subject'],
    ['?from=yesterday', '?from'],
    ['?limit=101', '?limit'],
  ]) {
    const { status, json } = await list(query!, 'auditor');
    expect([status, json.errors[0].pointer]).toEqual([400, pointer]);
  }
  expect((await list('?policy_id=AP_NOWHERE_V1', 'auditor')).json.code).toBe('policy_not_found');
});

test('by a private policy of another owner are a yes or a no for an auditor', async () => {
  const { post } = service;
  for (const visibility of ['private', 'public']) {
    const policy_id = `AP_SECRET_${visibility.toUpperCase()}_V1`;
    await post('/v1/policies/ap', { policy_id, rules: { disc_min: 99 }, visibility }, as('lender'));
    const checked = await post('/v1/policies/ap/check', { policy_id, subject_tris: 'tris:alice' }, as('operator'));
    expect(checked.json.reasons).toHaveLength(1);
    const query = `?policy_id=${policy_id}`;
    const [whole] = await decisionsOf(query, 'lender');
    expect([whole.reasons, whole.how_to_pass]).toEqual([checked.json.reasons, checked.json.how_to_pass]);
    const [listed] = await decisionsOf(query, 'auditor');
    const hidden = visibility === 'private' ? { reasons: [], how_to_pass: [] } : {};
    expect(listed).toEqual({ ...whole, ...hidden });
    const one = await service.get(`${PATH}/${whole.jti}`, as('auditor'));
    expect(one.json).toEqual({ ...listed, codes: ['score_below_minimum'] });
  }
});
