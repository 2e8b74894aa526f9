import { randomUUID } from 'node:crypto';
import fc from 'fast-check';
import { readSigned } from '../../src/credentials/jws.js';
import { NOTICE_CODES } from '../../src/features/access/notice.js';
import { codes, read, section, tableRows } from '../docs/markdown.js';
import { type Service, as, seen, startServiceWithKeys } from './service.fixture.js';
import { type Tokens, bearer, claim, newAccount } from '../sessions/wallet.js';

/** Notices of access decisions over HTTP: who gets which, what they say, and in which form. */

const KEYS = [
  { id: 'operator', scopes: ['ops', 'relay:write', 'identity:write'] },
  { id: 'bank', scopes: ['policies:write', 'access:check', 'identity:write'], organization: 'tris:bank' },
  { id: 'other', scopes: ['access:check'], organization: 'tris:other' },
  { id: 'reads', scopes: ['reads'] },
];
const DAY = 86_400_000;

let service: Service;
let now = Date.now();
beforeAll(async () => void (service = await startServiceWithKeys(KEYS, { CREDENCE_PUBLIC_READS: 'none' }, () => now)));
afterAll(() => service.close());

async function post(path: string, body: unknown, key = 'operator') {
  const answer = await service.post(path, body, { ...as(key), ...(await seen(service)) });
  if (answer.status >= 300) throw new Error(`${path}: ${answer.text}`);
  return answer.json;
}
const act = (tris_id: string, action_type: string, daysAgo: number, criticality = 'critical') =>
  post('/api/decision-relay', {
    tris_id,
    action_type,
    category: 'financial',
    criticality,
    platform_id: 'lender',
    occurred_at: new Date(now - daysAgo * DAY).toISOString(),
  });

let serial = 0;
/** The id of a decision of the bank about a subject by these rules. */
async function decide(subject_tris: string, rules: object, visibility = 'private'): Promise<string> {
  const policy_id = `AP_NOTICE_${++serial}_V1`;
  await post('/v1/policies/ap', { policy_id, rules, visibility }, 'bank');
  await post('/v1/policies/ap/check', { policy_id, subject_tris }, 'bank');
  const query = `?policy_id=${policy_id}`;
  const { json } = await service.get(`/v1/access/decisions${query}`, { ...as('bank'), ...(await seen(service)) });
  return json.decisions[0].jti;
}
const notice = async (jti: string, headers: Record<string, string>) =>
  service.get(`/v1/access/decisions/${jti}/notice`, { ...headers, ...(await seen(service)) });
/** Of the notice; those of the decision are the same. */
const codesFor = async (subject: string, rules: object) => {
  const jti = await decide(subject, rules);
  const codes = (await notice(jti, as('bank'))).json.reasons.map(({ code }: { code: string }) => code);
  expect((await service.get(`/v1/access/decisions/${jti}`, as('bank'))).json.codes).toEqual(codes);
  return codes;
};

