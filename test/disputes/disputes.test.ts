import { jest } from '@jest/globals';
import { Registry } from 'prom-client';
import { SCOPES } from '../../src/credentials/caller.js';
import { deleteText } from '../../src/commands/kept-texts.js';
import { StoreMetrics } from '../../src/app/store-metrics.js';
import { DisputeOutcomes } from '../../src/features/disputes/dispute-outcomes.js';
import { sha256Hex } from '../../src/kernel/hash.js';
import { eventually } from '../contracts/harness.js';
import { type Service, as, seen, startServiceWithKeys } from '../policies/service.fixture.js';
import { type Tokens, account, bearer, call, claim, consent, newAccount, signIn } from '../sessions/wallet.js';
import { Receiver } from '../webhooks/receiver.js';

/** A person disputes what is stated about them, and who stated it answers. */

const KEYS = [
  { id: 'operator', scopes: SCOPES },
  { id: 'lendco', scopes: SCOPES, organization: 'tris:lendco' },
  { id: 'bank', scopes: SCOPES, organization: 'tris:bank' },
  { id: 'bureau', scopes: SCOPES, organization: 'did:web:bureau.example' },
  { id: 'granter', scopes: ['identity:write'], organization: 'tris:lendco' },
  { id: 'relayer', scopes: ['relay:write', 'identity:write'] },
  { id: 'itself', scopes: SCOPES, organization: `tris:${account(1).address.toLowerCase()}` },
];

let service: Service;
let person: Tokens & { tris_id: string };
beforeAll(async () => {
  service = await startServiceWithKeys(KEYS, { CREDENCE_PUBLIC_READS: 'none', CREDENCE_WEBHOOK_LOOPBACK: 'on' });
  await post('/v1/organizations', { tris_org: 'tris:lendco', platform_ids: ['lendco-app'] });
});
beforeEach(async () => void (person = await claim(service, newAccount())));
const receivers = new Map<string, Receiver>();
afterAll(async () => {
  await service.close();
  for (const receiver of receivers.values()) await receiver.stop();
});

async function post(path: string, body: unknown, key = 'operator') {
  const answer = await service.post(path, body, { ...as(key), ...(await seen(service)) });
  if (answer.status >= 300) throw new Error(`${path}: ${answer.text}`);
  return answer.json;
}
const relay = async (tris_id = person.tris_id, platform_id = 'lendco-app') => {
  const action = { tris_id, action_type: 'default', category: 'financial', criticality: 'critical', platform_id };
  return (await post('/api/decision-relay', action)).action_id as string;
};
const dispute = async (body: object, tokens: Tokens = person) =>
  service.post('/v1/disputes', body, { ...bearer(tokens), ...(await seen(service)) });
const answer = (id: string, body: object, key = 'lendco') => service.post(`/v1/disputes/${id}/answer`, body, as(key));
const list = async (headers: Record<string, string>, query = '') =>
  (await service.get(`/v1/disputes${query}`, { ...headers, ...(await seen(service)) })).json.disputes;
const idsOf = (disputes: { dispute_id: string }[]) => disputes.map(({ dispute_id }) => dispute_id);

test('an action is disputed, listed for whom it concerns, and answered by the organization of its platform', async () => {
  const action_id = await relay();
  const opened = await dispute({ action_id, statement: 'I repaid.\nIn time.' });
  expect([opened.status, opened.json]).toMatchObject([
    200,
    {
      tris_id: person.tris_id,
      about: 'action',
      action_id,
      platform_id: 'lendco-app',
      issuer: 'tris:lendco',
      statement: 'I repaid.\nIn time.',
      open: true,
      status: 'open',
      lapsed_at: null,
      answers: [],
    },
  ]);
  const { dispute_id } = opened.json;
  for (const headers of [bearer(person), as('lendco'), as('operator')]) {
    expect(idsOf(await list(headers, '?open=true&limit=1000'))).toContain(dispute_id);
  }
  const other = await claim(service, newAccount());
  for (const headers of [bearer(other), as('bank')]) expect(idsOf(await list(headers))).not.toContain(dispute_id);
  expect((await answer(dispute_id, { outcome: 'rejected' }, 'bank')).json.code).toBe('forbidden');
  const answered = await answer(dispute_id, { outcome: 'rejected', note: 'A month late.' });
  const [{ answers, status }] = await list(bearer(person));
  expect(status).toBe('rejected');
  expect(answered.json.answers).toEqual(answers);
  expect(answers).toMatchObject([{ outcome: 'rejected', decided_by: 'tris:lendco', note: 'A month late.' }]);
  expect(idsOf(await list(as('lendco'), '?open=true'))).not.toContain(dispute_id);
  const again = await dispute({ action_id, statement: 'I repaid.\nIn time.' });
  expect(again.json).toMatchObject({ code: 'dispute_answered', dispute_id, outcome: 'rejected' });
  expect((await dispute({ action_id, statement: 'See the receipt.' })).json).toMatchObject({ dispute_id, open: true });
});

