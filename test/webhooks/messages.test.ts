import { randomUUID } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import { accessPolicyCreated } from '../../src/features/access/domain/ap.events.js';
import { WEBHOOK_EVENTS } from '../../src/features/webhooks/domain/webhooks.events.js';
import { Receivers } from '../../src/features/webhooks/receivers.js';
import { StoreUnavailable } from '../../src/stores/ports/event-store.js';
import { parsePosition } from '../../src/kernel/positions.js';
import { plantEvent } from '../contracts/sample-events.js';
import { eventually } from '../contracts/harness.js';
import { OpenApi, type OpenApiDocument } from '../e2e/openapi.js';
import { servedDocument } from '../openapi.mjs';
import { applied, policyBody, relay, seen } from '../policies/service.fixture.js';
import {
  ALL,
  clock,
  service,
  sender,
  receiver,
  path,
  patch,
  create,
  isSignedBy,
  remove,
  act,
  setBad,
  deliveriesOf,
  statusOf,
  pausedWithTwoWaiting,
  OPERATOR,
  LENDCO,
  OTHER,
} from './webhooks.fixture.js';
import type { Received } from './receiver.js';

/** From what is recorded to the messages that arrive, each of which is as the OpenAPI document says. */

let documented: OpenApi;
beforeAll(async () => {
  documented = new OpenApi((await servedDocument()) as OpenApiDocument);
});
afterEach(() => {
  for (const { message } of receiver.received) documented.expectMessage(message);
});

test('the document describes every type of message', async () => {
  expect(Object.keys(documented.document.webhooks).sort()).toEqual([...WEBHOOK_EVENTS, 'webhook.test'].sort());
  const { id } = await create({ events: ['bad_status.changed'] });
  expect((await service.post(`${path}/${id}/test`, {}, LENDCO)).json.delivered).toBe(true);
  await remove(id);
});

test('a webhook tells of ratings, scores, statuses and verifications, signed, in order, and nothing twice', async () => {
  await act('tris:alice');
  await applied(service);
  const { id, secret } = await create({ events: ALL, filter: { score_below: 7, score_above: 6.5 } });
  await setBad('tris:alice', 3);
  await service.post(
    '/v1/identities/tris:alice/verifications',
    { status: 'zk-KYH', evidence_hash: 'a'.repeat(64) },
    OPERATOR,
  );
  await service.delete('/v1/identities/tris:alice/verifications/zk-KYH', OPERATOR);
  await service.delete('/v1/identities/tris:alice/bad-status', OPERATOR);
  await eventually(() => receiver.received.length >= 8);
  const told = (type: string) => receiver.verified(secret, type);
  const score = (await service.get('/v1/disc/score/tris:alice', await seen(service))).json;
  expect(told('bad_status.changed')).toMatchObject([
    { tris_id: 'tris:alice', level: 3, reason_code: 'fraud' },
    { tris_id: 'tris:alice', level: null },
  ]);
  expect(told('rating.changed')).toMatchObject([
    { score: 3, score_rating: 'BAD', previous: { score: score.score, score_rating: 'Poor' } },
    { score: score.score, score_rating: 'Poor', total_tct: score.total_tct, previous: { score: 3 } },
  ]);
  expect(told('score.crossed')).toMatchObject([
    { direction: 'below', threshold: 7, score: 3 },
    { direction: 'above', threshold: 6.5, score: score.score },
  ]);
  expect(told('verification.changed')).toMatchObject([
    { change: 'granted', status: 'zk-KYH', scheme: 'operator' },
    { change: 'revoked', status: 'zk-KYH' },
  ]);
  const positions = receiver.received.map(({ message }) => Number(message.data.position.split('.')[1]));
  expect(positions).toEqual([...positions].sort((a, b) => a - b));
  expect(new Set(receiver.received.map((each) => each.id)).size).toBe(8);
  await eventually(async () => (await statusOf(id))[2] === 0);
  const listed = await deliveriesOf(id);
  expect(listed).toHaveLength(8);
  expect(listed[0]).toMatchObject({
    delivery_id: 'dlv_7',
    status: 'delivered',
    attempts: 1,
    last_attempt: { status: 204 },
  });
  const kept = { name: 'delivery_bytes', used: receiver.received.reduce((sum, { body }) => sum + body.length, 0) };
  const usage = await service.get('/v1/usage', LENDCO);
  expect(usage.json.bounds).toContainEqual(expect.objectContaining(kept));
  await remove(id);
  const after = await service.get('/v1/usage', { ...LENDCO, ...(await seen(service)) });
  expect(after.json.bounds).toContainEqual(expect.objectContaining({ ...kept, used: 0 }));
});