describe('of a denial by a private policy', () => {
  let own: Tokens & { tris_id: string };
  let jti: string;
  beforeAll(async () => {
    own = await claim(service, newAccount());
    await act(own.tris_id, 'loan_repayment', 1);
    jti = await decide(own.tris_id, { disc_min: 55.5, verification: ['zk-KYH'] });
  });

  test('the subject reads reasons, its own values and how to contest it, but no thresholds', async () => {
    const { status, json, text } = await notice(jti, bearer(own));
    expect([status, json]).toEqual([
      200,
      {
        jti,
        policy_id: expect.stringMatching(/^AP_NOTICE_/),
        organization: 'tris:bank',
        subject_tris: own.tris_id,
        granted: false,
        checked_at: expect.stringMatching(/Z$/),
        score: expect.any(Number),
        scale: { lowest: 0, highest: 100 },
        reasons: [
          {
            code: 'score_below_minimum',
            fact: 'net_tct',
            actual: 140,
            sentence: expect.stringMatching(
              /^The score is below the minimum: the score was [\d.]+, the net TCT 140\.$/,
            ),
          },
          {
            code: 'verification_missing',
            fact: 'verification.zk-KYH',
            actual: false,
            sentence: 'A verification is missing: zk-KYH.',
          },
        ],
        dispute: expect.stringMatching(/\/v1\/me\/export .* POST \/v1\/disputes/),
        erasure: expect.stringMatching(/texts are deleted.*The log is permanent/),
        as_of: expect.stringMatching(/Z$/),
        position: expect.stringMatching(/\.\d+$/),
        lens: expect.any(Object),
        model: { id: expect.stringMatching(/^disc-/), hash: expect.any(String) },
        timestamp: expect.stringMatching(/Z$/),
        proof: expect.any(String),
      },
    ]);
    // Nor in a time, such as 02:57:55.537.
    expect(text).not.toMatch(/(?<!:\d\d:)55\.5/);
  });

  test('the subject reads the codes of the decision, and no thresholds', async () => {
    const { json } = await service.get(`/v1/access/decisions/${jti}`, bearer(own));
    expect(json).toMatchObject({
      reasons: [],
      how_to_pass: [],
      codes: ['score_below_minimum', 'verification_missing'],
    });
  });

  test('the organization of the policy reads thresholds, too', async () => {
    const { json } = await notice(jti, as('bank'));
    expect(json.reasons[0].required).toBeGreaterThan(140);
    expect(json.reasons[0].sentence).toMatch(
      /The policy asks for a net TCT of at least \d+, which is a score of 55\.5\.$/,
    );
    expect(json.reasons[1]).toMatchObject({ code: 'verification_missing', required: true });
  });

  test('nobody else reads it', async () => {
    const other = await claim(service, newAccount());
    for (const headers of [bearer(other), as('other')]) {
      expect((await notice(jti, headers)).json.code).toBe('decision_not_found');
    }
    for (const key of ['reads', 'operator']) expect((await notice(jti, as(key))).json.code).toBe('forbidden');
    expect((await notice(jti, {})).json.code).toBe('unauthorized');
  });

  test('its signature covers all of it', async () => {
    const { proof, ...said } = (await notice(jti, bearer(own))).json;
    const { json } = await service.get('/.well-known/jwks.json');
    expect(readSigned(proof, 'credence-notice+jws', json)).toMatchObject({
      payload: { sub: own.tris_id, notice: said },
    });
    const [head, , signature] = proof.split('.');
    const forged = Buffer.from(JSON.stringify({ sub: own.tris_id, notice: { ...said, granted: true } }));
    const changed = [head, forged.toString('base64url'), signature].join('.');
    expect(readSigned(changed, 'credence-notice+jws', json)).toMatchObject({ wrong: 'signature' });
  });

  test('is text or HTML where Accept names that first', async () => {
    const inForm = async (accept: string) => (await notice(jti, { ...bearer(own), accept })) as never as Form;
    interface Form {
      headers: Record<string, string>;
      text: string;
    }
    const text = await inForm('text/plain, application/json');
    expect(text.headers['content-type']).toBe('text/plain; charset=utf-8');
    expect(text.text).toMatch(
      /^Notice of the access decision .*\nAccess was denied to .*\nThe score was .* from 0 to 100/,
    );
    expect(text.text).toContain('Reason 2 (verification_missing): A verification is missing: zk-KYH.\n');
    const html = await inForm('text/html,application/xhtml+xml,*/*;q=0.8');
    expect(html.headers).toMatchObject({
      'content-type': 'text/html; charset=utf-8',
      vary: expect.stringMatching(/accept/i),
    });
    expect(html.headers['content-security-policy']).toBe("default-src 'none'");
    expect(html.text).toContain('<p>Reason 2 (verification_missing): A verification is missing: zk-KYH.</p>');
    for (const accept of ['*/*', 'application/json, text/html'])
      expect((await inForm(accept)).headers['content-type']).toBe('application/json; charset=utf-8');
  });
});

test('of a public policy shows the subject thresholds, and of a grant no reasons', async () => {
  const own = await claim(service, newAccount());
  await act(own.tris_id, 'loan_repayment', 1);
  const denied = await notice(await decide(own.tris_id, { disc_min: 55.5 }, 'public'), bearer(own));
  expect(denied.json.reasons[0].sentence).toContain('a score of 55.5');
  const jti = await decide(own.tris_id, { disc_min: 1 });
  expect((await notice(jti, bearer(own))).json).toMatchObject({ granted: true, reasons: [] });
  expect((await service.get(`/v1/access/decisions/${jti}`, bearer(own))).json).toMatchObject({
    granted: true,
    codes: [],
  });
});