test('a verification and a BAD status are disputed; a session is told no ids of keys', async () => {
  const { tris_id } = person;
  expect((await dispute({ bad_status: true })).json.code).toBe('not_found');
  await post(`/v1/identities/${tris_id}/bad-status`, { level: 3, reason_code: 'fraud' });
  const evidence_hash = 'a'.repeat(64);
  await post(`/v1/identities/${tris_id}/verifications`, { status: 'zk-KYH', evidence_hash }, 'lendco');
  const flag = (await dispute({ bad_status: true })).json;
  expect(flag).toMatchObject({ about: 'bad_status', issuer: null, statement: null });
  expect((await answer(flag.dispute_id, { outcome: 'upheld' })).json.code).toBe('forbidden');
  expect((await answer(flag.dispute_id, { outcome: 'rejected' }, 'operator')).status).toBe(200);
  expect((await list(bearer(person)))[0].answers).toMatchObject([{ decided_by: null }]);
  const held = await dispute({ verification: 'zk-KYH' });
  expect(held.json).toMatchObject({ about: 'verification', verification: 'zk-KYH', issuer: 'tris:lendco' });
  await post(`/v1/identities/${tris_id}/verifications`, { status: 'zk-KYH', evidence_hash });
  expect((await dispute({ verification: 'zk-KYH' })).json.errors[0].pointer).toBe('/issuer');
  expect((await dispute({ verification: 'zk-KYH', issuer: 'tris:lendco' })).json).toEqual(held.json);
});

test('a session is told an organization whose id is a did, as any other', async () => {
  const grant = { status: 'zk-KYH', evidence_hash: 'a'.repeat(64) };
  await post(`/v1/identities/${person.tris_id}/verifications`, grant, 'bureau');
  const { dispute_id } = (await dispute({ verification: 'zk-KYH' })).json;
  await answer(dispute_id, { outcome: 'rejected' }, 'bureau');
  const bureau = 'did:web:bureau.example';
  expect(await list(bearer(person))).toMatchObject([{ issuer: bureau, answers: [{ decided_by: bureau }] }]);
});

test('scores and reports say how many statements are disputed, outside what they hash, and /v1/me says which', async () => {
  const { tris_id } = person;
  const action_id = await relay();
  await post(`/v1/identities/${tris_id}/bad-status`, { level: 3, reason_code: 'fraud' });
  const read = async (path: string, more: Record<string, string> = {}) =>
    service.get(`/v1/${path}`, { ...bearer(person), ...(await seen(service)), ...more });
  const at = `as_of_position=${(await read(`disc/score/${tris_id}`)).json.position}`;
  const paths = [`disc/score/${tris_id}?${at}`, `disc/report/${tris_id}?${at}`];
  const before = await Promise.all(paths.map((path) => read(path)));
  for (const { json } of before) expect(json).not.toHaveProperty('disputed');
  const disputes = [(await dispute({ action_id })).json, (await dispute({ bad_status: true })).json];
  for (const [i, path] of paths.entries()) {
    const { json, status } = await read(path, { 'If-None-Match': before[i]!.headers['etag'] as string });
    const { generated_at: _, proof: _proof, ...same } = before[i]!.json;
    expect([status, json]).toMatchObject([200, { ...same, disputed: 2 }]);
  }
  expect((await read('me')).json.disputes).toEqual(
    disputes.map(
      ({
        issuer: _issuer,
        statement: _statement,
        open: _open,
        status: _status,
        lapsed_at: _lapsed,
        answers: _answers,
        ...known
      }) => known,
    ),
  );
  await answer(disputes[0].dispute_id, { outcome: 'rejected' });
  expect((await read(paths[0]!)).json.disputed).toBe(1);
  expect((await read('me')).json.disputes).toMatchObject([{ about: 'bad_status' }]);
  await answer(disputes[1].dispute_id, { outcome: 'rejected' }, 'operator');
  expect((await read(paths[0]!)).json).not.toHaveProperty('disputed');
});

