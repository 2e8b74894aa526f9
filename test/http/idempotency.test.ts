import { jest } from '@jest/globals';
import { internalActor } from '../../src/commands/context.js';
import { fact, hashedStream } from '../../src/kernel/event-definition.js';
import { keptText } from '../../src/commands/kept-texts.js';
import { Writer } from '../../src/commands/writer.js';
import { createKey } from '../../src/credentials/api-keys.js';
import { eventually } from '../contracts/harness.js';
import { hashOf, sha256Hex } from '../../src/kernel/hash.js';
import { organizationRegistered } from '../../src/features/organizations/domain/organizations.events.js';
import { schemeBody } from '../verifications/proofs.fixture.js';
import { type Service, platformPolicy, policyBody, startService } from '../policies/service.fixture.js';

/** A retry with its Idempotency-Key, where the time or the state has moved on since. */

let service: Service;
/** How far the service's clock is ahead, ms. */
let ahead = 0;
beforeAll(async () => void (service = await startService({}, () => Date.now() + ahead)));
afterAll(() => service.close());

const keyed = (key: string) => ({ 'idempotency-key': key });
const head = () => service.stores.eventStore.head();

describe('a verification', () => {
  const grant = (expires_at: string, key: string) =>
    service.post(
      '/v1/identities/tris:alice/verifications',
      { status: 'zk-KYH', expires_at, evidence_hash: 'a'.repeat(64) },
      keyed(key),
    );
  const inMs = (ms: number) => new Date(Date.now() + ms).toISOString();

  test('that has expired when its grant is repeated returns the first answer again', async () => {
    const expires_at = inMs(60_000);
    const first = await grant(expires_at, 'grant');
    expect(first.status).toBe(201);
    ahead = 60_020;
    const written = await head();
    const retry = await grant(expires_at, 'grant').finally(() => (ahead = 0));
    expect([retry.status, retry.text]).toEqual([201, first.text]);
    const replayed = [first, retry].map(({ headers }) => headers['idempotency-replayed']);
    expect(replayed).toEqual([undefined, 'true']);
    expect(retry.headers['credence-position']).toBe(first.headers['credence-position']);
    expect(await head()).toBe(written);
  });

  test('that another process has granted since this one claimed the key is granted once', async () => {
    const { eventStore } = service.stores;
    const { append } = eventStore;
    const expires_at = inMs(60_000);
    let other: Awaited<ReturnType<typeof grant>>;
    // The other process is between the claim and the grant of this one.
    jest.spyOn(eventStore, 'append').mockImplementationOnce(async (...claim) => {
      const claimed = await append.apply(eventStore, claim);
      other = await grant(expires_at, 'both');
      return claimed;
    });
    const before = await head();
    const slower = await grant(expires_at, 'both').finally(() => jest.restoreAllMocks());
    expect([slower.status, slower.text]).toEqual([201, other!.text]);
    expect(slower.headers['credence-position']).toBe(other!.headers['credence-position']);
    // The claim, and one grant.
    expect(await head()).toBe(before + 2);
  });

  test('refused as expired is refused again, and a corrected one is granted', async () => {
    const expired = inMs(-1_000);
    const before = await head();
    for (let n = 0; n < 2; n++) {
      const { status, json } = await grant(expired, 'late');
      expect([status, json.errors]).toEqual([
        400,
        [expect.objectContaining({ pointer: '/expires_at', code: 'in_the_past' })],
      ]);
    }
    expect(await head()).toBe(before);
    expect((await grant(inMs(60_000), 'late')).status).toBe(201);
    const reused = await grant(inMs(120_000), 'late');
    expect([reused.status, reused.json.code]).toEqual([422, 'idempotency_key_reused']);
  });
});

test('a path is the same however it is spelled', async () => {
  const clear = (id: string) => service.delete(`/v1/identities/${id}/bad-status`, keyed('spelled'));
  const bad = () =>
    service.post('/v1/identities/tris@bert/bad-status', { level: 1, reason_code: 'fraud' }, keyed('spelled'));
  await bad();
  const first = await clear('tris%40bert');
  expect(first.status).toBe(200);
  const written = await head();
  for (const id of ['tris@bert', 'tris%40bert', '%74ris%40bert']) {
    const retry = await clear(id);
    expect([retry.status, retry.headers['credence-position']]).toEqual([200, first.headers['credence-position']]);
  }
  // A method of its own, and under the hash of the unencoded path.
  const key = hashOf(sha256Hex(service.key), 'POST', '/v1/identities/tris@bert/bad-status', 'spelled');
  expect(await service.stores.eventStore.readStream(`idem-${key}`)).toHaveLength(1);
  for (const broken of ['tris%E0%A4', 'tris%']) expect((await clear(broken)).status).toBe(400);
  expect(await head()).toBe(written);
});

