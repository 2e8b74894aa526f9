import { randomUUID } from 'node:crypto';
import { audit } from '../../src/features/access/audit.js';
import { base64Of, leafOf } from '../../src/kernel/merkle.js';
import { verify } from '../../src/read-side/verify.js';
import type { JsonObject } from '../../src/kernel/json.js';
import { plantAction, plantEvent } from '../contracts/sample-events.js';
import { type Service, policyBody, relay, seen, startService } from '../policies/service.fixture.js';

let service: Service;
beforeEach(async () => void (service = await startService()));
afterEach(() => service.close());

const score = async (trisId: string, query = '') =>
  (await service.get(`/v1/disc/score/${trisId}${query}`, await seen(service))).json;
const check = async (trisId: string) =>
  (await service.post('/v1/policies/ap/check', { policy_id: 'AP_KNOWN_V1', subject_tris: trisId }, await seen(service)))
    .json;
const list = async (state: string) =>
  (await service.get(`/v1/dead-letters?state=${state}`, { 'x-api-key': service.key, ...(await seen(service)) })).json
    .dead_letters;
/** Resolves once it is among the dead letters. */
const plant = async (data: JsonObject) => {
  const id = await plantAction(service.stores.eventStore, data);
  await list('open');
  return id;
};
const acknowledge = (id: string, reason_code = 'lost_for_good', headers = {}) =>
  service.post(`/v1/dead-letters/${id}/acknowledge`, { reason_code }, headers);

const ALICE = 'tris:alice';
const act = (tris_id: string) =>
  relay(service, [{ tris_id, category: 'financial', action_type: 'swap', criticality: 'High' }]);

test('an undecodable event denies access until it is acknowledged, live and rebuilt alike', async () => {
  await act(ALICE);
  await service.post('/v1/policies/ap', { policy_id: 'AP_KNOWN_V1', rules: { disc_min: 5 } });
  expect((await check(ALICE)).granted).toBe(true);
  const before = await score(ALICE);
  expect(before.incomplete).toBeUndefined();

  const [one, two] = [await plant({ tris_id: ALICE, metric: 7 }), await plant({ tris_id: ALICE, metric: 8 })];
  expect(await score(ALICE)).toMatchObject({ incomplete: true, score: before.score });
  expect(await check(ALICE)).toMatchObject({ granted: false, reasons: [{ actual: 'incomplete', outcome: 'unknown' }] });
  expect(await list('open')).toMatchObject([
    { event_id: one, tris_id: ALICE, event_type: 'ActionRelayed', acknowledged: null },
    { event_id: two, reason: 'its data is not that of ActionRelayed schema 1' },
  ]);

  const first = await acknowledge(one);
  expect([first.status, first.json]).toEqual([
    200,
    expect.objectContaining({
      event_id: one,
      acknowledged: { at: expect.any(String), by: 'key:dev', reason_code: 'lost_for_good' },
    }),
  ]);
  expect((await score(ALICE)).incomplete).toBe(true); // the other one is open
  await acknowledge(two, 'duplicate_of_another');
  const after = await score(ALICE);
  expect(after).toMatchObject({ score: before.score, total_tct: before.total_tct });
  expect(after.incomplete).toBeUndefined();
  expect((await check(ALICE)).granted).toBe(true);
  // As of a position before, it is what it was then.
  const between = first.headers['credence-position'] as string;
  expect((await score(ALICE, `?as_of_position=${between}`)).incomplete).toBe(true);

  expect(await list('open')).toEqual([]);
  expect((await list('acknowledged')).map((letter: { event_id: string }) => letter.event_id)).toEqual([one, two]);
  const { text } = await service.get('/metrics');
  expect(text).not.toMatch(/^credence_dead_letters [1-9]/m);
  const { json } = await service.get(`/v1/disc/score/${ALICE}/history`);
  expect(json.entries.map(({ event_type }: { event_type: string }) => event_type)).toEqual([
    'ActionRelayed',
    'Undecodable',
    'Undecodable',
    'DeadLetterAcknowledged',
    'DeadLetterAcknowledged',
  ]);

  const { eventStore, readModels } = service.stores;
  expect((await verify(eventStore, readModels)).difference).toBeNull();
  const decisions = [];
  for await (const decision of audit(eventStore, ALICE)) decisions.push(decision);
  expect(decisions.map(({ granted, differences }) => [granted, differences])).toEqual([
    [true, []],
    [false, []],
    [true, []],
  ]);
});

test('an event that cannot be decoded is in the tree of the log, and is found by its id', async () => {
  await act(ALICE);
  const id = await plant({ tris_id: ALICE, metric: 7 });
  const [{ position }] = await list('open');
  const { status, json } = await service.get(`/v1/audit/inclusion?event_id=${id}`);
  expect([status, json]).toEqual([200, expect.objectContaining({ position, index: json.size - 1 })]);
  const event = (await service.stores.eventStore.readAt(Number(position.split('.')[1])))!;
  expect(json.leaf).toBe(base64Of(leafOf(event)));
});

