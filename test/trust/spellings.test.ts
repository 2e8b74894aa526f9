import { spellingOf } from '../../src/kernel/identifiers.js';
import { eventId } from '../../src/stores/ports/event-encoding.js';
import { hashedStream } from '../../src/kernel/event-definition.js';
import { type Service, applied, policyBody, relay, startService } from '../policies/service.fixture.js';

/** An id that is an address has one spelling: with two, an identity could have two scores, one of them nobody's. */

const WALLET = '0x9d85ca56217d2bb651b00f15e694eb7e713637d4';
const CHECKSUMMED = '0x9D85ca56217D2bb651b00f15e694EB7E713637D4';
const OWN = `tris:${WALLET}`;
const OTHER = `tris:${CHECKSUMMED}`;

test.each([
  [OTHER, OWN],
  [`tris:${WALLET.toUpperCase()}`, OWN],
  [`tris:eip155:137:${CHECKSUMMED}`, `tris:eip155:137:${WALLET}`],
  [`tris:EIP155:0137:${WALLET}`, `tris:eip155:137:${WALLET}`],
  [`did:pkh:eip155:1:${CHECKSUMMED}`, `did:pkh:eip155:1:${WALLET}`],
  [`did:PKH:eip155:1:${WALLET}`, `did:pkh:eip155:1:${WALLET}`],
])('%s is spelled %s', (id, spelling) => expect([spellingOf(id), spellingOf(spelling)]).toEqual([spelling, spelling]));

test.each([
  'did:pkh:solana:4sGjMW1sUnHzSxGspuhpqLDx6wiyjNtZ:CKg5d12Jhpej1JqtmxLJgaFqqeYjxgPqToJ4LBdvG9Ev',
  'did:pkh:bip122:000000000019d6689c085ae165831e93:128Lkh3S7CkDTBZ8W7BbpsN3YYizJMp8p6',
  'did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK',
  `tris@${CHECKSUMMED}`,
  `${OTHER}0`,
  `tris:customer:${CHECKSUMMED}`,
  'tris:Alice',
])('the case of %s counts', (id) => expect(spellingOf(id)).toBe(id));