test('a webhook tells that an action was withdrawn, and that it counts again', async () => {
  const { id, secret } = await create({ events: ['action.withdrawn', 'action.reinstated', 'rating.changed'] });
  await act('tris:nina', 'low');
  await act('tris:nina');
  await applied(service);
  const [, { event_id: action_id }] = (await service.get('/v1/disc/score/tris:nina/history', LENDCO)).json.entries;
  for (const [what, reason] of [
    ['withdraw', 'disputed'],
    ['reinstate', 'mistake'],
  ]) {
    expect((await service.post(`/v1/actions/${action_id}/${what}`, { reason }, OPERATOR)).status).toBe(200);
  }
  const action = { tris_id: 'tris:nina', action_id, metric: 'financial_repayment', criticality: 'Critical' };
  const told = (type: string) => receiver.verified(secret, type);
  await eventually(() => told('action.reinstated').length === 1);
  expect(told('action.withdrawn')).toMatchObject([{ ...action, platform_id: 'lender', reason: 'disputed' }]);
  expect(told('action.reinstated')).toMatchObject([{ ...action, platform_id: 'lender', reason: 'mistake' }]);
  await remove(id);
});

test('a webhook tells once which decisions would differ without what was withdrawn, together', async () => {
  const wants = { events: ['decision.would_differ'] };
  const [own, others] = [await create(wants), await create(wants, OTHER)];
  await service.post('/v1/policies/ap', { policy_id: 'AP_DIFFERS_V1', rules: { disc_min: 9 } }, LENDCO);
  await act('tris:differs', 'critical', 4);
  const check = async () => {
    const body = { policy_id: 'AP_DIFFERS_V1', subject_tris: 'tris:differs' };
    return (await service.post('/v1/policies/ap/check', body, { ...LENDCO, ...(await seen(service)) })).json;
  };
  const granted = await check();
  expect(granted.granted).toBe(true);
  const { jti } = JSON.parse(Buffer.from(granted.eligibility_token.split('.')[1], 'base64url').toString());
  const { entries } = (await service.get('/v1/disc/score/tris:differs/history', LENDCO)).json;
  const change = (n: number, what: string) =>
    service.post(`/v1/actions/${entries[n].event_id}/${what}`, { reason: 'mistake' }, OPERATOR);
  const { id, secret } = await create({ events: ['bad_status.changed'] });
  /** Whatever comes next is read for the webhooks after what was recorded before. */
  const told = async (level: number) => {
    await setBad('tris:elsewhere', level);
    await eventually(() => receiver.verified(secret, 'bad_status.changed').some((each: any) => each.level === level));
  };
  expect((await change(0, 'withdraw')).status).toBe(200);
  await told(6);
  for (const n of [1, 2]) expect((await change(n, 'withdraw')).status).toBe(200);
  expect((await check()).granted).toBe(false);
  await told(5);
  expect((await change(3, 'withdraw')).status).toBe(200);
  await told(4);
  await change(2, 'reinstate');
  await change(2, 'withdraw');
  await told(3);
  // No other webhook has sent one: it would have another signature.
  expect(receiver.verified(own.secret, 'decision.would_differ')).toMatchObject([
    { tris_id: 'tris:differs', jti, was: { granted: true }, would_be: { granted: false }, policy_id: 'AP_DIFFERS_V1' },
  ]);
  for (const each of [own.id, id]) await remove(each);
  await remove(others.id, OTHER);
});

test('a score crosses a threshold that it was at before', async () => {
  const { id, secret } = await create({ events: ['score.crossed'], filter: { score_below: 7, score_above: 7 } });
  // A score of 7 is that of an identity without actions.
  await setBad('tris:falls', 3);
  await act('tris:rises');
  const told = () => receiver.verified(secret, 'score.crossed');
  await eventually(() => told().length >= 2);
  const crossed = told().map(({ tris_id, direction, previous }: any) => [tris_id, direction, previous.score]);
  expect(crossed.sort()).toEqual([
    ['tris:falls', 'below', 7],
    ['tris:rises', 'above', 7],
  ]);
  await remove(id);
});

test('a webhook tells two organizations with the same lens the same scores', async () => {
  const body = { events: ['rating.changed'], filter: { tris_ids: ['tris:olga'] } };
  const hooks = [await create(body), await create(body, OTHER)];
  for (const times of [3, 60]) await act('tris:olga', 'critical', times);
  const { total_tct } = (await service.get('/v1/disc/score/tris:olga', await seen(service))).json;
  await setBad('tris:olga', 3);
  const totals = ({ secret }: { secret: string }) =>
    receiver.received
      .filter(({ headers, body }) => isSignedBy(secret, body, headers))
      .map(({ message: { data } }) => data.total_tct);
  await eventually(() => receiver.received.filter(({ message: { data } }) => data.score_rating === 'BAD').length === 2);
  expect(totals(hooks[0]!).at(-1)).toBe(total_tct);
  expect(totals(hooks[1]!)).toEqual(totals(hooks[0]!));
  await remove(hooks[0]!.id);
  await remove(hooks[1]!.id, OTHER);
});

