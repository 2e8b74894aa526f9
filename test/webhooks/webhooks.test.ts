import { Webhook } from 'standardwebhooks';
import { deleteText, keptText } from '../../src/commands/kept-texts.js';
import { SigningKeys, signingKeyFile } from '../../src/credentials/signing-keys.js';
import { Signatures } from '../../src/features/webhooks/signatures.js';
import { WebhookLimit } from '../../src/features/webhooks/webhook-limit.js';
import { sha256Hex } from '../../src/kernel/hash.js';
import type { Problem } from '../../src/kernel/problems.js';
import { Views } from '../../src/read-side/views.js';
import { eventually } from '../contracts/harness.js';
import { applied, seen } from '../policies/service.fixture.js';
import {
  ALL,
  service,
  receiver,
  path,
  patch,
  create,
  isSignedBy,
  remove,
  OPERATOR,
  LENDCO,
  OTHER,
  BUSY,
  UNBOUND,
} from './webhooks.fixture.js';

/** The requests that create, change and delete webhooks. */

test('a webhook is its own organization’s, listed for operators, too, and its secret is in no log', async () => {
  const { id, secret } = await create({ events: ALL, filter: { score_below: 5 } });
  for (const by of [OTHER, OPERATOR]) {
    expect((await service.get(`${path}/${id}`, by)).json.code).toBe('webhook_not_found');
    expect((await patch(id, { status: 'disabled' }, by)).json.code).toBe('webhook_not_found');
    expect((await remove(id, by)).json.code).toBe('webhook_not_found');
    for (const action of ['rotate-secret', 'test']) {
      expect((await service.post(`${path}/${id}/${action}`, undefined, by)).json.code).toBe('webhook_not_found');
    }
  }
  expect((await service.get(path, { ...OTHER, ...(await seen(service)) })).json.webhooks).toEqual([]);
  const own = (await service.get(path, { ...LENDCO, ...(await seen(service)) })).json.webhooks;
  expect(own).toEqual([expect.objectContaining({ webhook_id: id, url: receiver.url, status: 'active' })]);
  expect(own[0]).not.toHaveProperty('secret');
  const of = async (by: Record<string, string>) => service.get(`${path}?tris_org=tris:lendco`, by);
  for (const by of [LENDCO, OPERATOR]) expect((await of(by)).json.webhooks).toEqual(own);
  expect((await of(OTHER)).json).toMatchObject({
    code: 'forbidden',
    detail: 'The webhooks of tris:lendco are for its own keys, and for operators.',
  });
  let log = '';
  for await (const slice of service.stores.eventStore.readAll(0)) log += JSON.stringify(slice);
  expect(log).toContain(id);
  expect(log).not.toContain(secret.slice('whsec_'.length));
  expect(log).not.toContain(new URL(receiver.url).port + '/hook');

  // For a day both secrets verify.
  const rotated = (await service.post(`${path}/${id}/rotate-secret`, undefined, LENDCO)).json.secret;
  expect(rotated).not.toBe(secret);
  const test = await service.post(`${path}/${id}/test`, undefined, LENDCO);
  expect(test.json).toMatchObject({ delivered: true, status: 204, failure: null });
  for (const each of [secret, rotated]) expect(receiver.verified(each, 'webhook.test')).toEqual([{ webhook_id: id }]);
  const [{ body, headers }] = receiver.received as [(typeof receiver.received)[number]];
  expect(() => new Webhook(`whsec_${Buffer.alloc(32).toString('base64')}`).verify(body, headers)).toThrow();
  await remove(id);
  expect((await service.get(`${path}/${id}`, LENDCO)).status).toBe(404);
});