test('a dispute is for the session of a linked wallet, about its own TRIS, and of what still counts', async () => {
  const action_id = await relay();
  const [about, none] = [await claim(service, newAccount()), (await signIn(service, newAccount())).json as Tokens];
  for (const tokens of [about, none]) expect((await dispute({ action_id }, tokens)).json.code).toBe('forbidden');
  const rated = { action_type: 'default', category: 'financial', criticality: 'critical', platform_id: 'lendco-app' };
  const other = await post('/api/decision-relay', { ...rated, tris_id: about.tris_id, counterparty: person.tris_id });
  expect((await dispute({ action_id: other.action_id })).json.code).toBe('forbidden');
  expect((await service.post('/v1/disputes', { action_id }, as('operator'))).json.code).toBe('forbidden');
  await post(`/v1/actions/${action_id}/withdraw`, { reason: 'mistake' });
  expect((await dispute({ action_id })).json.code).toBe('statement_withdrawn');
  const before = (await dispute({ action_id: await relay() })).json;
  await post(`/v1/actions/${action_id}/reinstate`, { reason: 'mistake' });
  expect((await dispute({ action_id })).json.dispute_id).not.toBe(before.dispute_id);
  await post('/v1/wallets/unlink', { wallet: person.wallet, reason_code: 'lost' });
  expect((await dispute({ action_id })).json.code).toBe('session_revoked');
});

test.each<[string, object, string]>([
  ['nothing', { statement: 'wrong' }, 'validation_failed'],
  ['two things', { bad_status: true, verification: 'zk-KYH' }, 'validation_failed'],
  ['an issuer of nothing', { bad_status: true, issuer: 'tris:lendco' }, 'validation_failed'],
  ['no BAD status', { bad_status: false }, 'validation_failed'],
  ['control characters', { bad_status: true, statement: 'a\u0000b' }, 'validation_failed'],
  ['bidirectional characters', { bad_status: true, statement: 'a\u202eb' }, 'validation_failed'],
  ['a long statement', { bad_status: true, statement: 'x'.repeat(2_001) }, 'validation_failed'],
  ['a statement of 10 MB', { bad_status: true, statement: 'x'.repeat(10_000_000) }, 'payload_too_large'],
  ['an unknown action', { action_id: '0b0e4d5e-4f43-4b0e-9d5e-4f434b0e4d5e' }, 'not_found'],
])('%s is refused', async (_what, body, code) => {
  expect((await dispute(body)).json.code).toBe(code);
});

test('at the same moment, a statement is disputed once and answered once', async () => {
  const action_id = await relay();
  const opened = await Promise.all(['a', 'b'].map((statement) => dispute({ action_id, statement })));
  expect(opened.map(({ json }) => json.code ?? 'open').sort()).toEqual(['dispute_open', 'open']);
  const { dispute_id } = opened.find(({ status }) => status === 200)!.json;
  const answers = await Promise.all(['upheld', 'rejected'].map((outcome) => answer(dispute_id, { outcome })));
  expect(answers.map(({ json }) => json.code ?? 'answered').sort()).toEqual(['answered', 'dispute_answered']);
});

test('a repeated request gets its first answer, though the dispute was answered and opened again since', async () => {
  const action_id = await relay();
  const again = (headers: Record<string, string>, path: string, body: object, key: string) =>
    service.post(path, body, { ...headers, 'idempotency-key': key });
  const open = () => again(bearer(person), '/v1/disputes', { action_id, statement: 'No.' }, 'open');
  await service.get('/v1/identities', { ...as('operator'), ...(await seen(service)) });
  const opened = await open();
  const { dispute_id } = opened.json;
  const reject = () =>
    again(as('lendco'), `/v1/disputes/${dispute_id}/answer`, { outcome: 'rejected', note: 'Yes.' }, dispute_id);
  const rejected = await reject();
  expect((await dispute({ action_id, statement: 'No, no.' })).status).toBe(200);
  expect((await answer(dispute_id, { outcome: 'upheld' })).status).toBe(200);
  await eventually(async () => (await dispute({ action_id })).json.code === 'statement_withdrawn');
  for (const [first, repeat] of [
    [opened, open],
    [rejected, reject],
  ] as const) {
    const { status, json, headers } = await repeat();
    expect([status, json, headers['idempotency-replayed']]).toEqual([200, first.json, 'true']);
  }
});