test('a request that was refused because of the state is decided again when repeated', async () => {
  await service.post('/v1/policies/vp', platformPolicy('VP_A_V1', { social_vouch: 'High' }));
  const rollBack = () => service.post('/v1/policies/vp/VP_A_V1/rollback', {}, keyed('back'));
  const refused = await rollBack();
  expect([refused.status, refused.json.code]).toEqual([409, 'policy_not_active']);
  expect((await service.post('/v1/policies/vp/VP_A_V1/promote', { scope: 'platform' })).status).toBe(200);
  const done = await rollBack();
  expect([done.status, done.json.active.policy_id]).toEqual([200, null]);
  const again = await rollBack();
  expect([again.status, again.json]).toEqual([200, done.json]);
});

describe('a request that changed nothing, since it was so already', () => {
  const vet = (key: string) => service.post('/v1/organizations/tris:guild/vet', undefined, keyed(key));
  const bad = (key: string) =>
    service.post('/v1/identities/tris:carl/bad-status', { level: 2, reason_code: 'fraud' }, keyed(key));
  const promote = (key: string) =>
    service.post('/v1/policies/vp/VP_SO_ALREADY_V1/promote', { scope: 'platform' }, keyed(key));
  beforeAll(async () => {
    await service.post('/v1/organizations', { tris_org: 'tris:guild', platform_ids: ['guild'] });
    await service.post('/v1/policies/vp', platformPolicy('VP_SO_ALREADY_V1', { financial_swap: 'Critical' }));
  });

  test.each<[string, (key: string) => ReturnType<typeof vet>, () => ReturnType<typeof vet>]>([
    ['a vetting', vet, () => service.post('/v1/organizations/tris:guild/revoke')],
    ['a BAD status', bad, () => service.delete('/v1/identities/tris:carl/bad-status')],
    ['a promotion', promote, () => service.post('/v1/policies/vp/VP_SO_ALREADY_V1/rollback')],
  ])('%s: a retry changes nothing, although others have since', async (what, ask, undo) => {
    expect((await ask(`${what} 1`)).status).toBe(200);
    const first = await ask(`${what} 2`);
    expect((await undo()).status).toBe(200);
    const written = await head();
    for (let n = 0; n < 2; n++) {
      const retry = await ask(`${what} 2`);
      expect([retry.status, retry.text]).toEqual([first.status, first.text]);
      expect(retry.headers['credence-position']).toBe(first.headers['credence-position']);
    }
    expect(await head()).toBe(written);
    // Who asks for the first time is not refused it.
    expect((await ask(`${what} 3`)).status).toBe(200);
    expect(await head()).toBeGreaterThan(written);
  });
});

describe('a request that was refused leaves nothing in the log, and its key to a corrected one', () => {
  const policy = (id: string, metric: string) => policyBody(id, { [metric]: 'High' }, 'tris:refused');
  const access = (id: string, disc_min: number) => ({ policy_id: id, rules: { disc_min } });
  const scheme = (id: string, scope: string) =>
    schemeBody('kyh', { scheme: id, status: 'zk-KYH', issuer: 'tris:registry', scope, roots: [] });
  const action = (external_id: string, criticality: string) => ({
    tris_id: 'tris:dora',
    category: 'social',
    action_type: 'vouch',
    platform_id: 'forum',
    external_id,
    criticality,
  });
  const content_hash = 'd'.repeat(64);
  const decision = (reason_code: string) => ({ decision: 'reject', reason_code });

  beforeAll(async () => {
    const submission = {
      tris_id: 'tris:dora',
      record_type: 'milestone',
      metric: 'social_vouch',
      criticality: 'high',
      title: 'A milestone',
      content_hash,
      occurred_at: '2026-01-31T12:00:00Z',
    };
    // Nobody reviews what the same key submitted. Keys are read again within a second.
    const submitter = { 'x-api-key': await createKey(service.config, { id: 'submitter', scopes: ['trove:write'] }) };
    await eventually(async () => (await service.post('/v1/trove/submit', submission, submitter)).status === 202);
    for (const [path, body] of [
      ['/v1/policies/vp', policy('VP_TAKEN_V1', 'social_vouch')],
      ['/v1/policies/vp/VP_TAKEN_V1/promote', { scope: 'organization' }],
      ['/v1/policies/ap', access('AP_TAKEN_V1', 10)],
      ['/v1/verification-schemes', scheme('taken', 'one')],
      ['/api/decision-relay', action('taken', 'high')],
      [`/v1/trove/${content_hash}/review`, decision('unclear')],
    ] as const) {
      const { status, text } = await service.post(path, body);
      if (status >= 300) throw new Error(text);
    }
  });

  test.each<[path: string, refused: object, code: string, corrected: object]>([
    ['/v1/policies/vp', policy('VP_TAKEN_V1', 'social_post'), 'policy_conflict', policy('VP_FREE_V1', 'social_post')],
    ['/v1/policies/vp/VP_TAKEN_V1/rollback', { scope: 'platform' }, 'policy_not_active', { scope: 'organization' }],
    ['/v1/policies/ap', access('AP_TAKEN_V1', 20), 'policy_conflict', access('AP_FREE_V1', 20)],
    ['/v1/verification-schemes', scheme('taken', 'two'), 'scheme_conflict', scheme('free', 'two')],
    ['/api/decision-relay', action('taken', 'low'), 'external_id_conflict', action('free', 'low')],
    [`/v1/trove/${content_hash}/review`, decision('fraud'), 'record_decided', decision('unclear')],
  ])('%s', async (path, refused, code, corrected) => {
    const ask = (body: object) => service.post(path, body, keyed('corrected'));
    const before = await head();
    for (let n = 0; n < 2; n++) {
      const { status, json } = await ask(refused);
      expect([status, json.code]).toEqual([409, code]);
    }
    expect(await head()).toBe(before);
    const first = await ask(corrected);
    expect(first.status).toBeLessThan(300);
    const retry = await ask(corrected);
    expect([retry.status, retry.text]).toEqual([first.status, first.text]);
    const replayed = [first, retry].map(({ headers }) => headers['idempotency-replayed']);
    expect(replayed).toEqual([undefined, 'true']);
    const other = await ask(refused);
    expect([other.status, other.json.code]).toEqual([422, 'idempotency_key_reused']);
  });
});