test('a webhook tells the right score of an identity that its filter did not name for some time', async () => {
  const { id } = await create({ events: ['rating.changed'], filter: { tris_ids: ['tris:pia'] } });
  const watch = (tris: string) => patch(id, { filter: { tris_ids: [tris] } });
  await setBad('tris:pia', 5);
  await eventually(() => receiver.received.length === 1);
  await watch('tris:quinn');
  await act('tris:pia', 'critical', 40);
  await setBad('tris:quinn', 5);
  await eventually(() => receiver.received.length === 2);
  const { total_tct } = (await service.get('/v1/disc/score/tris:pia', await seen(service))).json;
  await watch('tris:pia');
  await service.delete('/v1/identities/tris:pia/bad-status', OPERATOR);
  await eventually(() => receiver.received.length === 3);
  expect(receiver.received[2]!.message.data).toMatchObject({
    tris_id: 'tris:pia',
    total_tct,
    previous: { score: 5, total_tct },
  });
  await remove(id);
});

test('a webhook tries again, in order for each identity, while others go on', async () => {
  const tries: string[] = [];
  const { id, secret } = await create({ events: ['bad_status.changed'] });
  sender.retriesMs = [20, 20, 20, 20];
  let failures = 2;
  receiver.answer = ({ message: { data } }, response) => {
    tries.push(`${data.tris_id} ${data.level}`);
    const isRefused = data.tris_id === 'tris:carol' && failures-- > 0;
    response.writeHead(isRefused ? 500 : 200).end();
  };
  for (const level of [6, 5, 4]) for (const tris of ['tris:carol', 'tris:dave']) await setBad(tris, level);
  await eventually(() => tries.length >= 8);
  expect(tries.filter((each) => each.startsWith('tris:carol'))).toEqual(
    [6, 6, 6, 5, 4].map((level) => `tris:carol ${level}`),
  );
  expect(tries.filter((each) => each.startsWith('tris:dave'))).toEqual([6, 5, 4].map((level) => `tris:dave ${level}`));
  const same = receiver.received.filter(({ message: { data } }) => data.tris_id === 'tris:carol' && data.level === 6);
  expect(new Set(same.map((each) => each.id)).size).toBe(1);
  expect(receiver.verified(secret, 'bad_status.changed')).toHaveLength(8);
  await eventually(async () => (await statusOf(id))[2] === 0);
  const first = (await deliveriesOf(id)).find((each: any) => each.payload.data.level === 6 && each.attempts > 1);
  expect(first).toMatchObject({ tris_id: 'tris:carol', status: 'delivered', attempts: 3 });

  // A delivery can be sent again, with the same id and body.
  const again = await service.post(`${path}/${id}/deliveries/${first.delivery_id}/redeliver`, undefined, LENDCO);
  expect(again.json).toMatchObject({ delivered: true, message_id: same[0]!.id });
  expect(receiver.received.at(-1)).toMatchObject({ id: same[0]!.id, body: same[0]!.body });
  const unknown = await service.post(`${path}/${id}/deliveries/dlv_99/redeliver`, undefined, LENDCO);
  expect(unknown.json.code).toBe('delivery_not_found');
  await remove(id);
});

test('a clock that is set back delays no message that waits for its next attempt', async () => {
  sender.retriesMs = [60_000];
  receiver.answer = (_, response) => void response.writeHead(500).end();
  clock.ahead = 86_400_000;
  const { id } = await create({ events: ['bad_status.changed'] });
  try {
    await setBad('tris:ines', 5);
    await eventually(async () => (await deliveriesOf(id))[0]?.attempts === 1);
    clock.ahead = 0;
    receiver.answer = (_, response) => void response.writeHead(204).end();
    await patch(id, { events: ['bad_status.changed', 'rating.changed'] });
    await eventually(async () => (await deliveriesOf(id))[0].status === 'delivered');
  } finally {
    clock.ahead = 0;
    await remove(id);
  }
});

test('a webhook is disabled with a note when a delivery has failed for all its attempts, or the receiver is gone', async () => {
  sender.retriesMs = [10];
  receiver.answer = (_, response) => void response.writeHead(503).end();
  const { id, secret } = await create({ events: ['bad_status.changed'] });
  await setBad('tris:erin', 5);
  await eventually(async () => (await statusOf(id))[0] === 'disabled');
  expect((await statusOf(id))[1]).toBe('failed');
  expect((await deliveriesOf(id))[0]).toMatchObject({ status: 'failed', attempts: 2, last_attempt: { status: 503 } });

  // What happens meanwhile is delivered once it is enabled again.
  await setBad('tris:erin', 4);
  receiver.answer = (_, response) => void response.writeHead(200).end();
  receiver.received.length = 0;
  expect((await patch(id, { status: 'active' })).json).toMatchObject({ status: 'active', disabled_reason: null });
  await eventually(() => receiver.received.length >= 1);
  expect(receiver.verified(secret, 'bad_status.changed')).toMatchObject([{ tris_id: 'tris:erin', level: 4 }]);

  receiver.answer = (_, response) => void response.writeHead(410).end();
  await setBad('tris:erin', 3);
  await eventually(async () => (await statusOf(id))[0] === 'disabled');
  expect((await statusOf(id))[1]).toBe('gone');
  await remove(id);
});

