import { randomUUID } from 'node:crypto';
import { sha256Hex } from '../../src/kernel/hash.js';
import { SCOPES } from '../../src/credentials/caller.js';
import { becomes } from '../contracts/harness.js';
import { type Service, as, policyBody, seen, startServiceWithKeys } from '../policies/service.fixture.js';

/** An organization cannot gain by its own word, and its keys reach nobody else's. */

const ALL = [...SCOPES];
const KEYS = [
  { id: 'operator', scopes: ALL },
  { id: 'lendco', scopes: ALL, organization: 'tris:lendco' },
  { id: 'other', scopes: ALL, organization: 'tris:other' },
];
const OPERATOR = as('operator');
const LENDCO = as('lendco');

let service: Service;
beforeAll(async () => {
  service = await startServiceWithKeys(KEYS);
  for (const name of ['lendco', 'other']) {
    const body = { tris_org: `tris:${name}`, platform_ids: [`${name}-app`] };
    expect((await service.post('/v1/organizations', body, OPERATOR)).status).toBe(201);
  }
  const policy = { policy_id: 'AP_PERSON_V1', rules: { disc_min: 8 } };
  expect((await service.post('/v1/policies/ap', policy, OPERATOR)).status).toBe(201);
});
afterAll(() => service.close());

const action = (tris_id: string, platform_id = 'lendco-app') => ({
  tris_id,
  action_type: 'audit_passed',
  category: 'compliance',
  criticality: 'critical',
  platform_id,
});
const grant = { status: 'zk-KYC (ID + AML)', evidence_hash: 'a'.repeat(64) };
const record = (tris_id: string, n: number, more: object = {}) => ({
  tris_id,
  record_type: 'milestone',
  metric: 'creative_code_contribution',
  criticality: 'critical',
  title: `Release ${n}`,
  content_hash: sha256Hex(`content ${n}`),
  occurred_at: '2026-01-01T00:00:00Z',
  ...more,
});
/** A record about an agent of the organization. */
const AGENT = { record_type: 'ai_behavior', agent_id: 'bot', operator_tris: 'tris:lendco' };
const outcome = ({ status, json }: { status: number; json: any }) => [status, json?.code];

test('an organization relays nothing about itself', async () => {
  expect(outcome(await service.post('/api/decision-relay', action('tris:lendco'), LENDCO))).toEqual([
    403,
    'self_statement',
  ]);
  expect((await service.post('/api/decision-relay', action('tris:alice'), LENDCO)).status).toBe(202);
  expect((await service.post('/api/decision-relay', action('tris:lendco', 'auditor'), OPERATOR)).status).toBe(202);
});

test('an organization grants itself no verification', async () => {
  const answer = await service.post('/v1/identities/tris:lendco/verifications', grant, LENDCO);
  expect(outcome(answer)).toEqual([403, 'self_statement']);
  expect((await service.post('/v1/identities/tris:alice/verifications', grant, LENDCO)).status).toBe(201);
});

test('an organization cannot assert a wallet link to itself', async () => {
  const wallet = '0x9d85ca56217d2bb651b00f15e694eb7e713637d4';
  const answer = await service.post('/api/link-account', { wallet, tris_id: 'tris:lendco' }, LENDCO);
  expect(outcome(answer)).toEqual([403, 'self_statement']);
  expect((await service.post('/api/link-account', { wallet, tris_id: 'tris:alice' }, LENDCO)).status).toBe(200);
});

test('an organization reviews no record about itself or its agent', async () => {
  for (const [n, body] of [record('tris:lendco', 1), record('tris:bot', 2, AGENT)].entries()) {
    const submitted = await service.post('/v1/trove/submit', body, as('other'));
    expect(submitted.status).toBe(202);
    for (const decision of [{ decision: 'approve' }, { decision: 'reject', reason_code: 'no' }]) {
      const answer = await service.post(`/v1/trove/${submitted.json.record_id}/review`, decision, LENDCO);
      expect([n, ...outcome(answer)]).toEqual([n, 403, 'self_statement']);
    }
  }
});

