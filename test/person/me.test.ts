import { SCOPES } from '../../src/credentials/caller.js';
import { isAbout } from '../../src/cli/export.js';
import { sha256Hex } from '../../src/kernel/hash.js';
import { exportLines } from '../../src/stores/transfer.js';
import { type Service, as, seen, startServiceWithKeys } from '../policies/service.fixture.js';
import { type Tokens, bearer, call, claim, consent, newAccount, signIn } from '../sessions/wallet.js';

/** What a person reads of themselves with a session: whom it acts for, and everything that is recorded. */

const KEYS = [
  { id: 'operator', scopes: SCOPES },
  { id: 'operator-2', scopes: SCOPES },
  { id: 'lendco', scopes: SCOPES, organization: 'tris:lendco' },
  { id: 'bank', scopes: SCOPES, organization: 'tris:bank' },
];

let service: Service;
beforeAll(async () => {
  service = await startServiceWithKeys(KEYS, { CREDENCE_PUBLIC_READS: 'none' });
  await post('/v1/organizations', { tris_org: 'tris:lendco', platform_ids: ['lendco-app'] });
});
afterAll(() => service.close());

async function post(path: string, body: unknown, key = 'operator') {
  const answer = await service.post(path, body, { ...as(key), ...(await seen(service)) });
  if (answer.status >= 300) throw new Error(`${path}: ${answer.text}`);
  return answer.json;
}
const relay = (tris_id: string, more: object = {}) =>
  post('/api/decision-relay', {
    tris_id,
    action_type: 'loan_repayment',
    category: 'financial',
    criticality: 'critical',
    platform_id: 'lendco-app',
    ...more,
  });
const me = async (tokens: Tokens, what = '') =>
  service.get(`/v1/me${what}`, { ...bearer(tokens), ...(await seen(service)) });

describe('GET /v1/me', () => {
  test('says for each wallet of the TRIS whom it acts for, and what is stated about them', async () => {
    const founder = await claim(service, newAccount());
    const { tris_id } = founder;
    const second = newAccount();
    const { message, signature } = await consent(service, second, tris_id);
    expect((await call(service, '/v1/wallets/link', { message, signature }, bearer(founder))).status).toBe(200);
    const other = (await signIn(service, second)).json as Tokens;
    await post(`/v1/identities/${tris_id}/bad-status`, { level: 3, reason_code: 'fraud' });
    await post(
      `/v1/identities/${tris_id}/verifications`,
      { status: 'zk-KYH', evidence_hash: 'a'.repeat(64) },
      'lendco',
    );
    const about = async (what: object) =>
      (await service.post('/v1/disputes', what, { ...bearer(founder), ...(await seen(service)) })).json.dispute_id;
    const answered = await about({ bad_status: true });
    const held = await about({ verification: 'zk-KYH' });
    await post(`/v1/disputes/${answered}/answer`, { outcome: 'rejected' });
    for (const tokens of [founder, other]) {
      const { status, json } = await me(tokens);
      expect([status, json]).toEqual([
        200,
        {
          key_id: `session:${tokens.wallet.toLowerCase()}`,
          scopes: [],
          organization: null,
          tris_ids: [tris_id],
          session: { wallet: tokens.wallet, chain_id: null, expires_at: expect.stringMatching(/Z$/) },
          wallets: expect.any(Array),
          verification: [expect.objectContaining({ status: 'zk-KYH', issuer: 'tris:lendco' })],
          bad_status: { level: 3, reason_code: 'fraud', since: expect.any(String) },
          disputes: [expect.objectContaining({ dispute_id: held, about: 'verification', verification: 'zk-KYH' })],
        },
      ]);
      expect(json.wallets.map(({ wallet }: Tokens) => wallet).sort()).toEqual([founder.wallet, other.wallet].sort());
    }
  });

  test('says that a wallet that signed for no TRIS acts for none, of which nothing can be exported', async () => {
    const tokens = (await signIn(service, newAccount())).json as Tokens;
    expect((await me(tokens)).json).toMatchObject({ tris_ids: [], wallets: [], verification: [], disputes: [] });
    expect((await me(tokens, '/export')).json.code).toBe('forbidden');
  });

  test('is not for a session that has ended, nor is the export for keys', async () => {
    expect((await service.get('/v1/me/export')).json.code).toBe('unauthorized');
    expect((await service.get('/v1/me/export', as('operator'))).json.code).toBe('forbidden');
    const tokens = await claim(service, newAccount());
    await post('/v1/wallets/unlink', { wallet: tokens.wallet, reason_code: 'lost' });
    expect((await me(tokens)).json.code).toBe('session_revoked');
    expect((await me(tokens, '/export')).json.code).toBe('session_revoked');
  });
});

interface Line {
  event_id: string;
  type: string;
  organization?: string | null;
  data: Record<string, unknown>;
  texts?: Record<string, string>;
}

async function exported(tokens: Tokens): Promise<{ text: string; lines: Line[]; trailer: { end_of_export: object } }> {
  const { status, text } = await me(tokens, '/export');
  expect(status).toBe(200);
  const lines = text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  return { text, lines: lines.slice(0, -1), trailer: lines.at(-1) };
}