describe('the end of the key from which secrets follow', () => {
  const file = () => signingKeyFile(service.config);
  const changedAt = async (id: string) => (await service.get(`${path}/${id}`, LENDCO)).json.rotated_at;
  /** Of a message sent now. */
  async function areSigningNow(id: string, ...secrets: string[]): Promise<boolean[]> {
    receiver.received.length = 0;
    expect((await service.post(`${path}/${id}/test`, undefined, LENDCO)).json.delivered).toBe(true);
    const [{ body, headers }] = receiver.received as [(typeof receiver.received)[number]];
    // As their receiver does whose clock is right.
    return secrets.map((secret) => isSignedBy(secret, body, headers));
  }
  async function revoke(id: string, keepsFormer: boolean): Promise<void> {
    const before = await changedAt(id);
    const { kid } = file()
      .list(Date.now())
      .find(({ status }) => status === 'signing')!;
    await file().revoke(kid, Date.now(), keepsFormer);
    await eventually(async () => (await changedAt(id)) !== before, 'the owner sees it');
  }

  test('the secrets end with a key that was stolen, and owners see when', async () => {
    const { id, secret } = await create({ events: ['policy.promoted'] });
    expect([await areSigningNow(id, secret), await changedAt(id)]).toEqual([[true], null]);
    const from = new Date().toISOString();
    await revoke(id, false);
    expect((await changedAt(id)) >= from).toBe(true);
    expect(await areSigningNow(id, secret)).toEqual([false]);
    const { json } = await service.post(`${path}/${id}/rotate-secret`, undefined, LENDCO);
    expect(await areSigningNow(id, secret, json.secret)).toEqual([false, true]);
    await remove(id);
  });

  test('with an overlap they sign for a day more, also once their owners have fetched new ones', async () => {
    const { id, secret } = await create({ events: ['policy.promoted'] });
    await revoke(id, true);
    // Other changes of the file keep it.
    await file().rotate(Date.now(), 600_000);
    expect(await areSigningNow(id, secret)).toEqual([true]);
    const { json } = await service.post(`${path}/${id}/rotate-secret`, undefined, LENDCO);
    expect(await areSigningNow(id, secret, json.secret)).toEqual([true, true]);
    // Another one that was stolen ends both.
    await revoke(id, false);
    expect(await areSigningNow(id, secret, json.secret)).toEqual([false, false]);
    await remove(id);
  });

  test('after a day the former secret ends', async () => {
    const { id } = await create({ events: ['policy.promoted'] });
    let now = Date.now();
    const webhook = { webhook_id: id, rotation: 0, rotated_at: null };
    const count = (signatures: Signatures) =>
      signatures.headersOf(webhook, 'msg', '{}')['webhook-signature']!.split(' ').length;
    const signatures = () => new Signatures(new SigningKeys(service.config), () => now);
    expect(count(signatures())).toBe(1);
    // The service has seen it, too: no later test gets another secret while it runs.
    await revoke(id, true);
    const later = signatures();
    expect(count(later)).toBe(2);
    now = Date.now() + 86_400_001;
    expect(count(later)).toBe(1);
    await remove(id);
  });
});

test('a webhook is created once for an Idempotency-Key, with the same secret', async () => {
  const body = { url: receiver.url, events: ['rating.changed'] };
  const headers = { ...LENDCO, 'idempotency-key': 'one' };
  const [first, again] = [await service.post(path, body, headers), await service.post(path, body, headers)];
  expect([again.status, again.json.webhook_id, again.json.secret]).toEqual([
    201,
    first.json.webhook_id,
    first.json.secret,
  ]);
  const other = await service.post(path, { ...body, events: ['policy.promoted'] }, headers);
  expect(other.json.code).toBe('idempotency_key_reused');
  await remove(first.json.webhook_id);
});

test('a retry of the creation does not store a deleted URL again', async () => {
  const url = `${receiver.url}/deleted`;
  const by = { ...LENDCO, 'idempotency-key': 'create-and-delete' };
  const body = { url, events: ['policy.promoted'] };
  const { id } = await create(body, by);
  await deleteText(service.stores.keyValue, sha256Hex(url));
  expect((await create(body, by)).id).toBe(id);
  expect((await service.get(`${path}/${id}`, LENDCO)).json.url).toBeNull();
  await remove(id);
});

test('a retry of a change does not store a deleted URL again', async () => {
  const { id } = await create({ events: ['policy.promoted'] });
  const url = `${receiver.url}/changed`;
  const change = () => patch(id, { url }, { ...LENDCO, 'idempotency-key': 'change-and-delete' });
  expect((await change()).json.url).toBe(url);
  await deleteText(service.stores.keyValue, sha256Hex(url));
  const { status, headers, json } = await change();
  expect([status, headers['idempotency-replayed'], json.url]).toEqual([200, 'true', null]);
  // Setting it again is another request.
  expect((await patch(id, { url })).json.url).toBe(url);
  await remove(id);
});

