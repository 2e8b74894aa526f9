import { audit } from '../../src/features/access/audit.js';
import { SCOPES } from '../../src/credentials/caller.js';
import { type Service, as, policyBody, seen, startService, startServiceWithKeys } from '../policies/service.fixture.js';

/** Which verifications count: those of issuers that the operators, or the policy itself, name. */

const KYC = 'zk-KYC (ID + AML)';
const KEYS = [
  { id: 'operator', scopes: [...SCOPES] },
  { id: 'desk', scopes: ['identity:write'] },
  ...['bank', 'crook'].map((id) => ({
    id,
    scopes: ['identity:write', 'ops'],
    organization: `tris:${id}`,
  })),
];
const OPERATOR = as('operator');

let service: Service;
beforeAll(async () => {
  service = await startServiceWithKeys(KEYS);
  await policy('AP_KYC_V1', [KYC]);
});
afterAll(() => service.close());

async function policy(policy_id: string, verification: unknown[]): Promise<void> {
  const answer = await service.post('/v1/policies/ap', { policy_id, rules: { verification } }, OPERATOR);
  expect([answer.status, answer.text]).toEqual([201, expect.any(String)]);
}
async function grant(key: string, tris_id: string): Promise<void> {
  const body = { status: KYC, evidence_hash: 'a'.repeat(64) };
  expect((await service.post(`/v1/identities/${tris_id}/verifications`, body, as(key))).status).toBe(201);
}
const verified = async (tris_id: string, query = '') =>
  (await service.get(`/v1/disc/score/${tris_id}${query}`, await seen(service))).json.verification;
async function check(subject_tris: string, policy_id = 'AP_KYC_V1') {
  const headers = { ...OPERATOR, ...(await seen(service)) };
  return (await service.post('/v1/policies/ap/check', { policy_id, subject_tris }, headers)).json;
}
/** Whether AP_KYC_V1 grants, as the preview of a validation policy shows it. */
async function previewed(subject: string): Promise<boolean> {
  const draft = policyBody('VP_DRAFT_V1', { social_vouch: 'Low' });
  const body = { policy: draft, subjects: [subject], access_policies: ['AP_KYC_V1'] };
  const headers = { ...OPERATOR, ...(await seen(service)) };
  return (await service.post('/v1/policies/vp/evaluate', body, headers)).json.results[0].access[0].before;
}
const accredit = (issuer: string, statuses = [KYC], headers = OPERATOR) =>
  service.post('/v1/issuers', { issuer, statuses }, headers);

test('an organization’s grant is returned but does not count; an operator’s counts', async () => {
  await grant('crook', 'tris:a');
  expect(await verified('tris:a')).toEqual([
    { status: KYC, issuer: 'tris:crook', scheme: 'operator', expires_at: null, accredited: false },
  ]);
  expect(await check('tris:a')).toMatchObject({
    granted: false,
    reasons: [{ pointer: '/verification/0', rule: 'verification', required: KYC, actual: false }],
    how_to_pass: [{ fact: `verification.${KYC}`, required: true }],
  });
  expect(await previewed('tris:a')).toBe(false);
  // A key without `ops` is no operator, though it is bound to no organization.
  await grant('desk', 'tris:b');
  expect((await check('tris:b')).granted).toBe(false);
  await grant('operator', 'tris:a');
  expect((await verified('tris:a')).map(({ accredited }: any) => accredited)).toEqual([false, true]);
  expect((await check('tris:a')).granted).toBe(true);
  expect(await previewed('tris:a')).toBe(true);
});