test('a webhook delivers again from a position, with the ids of before', async () => {
  const { id } = await create({ events: ['bad_status.changed'], filter: { tris_ids: ['tris:frank'] } });
  const from = `${service.stores.eventStore.logId}.${await service.stores.eventStore.head()}`;
  await setBad('tris:frank', 5);
  await setBad('tris:grace', 5);
  await setBad('tris:frank', 4);
  await eventually(() => receiver.received.length >= 2);
  const replay = (after: string) => service.post(`${path}/${id}/replay`, { after }, LENDCO);
  expect((await replay('elsewhere.7')).json.code).toBe('position_unknown');
  expect((await replay(from)).status).toBe(202);
  await eventually(() => receiver.received.length >= 4);
  const [first, second, third, fourth] = receiver.received.map((each) => each.id);
  expect([third, fourth]).toEqual([first, second]);
  expect(receiver.received.every(({ message }) => message.data.tris_id === 'tris:frank')).toBe(true);
  await remove(id);
});

test('a webhook tells when an access policy would refuse a watched identity that it would have granted access', async () => {
  const policy = (policy_id: string, by: Record<string, string>) =>
    service.post('/v1/policies/ap', { policy_id, rules: { disc_min: 6.5 } }, by);
  expect((await policy('AP_HOOK_V1', LENDCO)).status).toBe(201);
  expect((await policy('AP_OTHERS_V1', OTHER)).status).toBe(201);
  const events = ['access.denied_now'];
  const watched = { events, filter: { tris_ids: ['tris:ivan'] }, policy_id: 'AP_HOOK_V1' };
  const refused = async (body: object) => {
    const { json } = await service.post(path, { url: receiver.url, ...watched, ...body }, LENDCO);
    return json.errors?.[0]?.pointer ?? json.code;
  };
  expect(await refused({ policy_id: undefined })).toBe('/policy_id');
  expect(await refused({ filter: undefined })).toBe('/filter/tris_ids');
  expect(await refused({ policy_id: 'AP_OTHERS_V1' })).toBe('forbidden');
  expect(await refused({ policy_id: 'AP_NONE_V1' })).toBe('policy_not_found');
  expect((await policy('AP_RETIRED_V1', LENDCO)).status).toBe(201);
  const retiring = { url: receiver.url, ...watched, policy_id: 'AP_RETIRED_V1' };
  const key = { ...LENDCO, 'idempotency-key': 'before-it-is-retired' };
  const early = (await service.post(path, retiring, key)).json;
  const change = () => patch(early.webhook_id, { policy_id: 'AP_RETIRED_V1' }, key);
  expect((await change()).status).toBe(200);
  expect((await service.post('/v1/policies/ap/AP_RETIRED_V1/retire', {}, LENDCO)).status).toBe(200);
  expect(await refused({ policy_id: 'AP_RETIRED_V1' })).toBe('policy_retired');
  expect((await service.post(path, retiring, key)).json).toEqual(early);
  expect((await change()).status).toBe(200);
  expect((await patch(early.webhook_id, { policy_id: 'AP_RETIRED_V1' })).json.code).toBe('policy_retired');
  await remove(early.webhook_id);

  const { id, secret } = await create(watched);
  await act('tris:judy');
  await act('tris:ivan', 'critical', 2);
  await setBad('tris:judy', 3);
  await setBad('tris:ivan', 4);
  await setBad('tris:ivan', 3);
  await service.delete('/v1/identities/tris:ivan/bad-status', OPERATOR);
  await setBad('tris:ivan', 5);
  await eventually(() => receiver.received.length >= 2);
  expect(receiver.verified(secret, 'access.denied_now')).toMatchObject([
    {
      tris_id: 'tris:ivan',
      policy_id: 'AP_HOOK_V1',
      score: 4,
      reasons: [{ rule: 'disc_min', outcome: 'failed' }],
      codes: ['bad_status'],
    },
    { tris_id: 'tris:ivan', score: 5 },
  ]);
  await remove(id);
});