describe('GET /v1/me/export', () => {
  const account = newAccount();
  let tokens: Tokens & { tris_id: string };
  let written: Awaited<ReturnType<typeof exported>>;

  beforeAll(async () => {
    tokens = await claim(service, account);
    const { tris_id } = tokens;
    // More than are read at a time, of which some are withdrawn.
    const actions = Array.from({ length: 300 }, () => ({
      tris_id,
      action_type: 'loan_repayment',
      category: 'financial',
      criticality: 'critical',
      platform_id: 'lendco-app',
      counterparty: 'tris:shop',
    }));
    const { results } = await post('/v1/decision-relay/batch', { actions });
    for (const { data } of results.slice(0, 2)) {
      await post(`/v1/actions/${data.action_id}/withdraw`, { reason: 'mistake' });
    }
    await post(`/v1/actions/${results[0].data.action_id}/reinstate`, { reason: 'mistake' });
    await relay(tris_id, { evidence_uri: 'https://lendco.example/evidence/1' });
    const named = await relay('tris:debtor', { counterparty: tris_id });
    await post(`/v1/actions/${named.action_id}/withdraw`, { reason: 'mistake' });
    await relay('tris:debtor');
    await post(`/v1/identities/${tris_id}/verifications`, { status: 'zk-KYH', evidence_hash: 'a'.repeat(64) });
    const said = { verification: 'zk-KYH', statement: 'A statement' };
    const { json } = await service.post('/v1/disputes', said, { ...bearer(tokens), ...(await seen(service)) });
    await post(`/v1/disputes/${json.dispute_id}/answer`, { outcome: 'rejected', note: 'A note' });
    const content_hash = 'b'.repeat(64);
    const made = { metric: 'creative_code_contribution', criticality: 'high', occurred_at: '2026-01-31T12:00:00Z' };
    await post(
      '/v1/trove/submit',
      { ...made, tris_id, record_type: 'milestone', title: 'A title', content_hash },
      'operator-2',
    );
    await post(`/v1/trove/${content_hash}/review`, { decision: 'approve', platform_id: 'trove' });
    for (const [policy_id, disc_min] of [
      ['AP_HIGH_V1', 99.5],
      ['AP_LOW_V1', 1],
    ] as const) {
      await post('/v1/policies/ap', { policy_id, rules: { disc_min } }, 'bank');
      const { eligibility_token } = await post('/v1/policies/ap/check', { policy_id, subject_tris: tris_id }, 'bank');
      if (eligibility_token) await post('/v1/eligibility/revoke', { token: eligibility_token }, 'bank');
    }
    await post('/v1/wallets/end-sessions', { wallet: tokens.wallet, reason_code: 'stolen' });
    tokens = await claim(service, account);
    written = await exported(tokens);
  });

  test('has the same events as the export of the command line, each once, and the ends of sessions', async () => {
    const expected: { id: string; type: string }[] = [];
    for await (const text of exportLines(service.stores.eventStore, isAbout(tokens.tris_id))) {
      for (const line of text.trim().split('\n')) if (!line.includes('end_of_export')) expected.push(JSON.parse(line));
    }
    const ends = written.lines.filter(({ type }) => type === 'SessionsEnded');
    expect(ends).toHaveLength(1);
    const named = written.lines
      .filter((line) => !ends.includes(line))
      .map(({ event_id, type }) => `${type} ${event_id}`);
    expect(named.sort()).toEqual(expected.map(({ id, type }) => `${type} ${id}`).sort());
    expect(new Set(written.lines.map(({ type }) => type)).size).toBeGreaterThan(9);
  });

  test('ends with the number of events and the hash of the lines', () => {
    const lines = written.text.slice(0, written.text.lastIndexOf('\n', written.text.length - 2) + 1);
    expect(written.trailer).toEqual({
      end_of_export: { events: written.lines.length, damaged: 0, sha256: sha256Hex(lines), about: tokens.tris_id },
      erasure: expect.stringMatching(/texts are deleted.*The log is permanent/),
    });
  });

  test('names organizations and counterparties, and shows texts, but no ids of keys', () => {
    const ofType = (wanted: string) => written.lines.filter(({ type }) => type === wanted);
    expect(ofType('ActionRelayed')[0]).toMatchObject({
      organization: 'tris:lendco',
      data: { counterparty: 'tris:shop' },
    });
    expect(written.lines.map(({ texts }) => texts)).toEqual(
      expect.arrayContaining([
        { evidence: 'https://lendco.example/evidence/1' },
        { title: 'A title' },
        { statement: 'A statement' },
        { note: 'A note' },
      ]),
    );
    expect(ofType('VerificationGranted')[0]!.data['issuer']).toBeNull();
    expect(written.text).not.toMatch(/key:(operator|lendco|bank)/);
  });

  test('says which way a decision went, but not the thresholds of private rules', () => {
    const decisions = written.lines.filter(({ type }) => type === 'AccessChecked');
    expect(decisions.map(({ organization, data }) => [organization, data['granted'], data['reasons']])).toEqual([
      ['tris:bank', false, []],
      ['tris:bank', true, []],
    ]);
    expect(written.text).not.toContain('99.5');
  });
});