test('two wallets of one TRIS dispute a statement at the same moment: it is one dispute, which both see', async () => {
  const signer = newAccount();
  const linked = await call(
    service,
    '/v1/wallets/link',
    await consent(service, signer, person.tris_id),
    bearer(person),
  );
  expect(linked.status).toBe(200);
  const second = (await signIn(service, signer)).json as Tokens;
  for (const [texts, codes] of [
    [
      ['I repaid.', 'I repaid.'],
      ['open', 'open'],
    ],
    [
      ['I repaid.', 'In time.'],
      ['dispute_open', 'open'],
    ],
  ]) {
    const action_id = await relay();
    const opened = await Promise.all(
      [person, second].map((tokens, n) => dispute({ action_id, statement: texts![n] }, tokens)),
    );
    expect(opened.map(({ json }) => json.code ?? 'open').sort()).toEqual(codes);
    const one = opened.find(({ status }) => status === 200)!.json;
    for (const { status, json } of opened) {
      if (status === 200) expect(json).toEqual(one);
      else expect([status, json.detail]).toEqual([409, expect.stringContaining(one.dispute_id)]);
    }
    for (const tokens of [person, second]) {
      expect((await list(bearer(tokens))).filter((listed: any) => listed.action_id === action_id)).toEqual([one]);
    }
  }
  await call(service, '/v1/wallets/unlink', { wallet: second.wallet }, bearer(person));
  expect((await dispute({ action_id: await relay() }, second)).json.code).toBe('session_revoked');
  expect((await service.get('/v1/disputes', bearer(second))).json.code).toBe('session_revoked');
  expect(await list(bearer(person))).toHaveLength(2);
});

test('nobody answers but who made the statement, with the scope for such statements, and operators', async () => {
  const { dispute_id } = await disputed();
  for (const key of ['bank', 'granter', 'relayer']) {
    expect((await answer(dispute_id, { outcome: 'rejected' }, key)).json.code).toBe('forbidden');
  }
  const bySession = await call(service, `/v1/disputes/${dispute_id}/answer`, { outcome: 'upheld' }, bearer(person));
  expect([bySession.status, (await list(bearer(person)))[0].status]).toEqual([403, 'open']);
  const organization = await claim(service, account(1));
  await post('/v1/organizations', { tris_org: organization.tris_id, platform_ids: ['own-app'] });
  const own = (await dispute({ action_id: await relay(organization.tris_id, 'own-app') }, organization)).json;
  expect(own.issuer).toBe(organization.tris_id);
  expect((await answer(own.dispute_id, { outcome: 'upheld' }, 'itself')).json.code).toBe('self_statement');
  expect((await answer(own.dispute_id, { outcome: 'rejected' }, 'operator')).status).toBe(200);
});

test.each<[string, string, string]>([
  ['control characters', 'a\u0007b', 'validation_failed'],
  ['2,001 characters', 'x'.repeat(2_001), 'validation_failed'],
  ['10 MB', 'x'.repeat(10_000_000), 'payload_too_large'],
])('a note of %s is refused', async (_what, note, code) => {
  const { dispute_id } = await disputed();
  expect((await answer(dispute_id, { outcome: 'rejected', note })).json.code).toBe(code);
  expect((await list(bearer(person)))[0].status).toBe('open');
});

test('at most 20 disputes of an identity are open, however many are opened at once', async () => {
  const actions: string[] = [];
  for (let n = 0; n < 22; n++) actions.push(await relay());
  const headers = { ...bearer(person), ...(await seen(service)) };
  const open = (action_id: string) => service.post('/v1/disputes', { action_id }, headers);
  const opened = await Promise.all(actions.map(open));
  const codes = opened.map(({ json }) => json.code ?? 'open');
  expect(codes.filter((code) => code === 'open')).toHaveLength(20);
  expect(codes.filter((code) => code === 'too_many_disputes')).toHaveLength(2);
  const first = opened.find(({ status }) => status === 200)!.json;
  expect((await open(first.action_id)).status).toBe(200);
  expect((await answer(first.dispute_id, { outcome: 'rejected' })).status).toBe(200);
  expect((await open(actions[codes.indexOf('too_many_disputes')]!)).status).toBe(200);
});

test('what a refused request says is not kept, and what is kept can be deleted', async () => {
  const action_id = await relay();
  await dispute({ action_id, statement: 'kept' });
  await dispute({ action_id, statement: 'refused' });
  const { keyValue } = service.stores;
  expect(await deleteText(keyValue, sha256Hex('refused'))).toBe(false);
  expect(await deleteText(keyValue, sha256Hex('kept'))).toBe(true);
  expect((await list(bearer(person)))[0].statement).toBeNull();
  expect((await dispute({ action_id, statement: 'kept' })).json.statement).toBeNull();
});