test('a webhook tells of promotions for the platform and for its own organization, whose lens it uses from then on', async () => {
  const { id, secret } = await create({ events: ['policy.promoted', 'rating.changed'] });
  const promote = async (policyId: string, org: string, by: Record<string, string>) => {
    await service.post('/v1/policies/vp', policyBody(policyId, { finance_repayment: 'Critical' }, org), by);
    const headers = { ...by, ...(await seen(service)) };
    const { status } = await service.post(`/v1/policies/vp/${policyId}/promote`, { scope: 'organization' }, headers);
    expect(status).toBe(200);
  };
  await promote('VP_OTHER_V1', 'tris:other', OTHER);
  await promote('VP_LENDCO_V1', 'tris:lendco', LENDCO);
  await eventually(() => receiver.received.length >= 1);
  expect(receiver.verified(secret, 'policy.promoted')).toMatchObject([
    { scope: 'organization', tris_org: 'tris:lendco', what: 'lens', active: { policy_id: 'VP_LENDCO_V1' } },
  ]);
  await setBad('tris:kate', 2);
  await eventually(() => receiver.received.length >= 2);
  expect(receiver.verified(secret, 'rating.changed')).toMatchObject([
    { tris_id: 'tris:kate', score_rating: 'BAD', lens: { policy_id: 'VP_LENDCO_V1' } },
  ]);
  await remove(id);
});

test('a webhook loses nothing when the job stops, and continues where it was', async () => {
  const { id } = await create({ events: ['bad_status.changed'] });
  await setBad('tris:heidi', 5);
  await eventually(() => receiver.received.length === 1);
  const { jobs } = service.stores;
  await jobs.cancel('webhooks', 'dispatch');
  await setBad('tris:heidi', 4);
  await jobs.retry('webhooks', 'dispatch');
  await eventually(() => receiver.received.length >= 2);
  expect(receiver.received.map(({ message }) => message.data.level)).toEqual([5, 4]);
  await remove(id);
});

test('others get their messages although a webhook, or the policy that one watches, has an event that cannot be decoded', async () => {
  const damage = async (stream: string, type: string) => {
    const { eventStore } = service.stores;
    const history = await eventStore.readStream(stream);
    const metadata = { ...history.at(-1)!.metadata, schema: 1 };
    await eventStore.append(stream, history.length - 1, [{ id: randomUUID(), type, data: {}, metadata }]);
  };
  await service.post('/v1/policies/ap', { policy_id: 'AP_DAMAGED_V1', rules: { disc_min: 6.5 } }, LENDCO);
  const sound = await create({ events: ['bad_status.changed'], filter: { tris_ids: ['tris:mike'] } });
  const damaged = await create({ events: ['bad_status.changed'] });
  const filter = { tris_ids: ['tris:mike'] };
  const waiting = await create({ events: ['access.denied_now'], filter, policy_id: 'AP_DAMAGED_V1' });
  await act('tris:mike');
  await setBad('tris:mike', 5);
  await eventually(() => receiver.received.length >= 2);
  await service.stores.jobs.cancel('webhooks', 'dispatch');
  await damage(`webhook-${damaged.id}`, 'WebhookChanged');
  await damage('ap-AP_DAMAGED_V1', 'AccessPolicyRetired');
  receiver.received.length = 0;
  await service.stores.jobs.retry('webhooks', 'dispatch');
  await setBad('tris:mike', 4);
  await setBad('tris:mike', 3);
  await eventually(() => receiver.received.length >= 2);
  expect(receiver.verified(sound.secret, 'bad_status.changed')).toMatchObject([{ level: 4 }, { level: 3 }]);
  await remove(sound.id);
  await remove(waiting.id);
});

test('others get their messages although a newer build made the policy that a webhook watches', async () => {
  const { eventStore } = service.stores;
  const filter = { tris_ids: ['tris:newt'] };
  const future = {
    policy_id: 'AP_FUTURE_V1',
    rules: { karma_min: 3 },
    ttl_seconds: 60,
    vp: null,
    visibility: 'private',
  };
  const planted = { ...future, owner: 'tris:lendco', content_hash: 'f'.repeat(64) };
  const schema = accessPolicyCreated.schema;
  await plantEvent(eventStore, 'ap-AP_FUTURE_V1', 'AccessPolicyCreated', planted, schema);
  await act('tris:newt');
  const check = { policy_id: 'AP_FUTURE_V1', subject_tris: 'tris:newt' };
  const checked = await service.post('/v1/policies/ap/check', check, LENDCO);
  expect([checked.status, checked.json.code]).toEqual([503, 'newer_schema']);

  const sound = await create({ events: ['bad_status.changed'], filter });
  const waiting = await create({ events: ['access.denied_now'], filter, policy_id: 'AP_FUTURE_V1' });
  await setBad('tris:newt', 5);
  await eventually(() => receiver.received.length === 1);
  await applied(service);
  expect(receiver.received.map(({ message }) => message.data.level)).toEqual([5]);
  for (const { id } of [sound, waiting]) await remove(id);
});