describe('a job', () => {
  beforeAll(async () => {
    for (const [path, body] of [
      ['/v1/policies/vp', policyBody('VP_JOB_V1', { social_vouch: 'High' }, 'tris:refused')],
      ['/v1/policies/ap', { policy_id: 'AP_JOB_V1', rules: { disc_min: 10 } }],
    ] as const) {
      const { status, text } = await service.post(path, body);
      if (status >= 300) throw new Error(text);
    }
  });

  test.each([
    '/v1/policies/vp/VP_JOB_V1/replay',
    '/v1/policies/ap/AP_JOB_V1/population',
    '/v1/models/disc-2/replay',
    '/v1/ops/verify',
  ])('%s: a retry returns the first one, and says so', async (path) => {
    const ask = (key: string) => service.post(path, {}, keyed(key));
    const answers = [await ask('job'), await ask('job')];
    expect(answers.map(({ status }) => status)).toEqual([202, 202]);
    const [first, retry] = answers.map(({ json }) => json.job_id ?? json.replay_id);
    expect(retry).toBe(first);
    expect(answers.map(({ headers }) => headers['idempotency-replayed'])).toEqual([undefined, 'true']);
  });
});

describe('one key for an action with an external_id and one without', () => {
  const ask = (key: string, more: object) =>
    service.post(
      '/api/decision-relay',
      {
        tris_id: 'tris:emil',
        category: 'social',
        action_type: 'vouch',
        platform_id: 'forum',
        criticality: 'high',
        ...more,
      },
      keyed(key),
    );

  test('is refused to the second', async () => {
    const [without, withOne] = [{}, { external_id: 'of-emil' }];
    for (const [key, first, second] of [
      ['with', withOne, without],
      ['without', without, { external_id: 'of-emil-too' }],
    ] as const) {
      const recorded = await ask(key, first);
      expect(recorded.status).toBe(202);
      const written = await head();
      const other = await ask(key, second);
      expect([other.status, other.json.code]).toEqual([422, 'idempotency_key_reused']);
      const retry = await ask(key, first);
      expect([retry.text, retry.headers['idempotency-replayed']]).toEqual([recorded.text, 'true']);
      expect(await head()).toBe(written);
    }
  });

  test('is refused to one of them, if both are sent at once', async () => {
    for (let n = 0; n < 20; n++) {
      const askBoth = () => Promise.all([ask(`both ${n}`, {}), ask(`both ${n}`, { external_id: `both-${n}` })]);
      const first = await askBoth();
      expect(first.map(({ status }) => status).toSorted()).toEqual([202, 422]);
      const again = await askBoth();
      expect(again.map(({ status, json }) => [status, json.action_id])).toEqual(
        first.map(({ status, json }) => [status, json.action_id]),
      );
    }
  });
});

const VOUCH = {
  tris_id: 'tris:gus',
  category: 'social',
  action_type: 'vouch',
  platform_id: 'forum',
  criticality: 'high',
};
const askAs = (external_id: string, evidence_uri: string) =>
  service.post('/api/decision-relay', { ...VOUCH, external_id, evidence_uri });

