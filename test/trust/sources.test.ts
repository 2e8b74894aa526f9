import { jest } from '@jest/globals';
import { SCOPES } from '../../src/credentials/caller.js';
import { Vetting } from '../../src/features/organizations/vetting.js';
import { hashedStream } from '../../src/kernel/event-definition.js';
import { sha256Hex } from '../../src/kernel/hash.js';
import { eventId } from '../../src/stores/ports/event-encoding.js';
import { becomes } from '../contracts/harness.js';
import { type Service, applied, as, startServiceWithKeys } from '../policies/service.fixture.js';

/** Who says it: whether the operators stand behind an action, and who is on its other side. */

const KEYS = [
  { id: 'operator', scopes: [...SCOPES] },
  { id: 'lendco', scopes: [...SCOPES], organization: 'tris:lendco' },
  { id: 'other', scopes: [...SCOPES], organization: 'tris:other' },
];
const [OPERATOR, LENDCO] = [as('operator'), as('lendco')];

const VOUCHED = 'It is vouched: operators, or an organization vetted then, stated it.';

let service: Service;
beforeAll(async () => {
  service = await startServiceWithKeys(KEYS);
  for (const name of ['lendco', 'other']) {
    const body = { tris_org: `tris:${name}`, platform_ids: [`${name}-app`] };
    expect((await service.post('/v1/organizations', body, OPERATOR)).status).toBe(201);
  }
});
afterAll(() => service.close());
afterEach(() => jest.restoreAllMocks());

let number = 0;
const action = (more: object = {}) => ({
  tris_id: 'tris:alice',
  action_type: 'audit_passed',
  category: 'compliance',
  criticality: 'critical',
  platform_id: 'lendco-app',
  external_id: `n-${number++}`,
  ...more,
});
const relay = async (body: object, headers = LENDCO) => (await service.post('/api/decision-relay', body, headers)).json;
const sourceOf = async (headers = LENDCO) => (await relay(action(), headers)).source as string;
const setVetting = (what: 'vet' | 'revoke') => service.post(`/v1/organizations/tris:lendco/${what}`, {}, OPERATOR);
const eventsOf = (externalId: string) =>
  service.stores.eventStore.readStream(hashedStream('action', 'lendco-app', externalId));

test('an action is vouched if an operator or a vetted organization relays it, and stays what it was', async () => {
  expect(await relay(action(), OPERATOR)).toMatchObject({
    source: 'vouched',
    message: `Action received for scoring. ${VOUCHED}`,
  });
  const first = action({ external_id: 'first' });
  const answer = await relay(first);
  expect(answer).toMatchObject({
    source: 'unvouched',
    message: 'Action received for scoring. It is unvouched: its organization was not vetted when it was recorded.',
  });
  await setVetting('vet');
  const vetted = performance.now();
  await becomes(sourceOf, (source) => source === 'vouched');
  expect(performance.now() - vetted).toBeLessThan(10_000);

  const recorded = await eventsOf('first');
  expect(recorded.map(({ data }) => data['source'])).toEqual(['unvouched', 'unvouched']);
  for (const headers of [LENDCO, OPERATOR]) expect(await relay(first, headers)).toEqual(answer);
  expect(await eventsOf('first')).toEqual(recorded);

  const later = action({ external_id: 'later' });
  const vouched = await relay(later);
  expect(vouched.message).toContain(VOUCHED);
  await setVetting('revoke');
  await becomes(sourceOf, (source) => source === 'unvouched');
  expect(await relay(later)).toEqual(vouched);
});

test('what was read of a vetting holds for less than a second, and a batch is decided once', async () => {
  const now = jest.spyOn(performance, 'now').mockReturnValue(1e9);
  const read = jest.spyOn(service.stores.eventStore, 'readStream');
  const reads = () => read.mock.calls.filter(([stream]) => stream === 'organization-tris:lendco').length;
  await sourceOf();
  await setVetting('vet');
  const before = reads();
  now.mockReturnValue(1e9 + 999);
  expect(await sourceOf()).toBe('unvouched');
  expect(reads()).toBe(before);
  now.mockReturnValue(1e9 + 1_000);
  expect(await sourceOf()).toBe('vouched');
  expect(reads()).toBe(before + 1);

  // Each item finds that a second has passed since the last one.
  now.mockImplementation(() => 2e9 + 1_000 * number++);
  const actions = Array.from({ length: 200 }, () => action());
  const { results } = (await service.post('/v1/decision-relay/batch', { actions }, LENDCO)).json;
  expect(results.map(({ data }: { data: { source: string } }) => data.source)).toEqual(actions.map(() => 'vouched'));
  expect(reads()).toBe(before + 2);
  // This clock was ahead.
  service.app.get(Vetting, { strict: false })['known'].clear();
  await setVetting('revoke');
});