test('an accredited issuer’s grants count from then on, until that is withdrawn; the past keeps its answer', async () => {
  await grant('bank', 'tris:c');
  const before = (await check('tris:c')).granted;
  const first = await accredit('tris:bank');
  expect([first.status, first.json]).toEqual([200, { issuer: 'tris:bank', statuses: [KYC] }]);
  expect([before, (await check('tris:c')).granted]).toEqual([false, true]);
  const then = first.headers['credence-position'] as string;
  const again = await accredit('tris:bank');
  expect([again.json.statuses, again.headers['credence-position']]).toEqual([[KYC], then]);
  const withdrawn = await service.delete('/v1/issuers/tris:bank', OPERATOR);
  expect([withdrawn.status, withdrawn.json]).toEqual([200, { issuer: 'tris:bank', statuses: [] }]);
  expect((await check('tris:c')).granted).toBe(false);
  const accreditedAt = async (query: string) =>
    (await verified('tris:c', query)).map(({ accredited }: any) => accredited);
  expect(await accreditedAt(`?as_of_position=${then}`)).toEqual([true]);
  expect(await accreditedAt('')).toEqual([false]);
});

test('with known_at, what counts is what was known of the issuer by then, whenever the identity’s own events were', async () => {
  let now = Date.parse('2026-05-01T00:00:00.000Z');
  const days = (count: number) => (now += count * 86_400_000);
  const own = await startServiceWithKeys(KEYS, {}, () => now);
  try {
    const body = { status: KYC, evidence_hash: 'a'.repeat(64) };
    await own.post('/v1/identities/tris:c/verifications', body, as('bank'));
    days(1);
    await own.post('/v1/issuers', { issuer: 'tris:bank', statuses: [KYC] }, OPERATOR);
    days(1);
    await own.delete('/v1/issuers/tris:bank', OPERATOR);
    days(1);
    await own.post('/v1/identities/tris:c/bad-status', { level: 6, reason_code: 'review' }, OPERATOR);
    days(1);
    const headers = await seen(own);
    const at = async (query: string) => {
      const { verification, position } = (await own.get(`/v1/disc/score/tris:c?${query}`, headers)).json;
      return [verification[0].accredited, position.split('.')[1]];
    };
    const known = (day: string) => at(`known_at=2026-05-${day}T12:00:00Z`);
    const [granted, accredited, withdrawn, reviewed] = [
      await known('01'),
      await known('02'),
      await known('03'),
      await known('04'),
    ];
    expect([granted, accredited, withdrawn, reviewed].map(([counts]) => counts)).toEqual([false, true, false, false]);
    // The position says so too: asked for, it gives the same answer.
    for (const answer of [granted, accredited, withdrawn, reviewed]) {
      expect(await at(`as_of_position=${own.stores.eventStore.logId}.${answer[1]}`)).toEqual(answer);
    }
  } finally {
    await own.close();
  }
});

test('an accreditation counts only for its statuses', async () => {
  await grant('bank', 'tris:d');
  await accredit('tris:bank', ['zk-KYH']);
  expect((await check('tris:d')).granted).toBe(false);
  await accredit('tris:bank', [KYC]);
  expect((await check('tris:d')).granted).toBe(true);
  await service.delete(`/v1/issuers/tris:bank?statuses=${encodeURIComponent(KYC)}`, OPERATOR);
  expect((await check('tris:d')).granted).toBe(false);
  const { json } = await service.get('/v1/issuers', { ...OPERATOR, ...(await seen(service)) });
  expect(json).toEqual({ issuers: [{ issuer: 'tris:bank', statuses: ['zk-KYH'] }], next_cursor: null });
});

test('a policy that names an issuer counts its grants, and how_to_pass names the issuer', async () => {
  await policy('AP_CROOKS_V1', [{ status: KYC, issuers: ['tris:crook'] }]);
  await policy('AP_SCHEME_V1', [{ status: KYC, issuers: ['tris:crook'], schemes: ['kyc-circuit'] }]);
  await grant('bank', 'tris:e');
  expect(await check('tris:e', 'AP_CROOKS_V1')).toMatchObject({
    granted: false,
    how_to_pass: [
      { fact: `verification.${KYC}`, required: true, issuers: ['tris:crook'], pointers: ['/verification/0'] },
    ],
  });
  await grant('crook', 'tris:e');
  expect((await check('tris:e', 'AP_CROOKS_V1')).granted).toBe(true);
  expect((await check('tris:e', 'AP_SCHEME_V1')).granted).toBe(false);
  expect((await check('tris:e')).granted).toBe(false);
});