describe('names the cause', () => {
  const expectCause = async (subject: string, rules: object, code: string) =>
    expect(await codesFor(subject, rules)).toEqual([code]);

  test('negative evidence, recent or older, without which the score would be enough', async () => {
    for (const [subject, daysAgo, code] of [
      ['tris:recent', 10, 'negative_evidence_recent'],
      ['tris:severe', 200, 'negative_evidence_severe'],
    ] as const) {
      for (let day = 300; day < 304; day++) await act(subject, 'loan_repayment', day);
      await act(subject, 'late_payment_flags', daysAgo);
      await expectCause(subject, { tct_min: 300 }, code);
      await expectCause(subject, { tct_min: 100_000 }, 'tct_below_minimum');
    }
  });

  test('evidence that is too little, or old, by a model that measures it', async () => {
    await post('/v1/models/disc-2/promote', undefined);
    await act('tris:thin', 'loan_repayment', 1);
    await expectCause('tris:thin', { evidence_min: 50 }, 'evidence_not_enough');
    await act('tris:old', 'loan_repayment', 700);
    await expectCause('tris:old', { evidence_min: 50 }, 'evidence_old');
    await expectCause('tris:old', { reliability_min: 0.5 }, 'evidence_old');
  });

  test('categories, with evidence and without', async () => {
    await act('tris:category', 'loan_repayment', 1);
    await expectCause('tris:category', { metrics: { financial: 0.99 } }, 'category_below_minimum');
    await expectCause('tris:category', { metrics: { social: 0.1 } }, 'category_without_evidence');
  });

  test('verifications that are missing, expired, or by others, also in a decision that is old by now', async () => {
    await act('tris:verified', 'loan_repayment', 1);
    await expectCause('tris:verified', { verification: ['zk-KYH'] }, 'verification_missing');
    const expires_at = new Date(now + DAY).toISOString();
    const grant = { status: 'zk-KYH', evidence_hash: 'a'.repeat(64), expires_at };
    await post('/v1/identities/tris:verified/verifications', grant, 'bank');
    const before = await decide('tris:verified', { verification: ['zk-KYH'] });
    const named = { verification: [{ status: 'zk-KYH', issuers: ['tris:other'] }] };
    await expectCause('tris:verified', named, 'verification_issuer_not_accepted');
    now += 2 * DAY;
    await expectCause('tris:verified', named, 'verification_expired');
    const { json } = await notice(before, as('bank'));
    expect(json.reasons.map(({ code }: { code: string }) => code)).toEqual(['verification_issuer_not_accepted']);
  });

  test('a BAD status, before all others; an unknown identity; what the rules exclude', async () => {
    await act('tris:bad', 'loan_repayment', 1);
    await post('/v1/identities/tris:bad/bad-status', { level: 2, reason_code: 'fraud' });
    expect(await codesFor('tris:bad', { disc_min: 55.5 })).toEqual(['bad_status', 'score_below_minimum']);
    await expectCause('tris:unknown', { disc_min: 55.5 }, 'score_below_minimum');
    await expectCause('tris:nobody', { disc_min: 1 }, 'identity_unknown');
    await act('tris:excluded', 'loan_repayment', 1);
    await expectCause('tris:excluded', { not: { disc_min: 1 } }, 'above_maximum');
  });
});

test('a check, a retry of it and a trial of its rules give the codes of the notice', async () => {
  const least = fc.constantFrom(0, 0.2, 0.6, 0.99);
  const condition = fc.oneof(
    fc.record({ disc_min: fc.constantFrom(1, 8, 55.5, 100) }),
    fc.record({ tct_min: fc.constantFrom(1, 150, 300, 100_000) }),
    fc.record({ reliability_min: least }),
    fc.record({ evidence_min: fc.constantFrom(0, 2, 50) }),
    fc.record({ metrics: fc.dictionary(fc.constantFrom('financial', 'social', 'creative'), least, { minKeys: 1 }) }),
    fc
      .constantFrom('zk-KYH', 'zk-KYC (ID only)', 'BAD Status validation')
      .map((status) => ({ verification: [status] })),
    fc.constantFrom('tris:bank', 'tris:other').map((by) => ({ verification: [{ status: 'zk-KYH', issuers: [by] }] })),
  );
  const parts = fc.array(condition, { minLength: 1, maxLength: 6 });
  const rules = fc.oneof(
    parts.map((all) => ({ all })),
    parts.map((any) => ({ any })),
    parts.map((of) => ({ at_least: of.length, of })),
    condition.map((not) => ({ not })),
  );
  const subjects = ['recent', 'severe', 'thin', 'old', 'category', 'verified', 'bad', 'excluded', 'nobody'];
  const told = new Set<string>();
  await fc.assert(
    fc.asyncProperty(rules, fc.constantFrom(...subjects), async (tried, name) => {
      const subject = `tris:${name}`;
      const jti = await decide(subject, tried);
      const { policy_id, reasons } = (await notice(jti, as('bank'))).json;
      const codes = reasons.map(({ code }: { code: string }) => code);
      const check = { policy_id, subject_tris: subject };
      const once = { ...as('bank'), 'idempotency-key': randomUUID() };
      for (const headers of [as('bank'), once, once]) {
        expect((await service.post('/v1/policies/ap/check', check, headers)).json.codes).toEqual(codes);
      }
      const dryRun = await service.post('/v1/policies/ap/evaluate', { rules: tried, subjects: [subject] }, as('bank'));
      expect(dryRun.json.results[0].codes).toEqual(codes);
      for (const code of codes) told.add(code);
    }),
    { numRuns: 150 },
  );
  expect(told.size).toBeGreaterThan(8);
});

test('every code is in docs/policies.md, with what it says', () => {
  const rows = tableRows(section(read('docs/policies.md'), 'Notices'));
  expect(rows.map(([code, meaning]) => [codes(code!)[0], meaning])).toEqual(Object.entries(NOTICE_CODES));
});