test('webhooks tell who made the statement, and operators, that it is disputed and answered, and nobody else', async () => {
  for (const key of ['bank', 'lendco', 'operator']) {
    const receiver = new Receiver();
    await receiver.start();
    receivers.set(key, receiver);
    await post('/v1/webhooks', { url: receiver.url, events: ['dispute.opened', 'dispute.answered'] }, key);
  }
  const { tris_id } = person;
  await post(`/v1/identities/${tris_id}/bad-status`, { level: 3, reason_code: 'fraud' });
  const flag = (await dispute({ bad_status: true, statement: 'Not me.' })).json.dispute_id;
  const { action_id, dispute_id } = await disputed();
  await answer(dispute_id, { outcome: 'rejected', note: 'Read the receipt.' });
  const told = (key: string) => receivers.get(key)!.received.map(({ message: { type, data } }) => [type, data]);
  await eventually(() => told('operator').length === 3 && told('lendco').length === 2, 'the messages have arrived');
  const none = { action_id: null, platform_id: null, verification: null, position: expect.any(String) };
  const said = { ...none, tris_id, dispute_id, about: 'action', action_id, platform_id: 'lendco-app' };
  const ofLendco = [
    ['dispute.opened', said],
    ['dispute.answered', { ...said, outcome: 'rejected' }],
  ];
  expect(told('lendco')).toEqual(ofLendco);
  const opened = { ...none, tris_id, dispute_id: flag, about: 'bad_status' };
  expect(told('operator')).toEqual([['dispute.opened', opened], ...ofLendco]);
  expect(told('bank')).toEqual([]);
});

const disputed = async () => {
  const action_id = await relay();
  return { action_id, dispute_id: (await dispute({ action_id })).json.dispute_id as string };
};
test('gauges say how many disputes are open, and how long the oldest has waited', async () => {
  const registry = new Registry();
  const get = (token: unknown) => (token === Registry ? registry : service.app.get(token as never, { strict: false }));
  new StoreMetrics().register({ get } as never, service.stores, undefined);
  const scrape = async () => {
    await list(as('operator'));
    const text = await registry.metrics();
    const gauge = (name: string) => Number(new RegExp(`^credence_disputes_${name} (.*)$`, 'm').exec(text)![1]);
    return { open: gauge('open'), oldest: gauge('oldest_seconds') };
  };
  const before = await scrape();
  await disputed();
  const after = await scrape();
  expect(after.open).toBe(before.open + 1);
  const [first] = await list(as('operator'), '?open=true&limit=1');
  const waited = (Date.now() - Date.parse(first.opened_at)) / 1_000;
  expect(Math.abs(after.oldest - waited)).toBeLessThan(5);
  expect(after.oldest).toBeGreaterThan(0);
});

const action = async (id: string) => (await service.get(`/v1/actions/${id}`, as('operator'))).json;

test('an upheld dispute withdraws the action, once, also one that was reinstated before the answer', async () => {
  const { action_id, dispute_id } = await disputed();
  await post(`/v1/actions/${action_id}/withdraw`, { reason: 'mistake' });
  await post(`/v1/actions/${action_id}/reinstate`, { reason: 'mistake' });
  for (let n = 0; n < 2; n++) expect((await answer(dispute_id, { outcome: 'upheld' })).status).toBe(200);
  await eventually(async () => (await action(action_id)).state === 'withdrawn', 'the action is withdrawn');
  const { changes } = await action(action_id);
  expect([changes.length, changes[2]]).toMatchObject([3, { reason: 'disputed', by: 'job:dispute_withdrawal' }]);
});

test('what was reinstated after the answer stays, however late the job runs', async () => {
  const { action_id, dispute_id } = await disputed();
  const lost = jest.spyOn(service.app.get(DisputeOutcomes), 'enqueue').mockResolvedValue(undefined);
  await answer(dispute_id, { outcome: 'upheld' });
  lost.mockRestore();
  for (const change of ['withdraw', 'reinstate'])
    await post(`/v1/actions/${action_id}/${change}`, { reason: 'mistake' });
  await service.app.get(DisputeOutcomes).enqueue({ dispute_id, position: 1 });
  const job = async () => (await service.get(`/v1/jobs/dsw_${dispute_id}_1`, as('operator'))).json;
  await eventually(async () => (await job()).status === 'completed', 'the job has run');
  expect([(await job()).result, (await action(action_id)).state]).toEqual(['changed', 'counted']);
});

test('an upheld dispute whose job was never enqueued is found by a sweep', async () => {
  const { action_id, dispute_id } = await disputed();
  const upheld = service.app.get(DisputeOutcomes);
  const lost = jest.spyOn(upheld, 'enqueue').mockResolvedValue(undefined);
  await answer(dispute_id, { outcome: 'upheld' });
  lost.mockRestore();
  expect((await action(action_id)).state).toBe('counted');
  await seen(service);
  await eventually(async () => {
    await upheld.sweep();
    return (await action(action_id)).state === 'withdrawn';
  }, 'the action is withdrawn');
});