test.each([
  [{ status: 'BAD Status validation', issuers: ['tris:bank'] }, '/rules/verification/0/status is_in'],
  [{ status: KYC, issuers: [] }, '/rules/verification/0/issuers is_array'],
  [{ status: KYC, schemes: [7] }, '/rules/verification/0/schemes is_array'],
  [{ status: KYC, by: ['tris:bank'] }, '/rules/verification/0/by unknown_field'],
  [{ issuers: ['tris:bank'] }, '/rules/verification/0/status is_in'],
])('the entry %j is refused', async (entry, error) => {
  const rules = { verification: [entry] };
  const { status, json } = await service.post('/v1/policies/ap', { policy_id: 'AP_WRONG_V1', rules }, OPERATOR);
  expect([status, `${json.errors[0].pointer} ${json.errors[0].code}`]).toEqual([400, error]);
});

test('only operators accredit', async () => {
  for (const key of ['bank', 'crook', 'desk']) expect((await accredit('tris:crook', [KYC], as(key))).status).toBe(403);
  expect((await service.delete('/v1/issuers/tris:bank', as('crook'))).status).toBe(403);
});

test('every decision is derived again from the log, whatever the accreditations are now', async () => {
  await policy('AP_BANKS_V1', [{ status: KYC, issuers: ['tris:bank'] }]);
  const decide = async () => [await check('tris:f'), await check('tris:f', 'AP_BANKS_V1')];
  await grant('crook', 'tris:f');
  await decide();
  await grant('bank', 'tris:f');
  await decide();
  await accredit('tris:bank');
  await decide();
  await service.delete('/v1/issuers/tris:bank', OPERATOR);
  await decide();
  const decisions = [];
  for await (const decision of audit(service.stores.eventStore, 'tris:f')) decisions.push(decision);
  const expected = [false, false, false, true, true, true, false, true];
  expect(decisions.map(({ granted, differences }) => [granted, differences])).toEqual(expected.map((one) => [one, []]));
});

test('grants and decisions from before anybody was accredited are derived again as they were made', async () => {
  const old = await startService();
  try {
    await old.post('/v1/policies/ap', { policy_id: 'AP_OLD_V1', rules: { verification: [KYC] } });
    await old.post('/v1/identities/tris:old/verifications', { status: KYC, evidence_hash: 'a'.repeat(64) });
    const headers = await seen(old);
    await old.post('/v1/policies/ap/check', { policy_id: 'AP_OLD_V1', subject_tris: 'tris:old' }, headers);
    // As an older build wrote them: grants do not name operators, nor decisions their rules of trust.
    const { eventStore } = old.stores;
    const earlier = {
      ...eventStore,
      logId: eventStore.logId,
      countAfter: eventStore.countAfter.bind(eventStore),
      readStream: eventStore.readStream.bind(eventStore),
      async *readAll(after: number) {
        for await (const slice of eventStore.readAll(after)) {
          yield slice.map((event) => {
            const { operator: _operator, trust: _trust, ...data } = event.data;
            const schema = { VerificationGranted: 1, AccessChecked: 4 }[event.type] ?? event.metadata.schema;
            return { ...event, data, metadata: { ...event.metadata, schema } };
          });
        }
      },
    };
    const decisions = [];
    for await (const decision of audit(earlier as never, 'tris:old')) decisions.push(decision);
    expect(decisions).toMatchObject([{ granted: true, differences: [] }]);
  } finally {
    await old.close();
  }
});

test('a repeated request says what was accredited then', async () => {
  const key = { ...OPERATOR, 'idempotency-key': 'accredit-once' };
  const first = await service.post('/v1/issuers', { issuer: 'tris:once', statuses: [KYC] }, key);
  expect((await service.delete('/v1/issuers/tris:once', OPERATOR)).status).toBe(200);
  const again = await service.post('/v1/issuers', { issuer: 'tris:once', statuses: [KYC] }, key);
  expect(again.json).toEqual(first.json);
});