test('a retry of the deletion gets the first answer again, any other is refused', async () => {
  const { id } = await create({ events: ['policy.promoted'] });
  const deletion = (key: string, by = LENDCO) => remove(id, { ...by, 'idempotency-key': key });
  const [first, again, another, others] = [
    await deletion('delete'),
    await deletion('delete'),
    await deletion('delete-again'),
    await deletion('delete', OTHER),
  ];
  expect([first.status, again.status, another.status, others.status]).toEqual([200, 200, 404, 404]);
  expect([again.text, again.headers['credence-position']]).toEqual([first.text, first.headers['credence-position']]);
});

test('nothing is recorded of a webhook after its deletion, although it was asked for at the same time', async () => {
  for (let round = 0; round < 5; round++) {
    const { id } = await create({ events: ['bad_status.changed'] });
    const after = `${service.stores.eventStore.logId}.1`;
    const answers = await Promise.all([
      remove(id),
      patch(id, { status: 'disabled' }),
      service.post(`${path}/${id}/rotate-secret`, undefined, LENDCO),
      service.post(`${path}/${id}/replay`, { after }, LENDCO),
    ]);
    const events = await service.stores.eventStore.readStream(`webhook-${id}`);
    expect(events.at(-1)!.type).toBe('WebhookDeleted');
    const [, ...others] = answers.map(({ status, json }) => (status === 404 ? json.code : status));
    expect(others).toEqual(others.map(() => 'webhook_not_found'));
  }
});

test('a webhook is refused with a pointer to what is wrong', async () => {
  const valid = { url: receiver.url, events: ['rating.changed'] };
  const cases: [object, string][] = [
    [{ ...valid, url: 'http://lender.example/' }, '/url webhook_url'],
    [{ ...valid, url: 'https://10.0.0.1/' }, '/url webhook_url'],
    [{ ...valid, events: [] }, '/events array_min_size'],
    [{ ...valid, events: ['everything'] }, '/events/0 is_in'],
    [{ ...valid, events: ['score.crossed'] }, '/filter required'],
    [{ ...valid, filter: { ratings: ['Splendid'] } }, '/filter/ratings/0 is_in'],
    [{ ...valid, filter: { score_below: 101 } }, '/filter/score_below max'],
    [{ ...valid, filter: { tris_ids: ['alice'] } }, '/filter/tris_ids/0 tris_id'],
    [{ ...valid, secret: 'mine' }, '/secret unknown_field'],
  ];
  for (const [body, expected] of cases) {
    const { status, json } = await service.post(path, body, LENDCO);
    expect([status, `${json.errors?.[0]?.pointer} ${json.errors?.[0]?.code}`]).toEqual([400, expected]);
  }
});

test('a change that is refused does not store its URL', async () => {
  const { id } = await create({ events: ['bad_status.changed'] });
  const change = (url: string) => patch(id, { url }, { ...LENDCO, 'idempotency-key': 'change' });
  expect((await change(`${receiver.url}/first`)).status).toBe(200);
  expect((await change(`${receiver.url}/second`)).json.code).toBe('idempotency_key_reused');
  const stored = (path: string) => keptText(service.stores.keyValue, sha256Hex(`${receiver.url}/${path}`));
  expect([await stored('first'), await stored('second')]).toEqual([`${receiver.url}/first`, null]);
  await remove(id);
});

test('changes at the same time together leave no webhook that could not be created', async () => {
  for (let n = 0; n < 10; n++) {
    const { id } = await create({ events: ['rating.changed'], filter: { score_below: 50 } });
    await Promise.all([patch(id, { filter: {} }), patch(id, { events: ['score.crossed'] })]);
    const { events, filter } = (await service.get(`${path}/${id}`, LENDCO)).json;
    expect(events[0] !== 'score.crossed' || filter.score_below === 50).toBe(true);
    await remove(id);
  }
});

test.each(['decision.would_differ', 'dispute.opened', 'dispute.answered'])(
  'what only parties may read is for keys of an organization and for operators: %s',
  async (event) => {
    const ofOperators = { url: receiver.url, events: [event] };
    const make = async (body: object, by: Record<string, string>) => (await service.post(path, body, by)).json;
    expect((await make(ofOperators, UNBOUND)).code).toBe('forbidden');
    const { webhook_id } = await make(ofOperators, OPERATOR);
    expect((await patch(webhook_id, { url: receiver.url }, UNBOUND)).json.code).toBe('forbidden');
    expect((await service.get(`${path}/${webhook_id}/deliveries`, UNBOUND)).json.code).toBe('forbidden');
    expect((await service.post(`${path}/${webhook_id}/rotate-secret`, undefined, UNBOUND)).json.code).toBe('forbidden');
    const other = await make({ ...ofOperators, events: ['rating.changed'] }, UNBOUND);
    expect((await patch(other.webhook_id, { events: [event] }, UNBOUND)).json.code).toBe('forbidden');
    for (const id of [webhook_id, other.webhook_id]) await remove(id, OPERATOR);
    const { webhook_id: own } = await make(ofOperators, LENDCO);
    await remove(own);
  },
);