describe('another action without external_id', () => {
  const ask = (evidence_uri: string | undefined, key: string) =>
    service.post('/api/decision-relay', { ...VOUCH, evidence_uri }, keyed(key));
  const kept = (text: string) => keptText(service.stores.keyValue, sha256Hex(text));

  test('with the key of one that is recorded is no retry of it, and its text is not stored', async () => {
    const [first, second] = ['https://forum.example/1', 'https://forum.example/2'];
    expect((await ask(first, 'evidence')).status).toBe(202);
    const { status, json, headers } = await ask(second, 'evidence');
    expect([status, json.code]).toEqual([422, 'idempotency_key_reused']);
    expect(headers['idempotency-replayed']).toBeUndefined();
    expect([await kept(first), await kept(second)]).toEqual([first, null]);
    expect((await ask(first, 'evidence')).headers['idempotency-replayed']).toBe('true');
  });

  test('with the key of one that is sent at the same time is no retry of it', async () => {
    const answers = await Promise.all([undefined, 'https://forum.example/3'].map((uri) => ask(uri, 'at once')));
    expect(answers.map(({ status }) => status).sort()).toEqual([202, 422]);
    expect(answers.map(({ headers }) => headers['idempotency-replayed'])).toEqual([undefined, undefined]);
  });
});

test('an action that conflicts with the one of its external_id leaves no text', async () => {
  expect((await askAs('of-gus', 'https://forum.example/4')).status).toBe(202);
  expect((await askAs('of-gus', 'https://forum.example/5')).json.code).toBe('external_id_conflict');
  expect(await keptText(service.stores.keyValue, sha256Hex('https://forum.example/5'))).toBeNull();
});

test('of actions that are sent at the same time with one external_id, only the recorded one leaves its text', async () => {
  const uris = Array.from({ length: 8 }, (_, n) => `https://forum.example/raced/${n}`);
  // One of them is also the text of another action.
  const [shared] = uris as [string];
  const [other, ...answers] = await Promise.all([askAs('other', shared), ...uris.map((uri) => askAs('raced', uri))]);
  expect(other!.status).toBe(202);
  const recorded = uris.filter((_, n) => answers[n]!.status === 202);
  expect(recorded).toHaveLength(1);
  const stored = await Promise.all(uris.map((uri) => keptText(service.stores.keyValue, sha256Hex(uri))));
  expect(stored).toEqual(uris.map((uri) => (recorded.includes(uri) || uri === shared ? uri : null)));
});

test('retiring an unknown resource leaves nothing in the log', async () => {
  const before = await head();
  for (const path of [
    '/v1/policies/vp/VP_NONE_V1/retire',
    '/v1/policies/ap/AP_NONE_V1/retire',
    '/v1/policies/vp/none/retire',
  ]) {
    const { status, json } = await service.post(path, undefined, keyed('retire'));
    expect([status, json.code]).toEqual([404, 'policy_not_found']);
  }
  expect(await head()).toBe(before);
});

test('a retry is not refused because of the effect of its own first try', async () => {
  const { eventStore } = service.stores;
  const writer = service.app.get(Writer, { strict: false });
  const context = () => ({
    actor: internalActor('key:test'),
    correlation_id: 'c',
    idempotency: hashOf('raced'),
    body_hash: hashOf('b'),
  });
  const data = { tris_org: 'tris:raced' };
  const once = (history: readonly unknown[]) => {
    if (history.length > 0) throw new Error('there is one already');
    return [fact(organizationRegistered, data)];
  };
  const first = () => writer.execute('organization-tris:raced', context(), once);
  // The retry has looked for a claim, when the first try makes it.
  const { readStream } = eventStore;
  let done: Awaited<ReturnType<typeof first>> | undefined;
  jest.spyOn(eventStore, 'readStream').mockImplementationOnce(async (stream, options) => {
    const events = await readStream.call(eventStore, stream, options);
    done = await first();
    return events;
  });
  const retry = await first();
  expect([done!.own, retry.position]).toEqual([true, done!.position]);
});

test('every event has a salt of its own, which a retry does not change', async () => {
  const action = {
    tris_id: 'tris:salted',
    action_type: 'vote',
    category: 'social',
    criticality: 'low',
    platform_id: 'forum',
    external_id: 'salted',
  };
  const relayed = async () => {
    await service.post('/api/decision-relay', action);
    const events = await service.stores.eventStore.readStream(hashedStream('action', 'forum', 'salted'));
    return events.map(({ metadata }) => metadata.salt);
  };
  const salts = await relayed();
  expect(salts).toEqual([expect.stringMatching(/^[0-9a-f]{32}$/), expect.stringMatching(/^[0-9a-f]{32}$/)]);
  expect(new Set(salts).size).toBe(2);
  expect(await relayed()).toEqual(salts);
});