describe('the service', () => {
  let service: Service;
  beforeAll(async () => void (service = await startService()));
  afterAll(() => service.close());

  const action = (tris_id: string) => ({
    tris_id,
    action_type: 'loan_repayment',
    category: 'financial',
    criticality: 'high',
    platform_id: 'lender',
  });
  const grant = { status: 'zk-KYH', evidence_hash: 'a'.repeat(64) };
  const webhook = { url: 'https://lender.example/hook', events: ['score.crossed'] };
  const record = {
    record_type: 'milestone',
    metric: 'creative_code_contribution',
    criticality: 'high',
    title: 'Release',
    content_hash: 'b'.repeat(64),
    occurred_at: '2026-01-01T00:00:00Z',
  };
  const signIn = { address: WALLET, chain_id: 1, tris_id: OTHER };

  test.each<[string, unknown, string]>([
    ['/api/decision-relay', action(OTHER), '/tris_id'],
    ['/api/decision-relay', { ...action(OWN), counterparty: `tris:eip155:1:${CHECKSUMMED}` }, '/counterparty'],
    ['/api/link-account', { wallet: WALLET, tris_id: OTHER }, '/tris_id'],
    ['/v1/tris/auth/siwe/start', { ...signIn, purpose: 'claim' }, '/tris_id'],
    ['/v1/tris/auth/siwe/start', { ...signIn, purpose: 'link' }, '/tris_id'],
    ['/v1/tris/auth/siwe/start', { ...signIn, purpose: 'unlink' }, '/tris_id'],
    [
      '/v1/webhooks',
      { ...webhook, filter: { tris_ids: ['tris:alice', OTHER], score_below: 20 } },
      '/filter/tris_ids/1',
    ],
    ['/v1/organizations', { tris_org: OTHER, platform_ids: [] }, '/tris_org'],
    [`/v1/identities/${OTHER}/verifications`, grant, 'tris_id'],
    [`/v1/identities/${OTHER}/bad-status`, { level: 6, reason_code: 'fraud' }, 'tris_id'],
    ['/v1/trove/submit', { ...record, tris_id: OTHER }, '/tris_id'],
    ['/v1/policies/vp', policyBody('VP_X_V1', { finance_loan_repayment: 'High' }, OTHER), '/tris_org'],
    ['/v1/issuers', { issuer: OTHER, statuses: ['zk-KYH'] }, '/issuer'],
    ['/v1/ops/keys', { key_id: 'k', scopes: ['reads'], organization: OTHER }, '/organization'],
  ])('%s refuses another spelling, and names the right id', async (path, body, pointer) => {
    const { status, json } = await service.post(path, body);
    expect([status, json.errors]).toEqual([400, [expect.objectContaining({ pointer, code: 'address_spelling' })]]);
    expect(json.errors[0].message).toContain(
      `must be tris:${pointer === '/counterparty' ? 'eip155:1:' : ''}${WALLET}: `,
    );
  });

  test.each(['eip155:1', 'EIP155:1', 'Eip155:lender'])('nobody owns or relays for %s', async (platform) => {
    const answers = [
      await service.post('/api/decision-relay', { ...action(OWN), platform_id: platform }),
      await service.post('/v1/organizations', { tris_org: 'tris:lendco', platform_ids: [platform] }),
    ];
    for (const { status, json } of answers) expect([status, json.errors[0].code]).toEqual([400, 'reserved']);
  });

  test.each(['tris:platform:x', 'tris:Platform:x'])('%s is the name of no identity', async (id) => {
    const { status, json } = await service.post('/api/decision-relay', action(id));
    expect([status, json.errors[0].code]).toEqual([400, 'reserved']);
  });

  test('each action of a batch by itself', async () => {
    const { json } = await service.post('/v1/decision-relay/batch', { actions: [action(OTHER), action(OWN)] });
    expect(json.results.map(({ status }: { status: number }) => status)).toEqual([400, 202]);
  });

  test('a read of another spelling is 404, which names the right id', async () => {
    await relay(service, [action(OWN)]);
    await applied(service);
    const policy = { policy_id: 'AP_ANY_V1', rules: { disc_min: 1 } };
    expect((await service.post('/v1/policies/ap', policy)).status).toBe(201);
    const key = { 'x-api-key': service.key };
    const answers = [
      await service.get(`/api/disc-score/${OTHER}`),
      await service.get(`/v1/disc/score/${OTHER}/history`),
      await service.get(`/api/tris-validations/${OTHER}`),
      await service.get(`/api/disc-rank/${OTHER}`),
      await service.get(`/v1/organizations/${OTHER}`, key),
      await service.get(`/v1/wallets/${OTHER}`, key),
      await service.get(`/v1/policies/ap?tris_org=${OTHER}`),
      await service.get(`/v1/policies/vp?tris_org=${OTHER}`),
      await service.get(`/v1/disc/changes/stream?tris_ids=${OWN},${OTHER}`, key),
      await service.get(`/v1/trove?tris_id=${OTHER}`, key),
      await service.get(`/v1/access/decisions?subject=${OTHER}`, key),
      await service.post('/v1/policies/ap/check', { policy_id: 'AP_ANY_V1', subject_tris: OTHER }),
      await service.post('/v1/policies/ap/evaluate', { rules: policy.rules, subjects: [OWN, OTHER] }),
    ];
    for (const { status, json } of answers) {
      expect([status, json.detail]).toEqual([404, expect.stringContaining(` Its id is ${OWN}: `)]);
    }
    const { json } = await service.post('/v1/disc/score/batch', { tris_ids: [OWN, OTHER] });
    expect(json.results.map(({ problem }: any) => problem?.detail ?? null)).toEqual([
      null,
      expect.stringContaining(`Its id is ${OWN}: `),
    ]);
    const { json: right } = await service.get('/api/disc-score/tris:nobody');
    expect(right.detail).toBe('Nothing is known about tris:nobody.');
  });

  test('what an earlier build recorded under another spelling is read under it', async () => {
    const old = `tris:eip155:1:${CHECKSUMMED}`;
    const stream = hashedStream('action', 'lender', 'old');
    const body_hash = 'c'.repeat(64);
    const at = new Date().toISOString();
    const metadata = { occurred_at: at, recorded_at: at, correlation_id: 'c', actor: 'key:lender', body_hash };
    const data = { tris_id: old, metric: 'financial_loan_repayment', criticality: 'High', platform_id: 'lender' };
    const event = {
      id: eventId(stream, body_hash, 0),
      type: 'ActionRelayed',
      data: { ...data, evidence_hash: null },
      metadata: { ...metadata, schema: 1, index: 0, size: 1 },
    };
    await service.stores.eventStore.append(stream, 'no-stream', [event]);
    await applied(service);
    const { status, json } = await service.get(`/api/disc-score/${old}`);
    expect([status, json.tris_id, json.total_tct]).toEqual([200, old, 100]);
    const check = { policy_id: 'AP_ANY_V1', subject_tris: old };
    expect((await service.post('/v1/policies/ap/check', check)).json).toMatchObject({ granted: true });
  });
});