test('an access policy whose retirement cannot be read grants nothing, acknowledged or not; its next version does', async () => {
  const subject_tris = 'tris:dora';
  await act(subject_tris);
  const ask = async (policy_id: string) =>
    service.post('/v1/policies/ap/check', { policy_id, subject_tris }, await seen(service));
  const create = (policy_id: string) => service.post('/v1/policies/ap', { policy_id, rules: { disc_min: 5 } });
  await create('AP_ENDED_V1');
  expect((await ask('AP_ENDED_V1')).json.granted).toBe(true);

  const id = await plantEvent(service.stores.eventStore, 'ap-AP_ENDED_V1', 'AccessPolicyRetired', {});
  const refused = await ask('AP_ENDED_V1');
  expect([refused.status, refused.json]).toEqual([
    500,
    expect.objectContaining({
      code: 'history_unreadable',
      detail: `ap-AP_ENDED_V1 cannot be read: its event ${id} is a dead letter; an operator must check it.`,
    }),
  ]);
  expect((await acknowledge(id)).status).toBe(200);
  expect((await ask('AP_ENDED_V1')).json.code).toBe('history_unreadable');
  expect((await service.post('/v1/policies/ap/AP_ENDED_V1/retire')).json.code).toBe('history_unreadable');
  await create('AP_ENDED_V2');
  expect((await ask('AP_ENDED_V2')).json.granted).toBe(true);
});

test('scores under a validation policy whose retirement cannot be read continue; the policy itself is not returned', async () => {
  const policy = policyBody('VP_ENDED_V1', { financial_swap: 'Critical' });
  expect((await service.post('/v1/policies/vp', policy)).status).toBe(201);
  await act(ALICE);
  await plantEvent(service.stores.eventStore, 'vp-VP_ENDED_V1', 'ValidationPolicyRetired', {});
  expect((await score(ALICE, '?vp=VP_ENDED_V1')).lens).toMatchObject({ policy_id: 'VP_ENDED_V1' });
  expect((await service.get('/v1/policies/vp/VP_ENDED_V1')).json.code).toBe('history_unreadable');
});

test('a new statement about an organization counts, even if earlier ones cannot be read', async () => {
  const organization = '/v1/organizations/tris:bank';
  await service.post('/v1/organizations', { tris_org: 'tris:bank', platform_ids: [] });
  await service.post(`${organization}/vet`);
  await plantEvent(service.stores.eventStore, 'organization-tris:bank', 'OrganizationVettingRevoked', {});
  expect((await score('tris:bank')).incomplete).toBe(true);
  expect((await service.post(`${organization}/revoke`)).json).toEqual({ tris_org: 'tris:bank', vetted: false });
});

test('only the first acknowledgement counts: a later one, and a retry, get its answer', async () => {
  const id = await plant({ tris_id: 'tris:bob', metric: 7 });
  const first = await acknowledge(id, 'lost_for_good', { 'idempotency-key': 'ack' });
  const retry = await acknowledge(id, 'lost_for_good', { 'idempotency-key': 'ack' });
  expect([retry.status, retry.text]).toEqual([200, first.text]);
  expect(retry.headers['credence-position']).toBe(first.headers['credence-position']);
  const other = await acknowledge(id, 'something_else');
  expect([other.status, other.text]).toEqual([200, first.text]);
  expect((await acknowledge(id, 'something_else', { 'idempotency-key': 'ack' })).json.code).toBe(
    'idempotency_key_reused',
  );
  expect(await service.stores.eventStore.readStream(`dead-letter-${id}`)).toHaveLength(1);
});

test('an event that is not a dead letter cannot be acknowledged, and nothing is recorded', async () => {
  const { eventStore } = service.stores;
  await act(ALICE);
  const head = await eventStore.head();
  const readable = (await eventStore.readAt(1))!.id;
  for (const id of [readable, randomUUID()]) {
    const { status, json } = await acknowledge(id, 'lost_for_good', { 'idempotency-key': id });
    expect([status, json.code]).toEqual([404, 'not_found']);
  }
  expect((await acknowledge('no-uuid')).status).toBe(400);
  expect((await acknowledge(randomUUID(), 'Free text, with names')).json.errors[0].pointer).toBe('/reason_code');
  expect(await eventStore.head()).toBe(head);
});

test('an event of a newer schema halts the projector there: what was applied is served, with lag', async () => {
  const position = await act('tris:carol');
  const before = (await service.get('/v1/disc/score/tris:carol', { 'credence-min-position': position })).json;
  await service.post('/v1/policies/ap', { policy_id: 'AP_AHEAD_V1', rules: { disc_min: 5 } });
  const newer = await plantAction(service.stores.eventStore, { tris_id: 'tris:carol' }, 99);
  const beyond = await act('tris:carol');
  expect((await service.get('/v1/disc/score/tris:carol')).json.total_tct).toBe(before.total_tct);
  const wait = await service.get('/v1/disc/score/tris:carol', { 'credence-min-position': beyond });
  expect([wait.status, wait.json.code]).toEqual([503, 'projection_behind']);
  const ahead = await plantEvent(service.stores.eventStore, 'ap-AP_AHEAD_V1', 'AccessPolicyAmended', {});
  const undecided = await service.post('/v1/policies/ap/check', { policy_id: 'AP_AHEAD_V1', subject_tris: ALICE });
  expect([undecided.status, undecided.json]).toEqual([
    503,
    expect.objectContaining({
      code: 'newer_schema',
      detail: expect.stringMatching(
        `^The event ${ahead} at .* does not know the type: run a build that is at least as new`,
      ),
    }),
  ]);
  // It is no dead letter: there is nothing to acknowledge, only a newer build to run.
  const refused = await acknowledge(newer);
  expect([refused.status, refused.json.code]).toEqual([404, 'not_found']);
});