test('a webhook tells what precedes an event of a newer build, and what follows it once a build can read it', async () => {
  const { eventStore, jobs } = service.stores;
  const { id } = await create({ events: ['bad_status.changed'] });
  await act('tris:nova');
  await eventually(async () => (await statusOf(id))[0] === 'active');
  await jobs.cancel('webhooks', 'dispatch');
  await setBad('tris:nova', 5);
  const newer = (await setBad('tris:later', 4)).headers['credence-position'];
  await setBad('tris:nova', 3);
  await applied(service);
  const position = parsePosition(newer as string, eventStore.logId);
  const { readAll } = eventStore;
  eventStore.readAll = async function* (after, options) {
    for await (const slice of readAll.call(eventStore, after, options)) {
      yield slice.map((event) => (event.position === position ? { ...event, type: 'IdentityMoved' } : event));
    }
  };
  await jobs.retry('webhooks', 'dispatch');
  await eventually(() => receiver.received.length === 1);
  expect(receiver.received[0]!.message.data.level).toBe(5);
  eventStore.readAll = readAll;
  clock.ahead += 60_000;
  await eventually(() => receiver.received.length === 3);
  expect(receiver.received.map(({ message }) => message.data.level).sort()).toEqual([3, 4, 5]);
  await remove(id);
});

test('a webhook gets no messages from the time that an event of its own cannot be decoded', async () => {
  const [sound, damaged] = [
    await create({ events: ['bad_status.changed'] }),
    await create({ events: ['bad_status.changed'] }),
  ];
  await act('tris:olga');
  await setBad('tris:olga', 5);
  await eventually(() => receiver.received.length >= 2);
  await plantEvent(service.stores.eventStore, `webhook-${damaged.id}`, 'WebhookChanged', {});
  receiver.received.length = 0;
  await setBad('tris:olga', 4);
  await setBad('tris:olga', 3);
  await eventually(() => receiver.received.length >= 2);
  expect(receiver.verified(sound.secret, 'bad_status.changed')).toMatchObject([{ level: 4 }, { level: 3 }]);
  await remove(sound.id);
});

test('a webhook keeps what waits for as long as it is paused', async () => {
  const id = await pausedWithTwoWaiting('tris:laura');
  await applied(service);
  const { jobs } = service.stores;
  await jobs.cancel('webhooks', 'dispatch');
  const days = 30 * 86_400_000;
  clock.ahead += days;
  receiver.received.length = 0;
  receiver.answer = (_, response) => void response.writeHead(204).end();
  expect(await deliveriesOf(id)).toMatchObject([
    { delivery_id: 'dlv_1', status: 'pending' },
    { delivery_id: 'dlv_0', status: 'pending' },
  ]);
  await patch(id, { status: 'active' });
  await jobs.retry('webhooks', 'dispatch');
  await eventually(() => receiver.received.length >= 2);
  expect(receiver.received.map(({ message }) => message.data.level)).toEqual([5, 4]);
  await eventually(async () =>
    (await deliveriesOf(id)).every(({ status }: { status: string }) => status === 'delivered'),
  );
  await remove(id);
  clock.ahead -= days;
});

test('a webhook delivers what follows in the log, although an older copy has replaced it', async () => {
  const { id } = await create({ events: ['bad_status.changed'] });
  await setBad('tris:uma', 5);
  await eventually(async () => receiver.received.length === 1 && (await statusOf(id))[2] === 0);
  const { jobs, keyValue } = service.stores;
  await jobs.cancel('webhooks', 'dispatch');
  // As of the log that was replaced, which was longer.
  const progress = async () => (await keyValue.get(`webhook:{${id}}`)) as { position: number };
  const { position, ...rest } = await progress();
  await keyValue.put(`webhook:{${id}}`, { ...rest, position: position + 1_000 }, 60_000);
  await jobs.retry('webhooks', 'dispatch');
  await eventually(async () => (await progress()).position === position);
  await setBad('tris:uma', 4);
  await eventually(() => receiver.received.length === 2);
  expect(receiver.received[1]!.message.data).toMatchObject({ tris_id: 'tris:uma', level: 4 });
  await remove(id);
});

/** Lets the next call of a method fail whose first argument is this. */
function failOnce<T extends object>(store: T, method: keyof T & string, first: string): void {
  const target = store as Record<string, unknown>;
  const original = target[method] as (...args: unknown[]) => unknown;
  target[method] = (...args: unknown[]) => {
    if (args[0] !== first) return original.apply(store, args);
    delete target[method];
    return Promise.reject(new StoreUnavailable('the store is away'));
  };
}

test('a webhook sends what it has stored although the store of its progress was away', async () => {
  const { id } = await create({ events: ['bad_status.changed'] });
  await applied(service);
  await setBad('tris:rosa', 5);
  await eventually(() => receiver.received.length === 1);
  await eventually(async () => (await statusOf(id))[2] === 0);
  failOnce(service.stores.keyValue, 'replace', `webhook:{${id}}`);
  await setBad('tris:rosa', 4);
  await eventually(() => receiver.received.length === 2);
  await eventually(async () => (await statusOf(id))[2] === 0);
  await remove(id);
});