test('a record is as vouched as its reviewer', async () => {
  const approved = async (n: number, headers: Record<string, string>) => {
    const body = {
      tris_id: 'tris:alice',
      record_type: 'milestone',
      metric: 'creative_code_contribution',
      criticality: 'low',
      title: `Release ${n}`,
      content_hash: sha256Hex(`content ${n}`),
      occurred_at: '2026-01-01T00:00:00Z',
    };
    const { record_id } = (await service.post('/v1/trove/submit', body, as('other'))).json;
    const platform_id = headers === LENDCO ? 'lendco-app' : 'trove';
    const ruling = { decision: 'approve', platform_id };
    expect((await service.post(`/v1/trove/${record_id}/review`, ruling, headers)).status).toBe(200);
    const events = await service.stores.eventStore.readStream(`trove-${record_id}`);
    return events.find(({ type }) => type === 'ActionRelayed')!.data['source'];
  };
  expect(await approved(1, OPERATOR)).toBe('vouched');
  expect(await approved(2, LENDCO)).toBe('unvouched');
});

test('a retry of an action that an earlier build recorded finds it', async () => {
  const stream = hashedStream('action', 'lendco-app', 'old');
  // What that build computed for the action below.
  const body_hash = '86c154c23a3df643a1536294cf2f23b4e001804eee3c55d95c65022afd76c2d9';
  const id = eventId(stream, body_hash, 0);
  const data = {
    tris_id: 'tris:alice',
    metric: 'compliance_audit_passed',
    criticality: 'Critical',
    platform_id: 'lendco-app',
    evidence_hash: null,
  };
  const at = new Date().toISOString();
  const metadata = { occurred_at: at, recorded_at: at, correlation_id: 'c', actor: 'key:lendco', body_hash, index: 0 };
  const event = { id, type: 'ActionRelayed', data, metadata: { schema: 1, ...metadata, size: 1 } };
  await service.stores.eventStore.append(stream, 'no-stream', [event]);
  for (const headers of [LENDCO, OPERATOR]) {
    const answer = await relay(action({ external_id: 'old' }), headers);
    expect(answer).toMatchObject({ action_id: id, source: 'vouched' });
  }
  expect(await eventsOf('old')).toHaveLength(1);
});

describe('a counterparty', () => {
  test.each([
    ['tris:alice', 'own_counterparty'],
    ['alice', 'tris_id'],
    ['tris:john@example.org', 'personal_data'],
    ['tris:platform:lender', 'reserved'],
    [7, 'tris_id'],
  ])('is refused: %s', async (counterparty, code) => {
    const { json, status } = await service.post('/api/decision-relay', action({ counterparty }), LENDCO);
    expect([status, json.errors?.[0]]).toEqual([400, expect.objectContaining({ pointer: '/counterparty' })]);
    expect([json.code, json.errors[0].code]).toContain(code);
  });

  test('is recorded, endorses the identity, and is shown in its history and explanation', async () => {
    const about = { tris_id: 'tris:dora', counterparty: 'tris:carol' };
    await relay(action({ ...about, external_id: 'rated' }));
    await relay(action({ tris_id: 'tris:dora' }));
    await relay(action({ ...about, action_type: 'audit_flags', criticality: 'minimal' }));
    expect((await eventsOf('rated')).map(({ data }) => data['counterparty'])).toEqual(['tris:carol', 'tris:carol']);
    await applied(service);
    const get = async (path: string) => (await service.get(path, OPERATOR)).json;
    const { validations } = await get('/api/tris-validations/tris:dora');
    expect(validations.map(({ from }: { from: string }) => from)).toEqual(['tris:carol', 'tris:lendco']);
    const { entries } = await get('/v1/disc/score/tris:dora/history');
    expect(entries.map(({ counterparty, source }: Record<string, string>) => [counterparty, source])).toEqual([
      ['tris:carol', 'unvouched'],
      [undefined, 'unvouched'],
      ['tris:carol', 'unvouched'],
    ]);
    const explained = await get('/v1/disc/score/tris:dora/explain');
    expect(explained.counterparties).toEqual([{ tris_id: 'tris:carol', actions: 2, tct: 140, flagged_tct: 10 }]);
    expect(explained.platforms).toEqual([{ platform_id: 'lendco-app', actions: 3, tct: 280, flagged_tct: 10 }]);
    expect(await get('/v1/disc/score/tris:alice/explain')).not.toHaveProperty('counterparties');
  });

  test('is a part of the command: another one is another action', async () => {
    const body = action({ counterparty: 'tris:carol' });
    await relay(body);
    expect((await relay({ ...body, counterparty: 'tris:eve' })).code).toBe('external_id_conflict');
  });
});