test('the proof of an issuer approves no record about who owns its platform, or about an agent of it', async () => {
  const { generateKeyPairSync, sign } = await import('node:crypto');
  const { privateKey, publicKey } = generateKeyPairSync('ed25519');
  const ed25519 = publicKey.export({ format: 'jwk' }).x;
  const issuer = { issuer_id: 'lendco-lab', platform_id: 'lendco-app', ed25519 };
  expect((await service.post('/v1/trove-issuers', issuer, OPERATOR)).status).toBe(201);
  const decided = async (tris_id: string, n: number, more: object = {}) => {
    const body = record(tris_id, n, more);
    const { json } = await service.post('/v1/trove/submit', body, as('other'));
    const { statement } = (await service.get(`/v1/trove/${json.record_id}`, OPERATOR)).json;
    const signature = sign(null, Buffer.from(statement), privateKey).toString('base64url');
    const proof = { type: 'signature', issuer: 'lendco-lab', signature };
    await service.post('/v1/trove/submit', { ...body, proof }, as('other'));
    const { decision, status } = await becomes(
      async () => (await service.get(`/v1/trove/${json.record_id}`, OPERATOR)).json,
      (seen) => seen.status !== 'Pending',
    );
    return [status, decision.reason_code];
  };
  expect(await decided('tris:alice', 11)).toEqual(['Approved', null]);
  expect(await decided('tris:lendco', 12)).toEqual(['Rejected', 'self_statement']);
  expect(await decided('tris:bot', 13, AGENT)).toEqual(['Rejected', 'self_statement']);
});

const OPERATIONS: [string, string, object?][] = [
  ['POST', '/v1/identities/tris:other/bad-status', { level: 1, reason_code: 'revenge' }],
  ['DELETE', '/v1/identities/tris:lendco/bad-status'],
  ['POST', '/v1/organizations/tris:lendco/vet'],
  ['POST', '/v1/organizations/tris:other/revoke'],
  ['POST', '/v1/organizations', { tris_org: 'tris:lendco', platform_ids: ['another'] }],
  ['POST', '/v1/platforms', { platform_id: 'another', tris_org: 'tris:lendco' }],
  ['GET', '/v1/organizations'],
  ['GET', '/v1/dead-letters'],
  ['GET', '/v1/jobs'],
  ['GET', '/v1/ops/status'],
  ['POST', '/v1/ops/rebuild', {}],
  ['DELETE', '/v1/ops/generations/g2'],
];

test.each(OPERATIONS)('a key of an organization with every scope does no %s %s', async (...operation) => {
  const [method, path, body] = operation;
  const answer = await (method === 'GET'
    ? service.get(path, LENDCO)
    : method === 'DELETE'
      ? service.delete(path, LENDCO)
      : service.post(path, body, LENDCO));
  expect(outcome(answer)).toEqual([403, 'forbidden']);
});

test('a key of an organization makes no policy of another one, and the refusal names it as its owner does', async () => {
  const policy = policyBody('VP_OTHER_V1', { financial_loan: 'Critical' }, 'tris:other');
  const answer = await service.post('/v1/policies/vp', policy, LENDCO);
  expect(outcome(answer)).toEqual([403, 'forbidden']);
  expect(answer.json.detail).toMatch(/^The key "[a-z]+" is bound to tris:lendco and cannot act for tris:other\.$/);
});

test('a key of an organization does not learn of a replay of a model', async () => {
  const { replay_id } = (await service.post('/v1/models/disc-2/replay', {}, OPERATOR)).json;
  const answer = await service.get(`/v1/replays/${replay_id}`, LENDCO);
  expect(outcome(answer)).toEqual([404, 'replay_not_found']);
});

test('a key of an organization promotes nothing for the platform', async () => {
  const policy = policyBody('VP_OWN_V1', { financial_loan: 'Critical' }, 'tris:lendco');
  expect((await service.post('/v1/policies/vp', policy, LENDCO)).status).toBe(201);
  const answer = await service.post('/v1/policies/vp/VP_OWN_V1/promote', { scope: 'platform' }, LENDCO);
  expect(outcome(answer)).toEqual([403, 'forbidden']);
});