test('a webhook stores an outcome once the store is back', async () => {
  const { id } = await create({ events: ['bad_status.changed'] });
  receiver.answer = (_, response) => {
    failOnce(service.stores.keyValue, 'replace', `webhook:{${id}}:0`);
    response.writeHead(204).end();
  };
  await setBad('tris:sam', 5);
  await eventually(async () => (await deliveriesOf(id))[0]?.status === 'delivered');
  expect(await deliveriesOf(id)).toMatchObject([{ status: 'delivered', attempts: 1 }]);
  await remove(id);
});

test('a webhook whose receiver is gone is disabled once the log is back', async () => {
  const { id } = await create({ events: ['bad_status.changed'] });
  receiver.answer = (_, response) => {
    failOnce(service.stores.eventStore, 'append', `webhook-${id}`);
    response.writeHead(410).end();
  };
  await setBad('tris:tina', 5);
  await eventually(async () => (await statusOf(id))[0] === 'disabled');
  await remove(id);
});

/** What a worker that has taken the job over stores, while this one still waits for the answer of a receiver. */
describe('a worker that has lost its job', () => {
  let id: string;
  /** Lets the receiver answer the first message. */
  let answerFirst: (status: number) => void;
  const entry = (n?: number) => `webhook:{${id}}${n === undefined ? '' : `:${n}`}`;
  const stored = async (n?: number): Promise<any> => service.stores.keyValue.get(entry(n));
  const store = async (n: number | undefined, value: any) => service.stores.keyValue.put(entry(n), value, 3_600_000);
  const delivered = {
    status: 'delivered',
    attempts: 1,
    next_at: null,
    last: { status: 204, failure: null, ms: 1, at: 1 },
  };

  beforeEach(async () => {
    sender.retriesMs = [60_000];
    // Another level each time: the same again records nothing.
    await service.delete('/v1/identities/tris:wanda/bad-status', OPERATOR);
    ({ id } = await create({ events: ['bad_status.changed'], filter: { tris_ids: ['tris:wanda', 'tris:xena'] } }));
    const held: ServerResponse[] = [];
    answerFirst = (status) => void held[0]!.writeHead(status).end();
    receiver.answer = (_, response) => {
      if (receiver.received.length === 1) held.push(response);
      else response.writeHead(204).end();
    };
    await setBad('tris:wanda', 5);
    await eventually(() => held.length === 1);
    await applied(service);
    await eventually(async () => (await stored()).position === (await service.stores.eventStore.head()));
  });
  afterEach(() => remove(id));

  test('leaves what the next one has stored', async () => {
    const first = await stored(0);
    const next = { ...first, n: 1, message_id: 'msg_next', ...delivered };
    await store(0, { ...first, ...delivered });
    await store(1, next);
    await store(undefined, { ...(await stored()), next: 2, open: [] });
    await setBad('tris:xena', 4);
    await eventually(() => receiver.received.length === 2);
    answerFirst(500);
    await eventually(async () => (await deliveriesOf(id))[0]?.status === 'delivered');
    expect(await stored(0)).toEqual({ ...first, ...delivered });
    expect(await stored(1)).toEqual(next);
    expect(await stored(2)).toMatchObject({ tris_id: 'tris:xena', message_id: receiver.received[1]!.id });
    await eventually(async () => (await statusOf(id))[2] === 0);
    expect((await stored()).next).toBe(3);
    // The lane goes on.
    await setBad('tris:wanda', 3);
    await eventually(() => receiver.received.length === 3);
    expect(receiver.received[2]!.message.data).toMatchObject({ tris_id: 'tris:wanda', level: 3 });
  });

  test('does not disable a webhook whose message the next one has delivered', async () => {
    await store(0, { ...(await stored(0)), ...delivered });
    answerFirst(410);
    await setBad('tris:wanda', 4);
    await eventually(() => receiver.received.length === 2);
    await eventually(async () => (await statusOf(id))[2] === 0);
    expect(await statusOf(id)).toEqual(['active', null, 0]);
    expect(await stored(0)).toMatchObject(delivered);
  });

  test('goes on by the attempt that the next one has stored', async () => {
    await store(0, {
      ...(await stored(0)),
      attempts: 1,
      next_at: Date.now() + clock.ahead + 300,
      last: delivered.last,
    });
    sender.retriesMs = [3_600_000];
    answerFirst(500);
    await eventually(() => receiver.received.length === 2);
    expect(receiver.received[1]!.id).toBe(receiver.received[0]!.id);
    await eventually(async () => (await stored(0)).status === 'delivered');
    expect(await stored(0)).toMatchObject({ attempts: 2 });
  });
});

/** Stops the job, changes what is stored, and starts the job again. */
async function whileStopped(change: () => Promise<void>): Promise<void> {
  const { jobs } = service.stores;
  await jobs.cancel('webhooks', 'dispatch');
  await change();
  await jobs.retry('webhooks', 'dispatch');
}