test('webhooks are at most 100 for an organization, also if they are created at the same time', async () => {
  const one = (n: number) =>
    service.post(path, { url: receiver.url, events: ['policy.promoted'] }, { ...BUSY, 'idempotency-key': `hook-${n}` });
  const answers = await Promise.all(Array.from({ length: 110 }, (_, n) => one(n)));
  const codes = answers.map(({ status, json }) => (status === 201 ? 'created' : json.code));
  expect(codes.filter((code) => code === 'created')).toHaveLength(100);
  expect(codes.filter((code) => code === 'too_many_webhooks')).toHaveLength(10);
  const [created, refused] = [codes.indexOf('created'), codes.indexOf('too_many_webhooks')];
  await applied(service);
  expect((await one(refused)).json.code).toBe('too_many_webhooks');
  expect((await one(created)).status).toBe(201);
  await remove(answers[created]!.json.webhook_id, BUSY);
  await applied(service);
  expect((await one(refused)).status).toBe(201);
});

test('webhooks are at most 100 also if several processes create them at the same time', async () => {
  const { keyValue } = service.stores;
  const views = service.app.get(Views, { strict: false });
  const processes = Array.from({ length: 3 }, () => new WebhookLimit(views, keyValue, Date.now));
  const take = (n: number) =>
    processes[n % 3]!.take(`whk_${n}`, 'tris:several').then(
      () => 'taken',
      (error: unknown) => (error as Problem).code,
    );
  const outcomes = await Promise.all(Array.from({ length: 110 }, (_, n) => take(n)));
  expect(outcomes.filter((outcome) => outcome === 'taken')).toHaveLength(100);
  expect(outcomes.filter((outcome) => outcome === 'too_many_webhooks')).toHaveLength(10);
  // Another process may count one of them again, or say that it was not created.
  const taken = outcomes.indexOf('taken');
  const refused = outcomes.indexOf('too_many_webhooks');
  const other = processes[(taken + 1) % 3]!;
  await other.take(`whk_${taken}`, 'tris:several');
  expect(await take(refused)).toBe('too_many_webhooks');
  await other.release(`whk_${taken}`, 'tris:several');
  expect(await take(refused)).toBe('taken');
});

test('messages that are sent at once go in turn by organization: a receiver that hangs holds up no other, and a deleted webhook gets none', async () => {
  const release: (() => void)[] = [];
  receiver.answer = ({ message }, response) => {
    const answer = () => void response.writeHead(204).end();
    if (message.type === 'webhook.test') release.push(answer);
    else answer();
  };
  const sendTo = (id: string, by: Record<string, string>) => service.post(`${path}/${id}/test`, undefined, by);
  const hooks = await Promise.all([LENDCO, OPERATOR, OTHER].map((by) => create({ events: ['rating.changed'] }, by)));
  const [lendco, operator, other] = hooks.map(({ id }) => id) as [string, string, string];
  const held = Array.from({ length: 8 }, (_, n) => (n < 4 ? sendTo(lendco, LENDCO) : sendTo(operator, OPERATOR)));
  await eventually(() => release.length === 8);
  const fifth = await sendTo(lendco, LENDCO);
  expect([fifth.status, fifth.json.code, fifth.headers['retry-after']]).toEqual([429, 'rate_limited', '5']);
  const waiting = sendTo(other, OTHER);
  const deleted = await create({ events: ['rating.changed'] }, UNBOUND);
  const tooLate = sendTo(deleted.id, UNBOUND);
  await remove(deleted.id, UNBOUND);
  release.shift()!();
  await eventually(() => release.length === 8);
  for (const answer of release) answer();
  expect((await waiting).json).toMatchObject({ delivered: true });
  expect((await tooLate).json.code).toBe('webhook_not_found');
  expect((await Promise.all(held)).map(({ json }) => json.delivered)).toEqual(held.map(() => true));
});