test.each([
  ['/v1/platforms', { platform_id: 'eip155:1', tris_org: 'tris:lendco' }],
  ['/v1/organizations', { tris_org: 'tris:lendco', platform_ids: ['eip155:137'] }],
  ['/v1/organizations', { tris_org: 'tris:platform:dao.example', platform_ids: [] }],
  ['/api/decision-relay', action('tris:alice', 'eip155:1')],
  ['/api/decision-relay', action('tris:platform:dao.example', 'auditor')],
  ['/v1/identities/tris:platform:dao.example/verifications', grant],
])('%s takes no name that the service keeps for itself', async (path, body) => {
  const { status, json } = await service.post(path, body, OPERATOR);
  expect([status, json.code, json.errors[0].code]).toEqual([400, 'validation_failed', 'reserved']);
});

test.each([
  ['/api/decision-relay', action('tris:john.doe@gmail.com')],
  ['/api/decision-relay', action('tris:alice', 'jane@shop.example')],
  ['/api/link-account', { wallet: '0x9d85ca56217d2bb651b00f15e694eb7e713637d4', tris_id: 'tris:+4915112345678' }],
  ['/v1/organizations', { tris_org: 'tris:john@example.org:1', platform_ids: [] }],
  ['/v1/organizations', { tris_org: 'tris:dao', platform_ids: ['jane@shop.example:1'] }],
  ['/v1/identities/tris:john.doe@gmail.com/verifications', grant],
  ['/v1/trove/submit', record('tris:john.doe@gmail.com', 99)],
  ['/v1/policies/ap/check', { policy_id: 'AP_PERSON_V1', subject_tris: 'tris:john.doe@gmail.com' }],
  [
    '/v1/policies/ap',
    { policy_id: 'AP_JOHN_V1', rules: { verification: [{ status: 'zk-KYH', issuers: ['tris:john@example.org'] }] } },
  ],
  ['/v1/ops/keys', { key_id: 'john', scopes: ['reads'], organization: 'tris:john@example.org' }],
])('%s records no id that names a person', async (path, body) => {
  const { status, json } = await service.post(path, body, OPERATOR);
  expect([status, json.code]).toEqual([400, 'personal_data']);
  expect(json.detail).toMatch(/hash/);
});

test('access of an id that names a person is checked if it is recorded already, as in an older log', async () => {
  const tris_id = 'tris:jane.doe@gmail.com';
  const at = new Date().toISOString();
  const metadata = { occurred_at: at, recorded_at: at, correlation_id: 'c', actor: 'key:lendco', body_hash: 'b' };
  const data = { tris_id, level: 3, reason_code: 'fraud' };
  const event = {
    id: randomUUID(),
    type: 'BadStatusSet',
    data,
    metadata: { schema: 1, ...metadata, index: 0, size: 1 },
  };
  const subjects = ['tris:john.doe@gmail.com', tris_id, 'tris:nobody'];
  await service.stores.eventStore.append(`identity-${tris_id}`, 'no-stream', [event]);
  const headers = { ...OPERATOR, ...(await seen(service)) };
  const body = { policy_id: 'AP_PERSON_V1', subject_tris: subjects };
  const { results } = (await service.post('/v1/policies/ap/check/batch', body, headers)).json;
  expect(results).toMatchObject([
    { status: 400, problem: { code: 'personal_data', errors: [{ pointer: '/subject_tris' }] } },
    { status: 200, data: { granted: false } },
    { status: 200, data: { granted: false } },
  ]);
  // Nothing is recorded by this.
  const rules = { rules: { disc_min: 8 }, subjects };
  expect((await service.post('/v1/policies/ap/evaluate', rules, headers)).json.results).toHaveLength(3);
});

test('reads accept any stored id', async () => {
  for (const path of ['/v1/disc/score/tris:john.doe@gmail.com', '/v1/disc/score/tris:platform:dao.example']) {
    expect(outcome(await service.get(path, await seen(service)))).toEqual([404, 'identity_not_found']);
  }
});