test('a webhook does not send again what a worker had sent, but not counted, when it was killed', async () => {
  const { id } = await create({ events: ['bad_status.changed'], filter: { tris_ids: ['tris:yves'] } });
  const { keyValue } = service.stores;
  await eventually(async () => (await keyValue.get(`webhook:{${id}}`)) !== undefined);
  const before = (await keyValue.get(`webhook:{${id}}`))!;
  await setBad('tris:yves', 5);
  await eventually(async () => (await deliveriesOf(id))[0]?.status === 'delivered');
  await whileStopped(() => keyValue.put(`webhook:{${id}}`, before, 3_600_000));
  await setBad('tris:yves', 4);
  await eventually(() => receiver.received.length >= 2);
  expect(receiver.received.map(({ message }) => message.data.level)).toEqual([5, 4]);
  expect(await deliveriesOf(id)).toHaveLength(2);
  await remove(id);
});

test('the number of a message that is not told any more since a worker was killed is used again', async () => {
  const { id } = await create({ events: ['bad_status.changed'], filter: { tris_ids: ['tris:zoe'] } });
  const { keyValue } = service.stores;
  await setBad('tris:zoe', 5);
  await eventually(async () => (await statusOf(id))[2] === 0 && receiver.received.length === 1);
  await whileStopped(async () => {
    const sent = (await keyValue.get(`webhook:{${id}}:0`)) as object;
    await keyValue.put(`webhook:{${id}}:1`, { ...sent, n: 1, message_id: 'msg_other' }, 3_600_000);
  });
  await setBad('tris:zoe', 4);
  await eventually(() => receiver.received.length === 2);
  await eventually(async () => (await deliveriesOf(id))[0]?.status === 'delivered');
  expect(await deliveriesOf(id)).toMatchObject([
    { delivery_id: 'dlv_1', message_id: receiver.received[1]!.id },
    { delivery_id: 'dlv_0' },
  ]);
  await remove(id);
});

test('what still waits is not delivered once more', async () => {
  const id = await pausedWithTwoWaiting('tris:mary');
  const { status, json } = await service.post(`${path}/${id}/deliveries/dlv_0/redeliver`, undefined, LENDCO);
  expect([status, json.code]).toEqual([409, 'delivery_pending']);
  await remove(id);
});

test('a webhook leaves nothing that waits when it is deleted', async () => {
  const id = await pausedWithTwoWaiting('tris:nina');
  await remove(id);
  const stored = () => Promise.all(['', ':0', ':1'].map((key) => service.stores.keyValue.get(`webhook:{${id}}${key}`)));
  await eventually(async () => (await stored()).every((value) => value === undefined));
});

test('messages go on about an identity that is known only by an action of the next hour', async () => {
  const nextHour = Math.ceil(Date.now() / 3_600_000) * 3_600_000;
  clock.ahead = nextHour - 50_000 - Date.now();
  try {
    const occurred_at = new Date(nextHour + 5_000).toISOString();
    const action = { category: 'financial', action_type: 'repayment', criticality: 'critical', occurred_at };
    await relay(service, [{ tris_id: 'tris:soon', ...action }], OPERATOR);
    await service.post('/v1/policies/ap', { policy_id: 'AP_SOON_V1', rules: { disc_min: 7 } }, LENDCO);
    const filter = { tris_ids: ['tris:soon'] };
    const events = ['rating.changed', 'access.denied_now'];
    const { id } = await create({ events, filter, policy_id: 'AP_SOON_V1' });
    await setBad('tris:soon', 3);
    await eventually(() => receiver.received.length > 0);
    expect(Date.now() + clock.ahead).toBeLessThan(nextHour);
    const [{ message }] = receiver.received as [Received];
    expect(message).toMatchObject({ type: 'rating.changed', data: { score: 3, previous: { score: 7.9 } } });
    await remove(id);
  } finally {
    clock.ahead = 0;
  }
});

/** The last test: what it stops is not started again. */
test('an attempt that the end of the process has interrupted does not count', async () => {
  sender.retriesMs = [];
  receiver.answer = () => undefined;
  const { id } = await create({ events: ['bad_status.changed'], filter: { tris_ids: ['tris:ada'] } });
  await setBad('tris:ada', 5);
  await eventually(() => receiver.received.length === 1);
  receiver.answer = (_, response) => void response.writeHead(204).end();
  service.app.get(Receivers, { strict: false }).onApplicationShutdown();
  await whileStopped(() => Promise.resolve());
  await eventually(async () => (await statusOf(id))[2] === 0);
  expect(await deliveriesOf(id)).toMatchObject([{ status: 'delivered', attempts: 1 }]);
  expect((await statusOf(id))[0]).toBe('active');
  await remove(id);
});
