import { randomUUID } from 'node:crypto';
import type { JsonObject } from '../../src/kernel/json.js';
import { isAbout } from '../../src/cli/export.js';
import { appendsOf, exportLines } from '../../src/stores/transfer.js';
import { SigningKeys } from '../../src/credentials/signing-keys.js';
import { EligibilityTokens } from '../../src/features/access/tokens.js';
import type { AccessDecision } from '../../src/features/access/domain/ap.events.js';
import { audit } from '../../src/features/access/audit.js';
import { type Service, policyBody, relay, startService } from './service.fixture.js';

let service: Service;
/** ms that the service's clock is ahead. */
let ahead = 0;
beforeAll(async () => void (service = await startService({}, () => Date.now() + ahead)));
afterAll(() => service.close());

let serial = 0;
const unique = (prefix: string) => `${prefix}${++serial}`;

async function createPolicy(rules: object, more: object = {}): Promise<string> {
  const policy_id = `AP_${unique('T')}_V1`;
  const answer = await service.post('/v1/policies/ap', { policy_id, rules, ...more });
  if (answer.status !== 201) throw new Error(answer.text);
  return policy_id;
}

/** Checks once the service has applied everything up to `position`. */
async function check(policy_id: string, subject_tris: string, position?: string, more: object = {}, headers = {}) {
  const answer = await service.post(
    '/v1/policies/ap/check',
    { policy_id, subject_tris, ...more },
    { ...(position !== undefined && { 'credence-min-position': position }), ...headers },
  );
  if (answer.status !== 200) throw new Error(answer.text);
  return answer.json;
}

const claimsOf = (token: string) => JSON.parse(Buffer.from(token.split('.')[1]!, 'base64url').toString());
const verify = async (body: object) => (await service.post('/v1/eligibility/verify', body)).json;
const act = (tris_id: string, count = 1, criticality = 'critical') =>
  relay(
    service,
    Array.from({ length: count }, () => ({ tris_id, category: 'financial', action_type: 'repayment', criticality })),
  );

describe('POST /v1/policies/ap', () => {
  const rules = { disc_min: 60, metrics: { finance: 0.6 }, verification: ['zk-KYH'] };

  test('creates an immutable policy: the same content again is 200, other content 409', async () => {
    const body = { policy_id: 'AP_LOAN_V1', rules };
    const first = await service.post('/v1/policies/ap', body);
    expect([first.status, first.json]).toEqual([
      201,
      {
        policy_id: 'AP_LOAN_V1',
        status: 'active',
        content_hash: expect.stringMatching(/^[0-9a-f]{64}$/),
        ttl_seconds: 600,
        rules,
        vp: null,
        tris_org: null,
        visibility: 'private',
        created_at: expect.any(String),
      },
    ]);
    const { disc_min, metrics, verification } = rules;
    const again = await service.post('/v1/policies/ap', {
      rules: { verification, metrics, disc_min },
      policy_id: 'AP_LOAN_V1',
      ttl_seconds: 600,
    });
    expect([again.status, again.json]).toEqual([200, first.json]);
    expect((await service.get('/v1/policies/ap/AP_LOAN_V1', { 'x-api-key': service.key })).json).toEqual(first.json);
    for (const other of [
      { ...body, ttl_seconds: 601 },
      { ...body, rules: { disc_min: 61 } },
    ]) {
      const conflict = await service.post('/v1/policies/ap', other);
      expect([conflict.status, conflict.json.code]).toEqual([409, 'policy_conflict']);
    }
  });

  test('names every wrong node of the rules', async () => {
    const { status, json } = await service.post('/v1/policies/ap', {
      policy_id: 'AP_WRONG_V1',
      rules: { any: [{ disc_min: 101 }, { metrics: { finance: 60 } }, { not: {} }] },
    });
    expect([status, json.code]).toEqual([400, 'validation_failed']);
    expect(json.errors.map(({ pointer }: { pointer: string }) => pointer)).toEqual([
      '/rules/any/0/disc_min',
      '/rules/any/1/metrics/finance',
      '/rules/any/2/not',
    ]);
  });

  test.each<[object, string]>([
    [{ policy_id: 'AP_lend_V1' }, '/policy_id'],
    [{ policy_id: 'VP_LEND_V1' }, '/policy_id'],
    [{ policy_id: 'AP_LEND' }, '/policy_id'],
    [{ ttl_seconds: 0 }, '/ttl_seconds'],
    [{ ttl_seconds: 86_401 }, '/ttl_seconds'],
    [{ ttl_seconds: 1.5 }, '/ttl_seconds'],
    [{ rules: [] }, '/rules'],
    [{ rules: {} }, '/rules'],
    [{ vp: 'LEND' }, '/vp'],
    [{ name: 'x' }, '/name'],
  ])('refuses %j', async (change, pointer) => {
    const { status, json } = await service.post('/v1/policies/ap', { policy_id: 'AP_NO_V1', rules, ...change });
    expect([status, json.code, json.errors[0].pointer]).toEqual([400, 'validation_failed', pointer]);
  });

  test('refuses a VP that does not exist', async () => {
    const body = { policy_id: 'AP_NO_VP_V1', rules, vp: 'VP_NOWHERE_V1' };
    const { status, json } = await service.post('/v1/policies/ap', body);
    expect([status, json.code]).toEqual([404, 'policy_not_found']);
  });

  test('returns the first answer to a retry with the same Idempotency-Key', async () => {
    const body = { policy_id: 'AP_RETRY_V1', rules };
    const answers = [];
    for (let i = 0; i < 2; i++) answers.push(await service.post('/v1/policies/ap', body, { 'idempotency-key': 'r1' }));
    expect(answers.map(({ status }) => status)).toEqual([201, 201]);
    expect(answers[0]!.json).toEqual(answers[1]!.json);
  });

  test('lists policies page by page', async () => {
    const ids = [await createPolicy(rules), await createPolicy(rules)];
    const first = await service.post('/v1/policies/ap', { policy_id: `AP_${unique('LAST')}_V1`, rules });
    const seen: string[] = [];
    for (let cursor = ''; ;) {
      const { json } = await service.get(`/v1/policies/ap?limit=2${cursor}`, {
        'credence-min-position': String(first.headers['credence-position']),
      });
      seen.push(...json.policies.map((policy: { policy_id: string }) => policy.policy_id));
      if (json.next_cursor === null) break;
      cursor = `&cursor=${json.next_cursor}`;
    }
    expect(seen).toEqual([...new Set(seen)].sort());
    expect(seen).toEqual(expect.arrayContaining(ids));
    expect((await service.get('/v1/policies/ap/AP_NOWHERE_V1')).json.code).toBe('policy_not_found');
  });

  test('a retired policy can no longer be checked, and its tokens stay valid', async () => {
    const id = await createPolicy({ disc_min: 1 });
    const position = await act('tris:retiring');
    const { eligibility_token: token } = await check(id, 'tris:retiring', position);
    const { status, json } = await service.post(`/v1/policies/ap/${id}/retire`);
    expect([status, json]).toEqual([200, { policy_id: id, status: 'retired' }]);
    expect((await service.get(`/v1/policies/ap/${id}`, { 'x-api-key': service.key })).json.status).toBe('retired');
    const refused = await service.post('/v1/policies/ap/check', { policy_id: id, subject_tris: 'tris:retiring' });
    expect([refused.status, refused.json.code]).toEqual([409, 'policy_not_active']);
    expect(await verify({ token })).toMatchObject({ active: true });
  });
});

describe('POST /v1/policies/ap/check', () => {
  test('grants with a token, or denies with reasons and a how_to_pass that passes', async () => {
    const id = await createPolicy({ disc_min: 10, metrics: { finance: 0.2 } }, { ttl_seconds: 120 });
    await act('tris:able', 5);
    const position = await act('tris:unable');
    const granted = await check(id, 'tris:able', position);
    expect(granted).toMatchObject({
      granted: true,
      eligibility_token: expect.stringMatching(/^[\w-]+\.[\w-]+\.[\w-]+$/),
      voucher: null,
      policy_id: id,
      subject_tris: 'tris:able',
      score: 11.2,
      reasons: [],
      how_to_pass: [],
    });
    const lifetime = Date.parse(granted.expires_at) - Date.parse(granted.checked_at);
    expect(lifetime).toBeGreaterThan(119_000 - 1);
    expect(lifetime).toBeLessThanOrEqual(120_000);

    const denied = await check(id, 'tris:unable');
    expect(denied).toMatchObject({
      granted: false,
      eligibility_token: null,
      expires_at: null,
      score: 7.9,
      reasons: [{ pointer: '/disc_min', rule: 'disc_min', required: 10, actual: 7.9, outcome: 'failed' }],
      how_to_pass: [{ fact: 'net_tct', required: 484, actual: 140, pointers: ['/disc_min'] }],
    });
    const [change] = denied.how_to_pass;
    const done = await act('tris:unable', Math.ceil((change.required - change.actual) / 140));
    expect(await check(id, 'tris:unable', done)).toMatchObject({ granted: true });
  });

  test('denies an unknown subject, with a how_to_pass', async () => {
    const id = await createPolicy({ disc_min: 5 });
    expect(await check(id, 'tris:nobody')).toMatchObject({
      granted: false,
      score: null,
      reasons: [{ pointer: '', rule: 'identity', outcome: 'unknown' }],
      how_to_pass: [{ fact: 'actions', required: 1, actual: 0 }],
    });
    expect(await check(id, 'tris:nobody', await act('tris:nobody'))).toMatchObject({ granted: true });
  });

  test('an unknown policy is 404, and wrong fields are named', async () => {
    const post = (body: object) => service.post('/v1/policies/ap/check', body);
    const subject_tris = 'tris:able';
    expect((await post({ policy_id: 'AP_NOWHERE_V1', subject_tris })).json.code).toBe('policy_not_found');
    const { json } = await post({ policy_id: 'AP_LOAN_V1', subject_tris: 'alice', audience: '', wallet: '0x1' });
    expect(json.errors.map(({ pointer }: { pointer: string }) => pointer)).toEqual([
      '/subject_tris',
      '/audience',
      '/wallet',
    ]);
  });

  test('uses the VP of the policy', async () => {
    const vp = policyBody('VP_FOR_AP_V1', { security_audit: 'Critical' });
    expect((await service.post('/v1/policies/vp', vp)).status).toBe(201);
    const id = await createPolicy({ tct_min: 140 }, { vp: vp.policy_id });
    const elsewhere = await act('tris:lensed');
    expect(await check(id, 'tris:lensed', elsewhere)).toMatchObject({ granted: false, score: 7 });
    const inside = await relay(service, [
      { tris_id: 'tris:lensed', category: 'security', action_type: 'audit', criticality: 'Low' },
    ]);
    const { eligibility_token: token } = await check(id, 'tris:lensed', inside);
    const { claims } = await verify({ token });
    expect(claims.lens).toMatchObject({ policy_id: 'VP_FOR_AP_V1' });
  });

  test('a verification counts until the moment it expires', async () => {
    const id = await createPolicy({ verification: ['zk-KYH'] });
    const grant = await service.post('/v1/identities/tris:brief/verifications', {
      status: 'zk-KYH',
      evidence_hash: 'a'.repeat(64),
      expires_at: new Date(Date.now() + 60_000).toISOString(),
    });
    const position = String(grant.headers['credence-position']);
    expect(await check(id, 'tris:brief', position)).toMatchObject({ granted: true });
    ahead = 60_050;
    expect(await check(id, 'tris:brief').finally(() => (ahead = 0))).toMatchObject({
      granted: false,
      how_to_pass: [{ fact: 'verification.zk-KYH', required: true, actual: false }],
    });
  });

  test.each<[string, (subject: string) => ReturnType<Service['post']>, number]>([
    ['BAD status', (id) => service.post(`/v1/identities/${id}/bad-status`, { level: 3, reason_code: 'fraud' }), 3],
    ['revocation', (id) => service.delete(`/v1/identities/${id}/verifications/zk-KYH`), 7.9],
  ])('a %s counts that a clock has recorded which is two hours ahead', async (_, state, score) => {
    const subject = unique('tris:skewed-');
    const id = await createPolicy({ all: [{ disc_min: 7 }, { verification: ['zk-KYH'] }] });
    await act(subject);
    const grant = { status: 'zk-KYH', evidence_hash: 'a'.repeat(64) };
    const verified = await service.post(`/v1/identities/${subject}/verifications`, grant);
    expect(await check(id, subject, String(verified.headers['credence-position']))).toMatchObject({ granted: true });

    ahead = 7_200_000;
    const stated = await state(subject).finally(() => (ahead = 0));
    const position = String(stated.headers['credence-position']);
    expect(await check(id, subject, position)).toMatchObject({ granted: false, score });
    const rating = score === 3 ? 'BAD' : 'Poor';
    expect((await service.get(`/api/disc-score/${subject}`)).json.score_rating).toBe(rating);
    // What the decisions were made of is found again.
    for await (const { differences } of audit(service.stores.eventStore, subject)) expect(differences).toEqual([]);
  });

  test('an action counts that a clock has stamped which is three hours ahead: in checks, and in scores that say so', async () => {
    const subject = unique('tris:skewed-');
    const id = await createPolicy({ tct_min: 560 });
    await act(subject, 3);
    ahead = 10_800_000;
    const later = await act(subject, 1).finally(() => (ahead = 0));
    const stamped = Date.now() + 10_800_000;
    const checked = await check(id, subject, later);
    expect(checked).toMatchObject({ granted: true });
    const [, claims] = checked.eligibility_token.split('.');
    const { iat, as_of } = JSON.parse(Buffer.from(claims, 'base64url').toString());
    // The token is valid from now on; its facts are of the time that the clock ahead has named.
    expect(Math.abs(iat * 1000 - Date.now())).toBeLessThan(60_000);
    expect(Math.abs(Date.parse(checked.checked_at) - Date.now())).toBeLessThan(60_000);
    expect(Math.abs(Date.parse(as_of) - stamped)).toBeLessThan(60_000);

    const scored = await service.get(`/v1/disc/score/${subject}`);
    expect(scored.json).toMatchObject({ total_tct: 560, as_of });
    expect((await service.get(`/api/disc-score/${subject}`)).json.total_tct).toBe(560);
    // The same coordinates again give the same numbers; a later time is still refused.
    const again = (at: string) => service.get(`/v1/disc/score/${subject}?as_of=${at}`);
    // The decision itself is one more event of the log.
    expect((await again(as_of)).json).toEqual({ ...scored.json, position: expect.any(String) });
    const beyond = await again(new Date(Date.parse(as_of) + 1).toISOString());
    expect([beyond.status, beyond.json.errors[0].code]).toEqual([400, 'in_the_future']);
    for await (const { differences } of audit(service.stores.eventStore, subject)) expect(differences).toEqual([]);
  });

  test('a retry with the same Idempotency-Key gets the identical answer, whatever happened since', async () => {
    const id = await createPolicy({ disc_min: 7.5 });
    const subject = 'tris:steady';
    const position = await act(subject);
    const key = { 'idempotency-key': 'steady-1' };
    const first = await check(id, subject, position, {}, key);
    expect(first.granted).toBe(true);
    await service.post(`/v1/identities/${subject}/bad-status`, { level: 2, reason_code: 'fraud' });
    ahead = 2_000;
    expect(await check(id, subject, undefined, {}, key).finally(() => (ahead = 0))).toEqual(first);
    const other = await service.post('/v1/policies/ap/check', { policy_id: id, subject_tris: 'tris:other' }, key);
    expect([other.status, other.json.code]).toEqual([422, 'idempotency_key_reused']);
  });

  test('a retry whose token has expired is a new check, and no other retry is', async () => {
    const id = await createPolicy({ disc_min: 7.5 }, { ttl_seconds: 60 });
    const subject = unique('tris:expired-');
    const position = await act(subject);
    const key = { 'idempotency-key': subject };
    const ask = (body: object = { policy_id: id, subject_tris: subject }) =>
      service.post('/v1/policies/ap/check', body, { ...key, 'credence-min-position': position });
    const tokens: string[] = [];
    try {
      for (let n = 0; n < 6; n++) {
        ahead = n * 61_000;
        const first = await ask();
        expect(first.headers['idempotency-replayed']).toBeUndefined();
        expect(Date.parse(first.json.expires_at)).toBeGreaterThan(Date.now() + ahead);
        ahead += 30_000;
        const retry = await ask();
        expect([retry.text, retry.headers['idempotency-replayed']]).toEqual([first.text, 'true']);
        tokens.push(first.json.eligibility_token);
      }
      ahead += 61_000;
      const other = await ask({ policy_id: id, subject_tris: 'tris:other' });
      expect([other.status, other.json.code]).toEqual([422, 'idempotency_key_reused']);
    } finally {
      ahead = 0;
    }
    expect(new Set(tokens).size).toBe(6);
    // A refusal has no token that could expire.
    const denied = await createPolicy({ disc_min: 99 }, { ttl_seconds: 60 });
    const refusal = () => check(denied, subject, position, {}, { 'idempotency-key': `${subject}-denied` });
    const first = await refusal();
    ahead = 61_000;
    expect(await refusal().finally(() => (ahead = 0))).toEqual(first);
  });

  test('concurrent tries with one Idempotency-Key get one decision', async () => {
    const id = await createPolicy({ disc_min: 1 });
    const position = await act('tris:racer');
    const body = { policy_id: id, subject_tris: 'tris:racer' };
    const headers = { 'idempotency-key': 'race-1', 'credence-min-position': position };
    const tries = Array.from({ length: 8 }, () => service.post('/v1/policies/ap/check', body, headers));
    const answers = await Promise.all(tries);
    expect(new Set(answers.map(({ text }) => text)).size).toBe(1);
    expect(answers.filter((answer) => answer.headers['idempotency-replayed'] === 'true')).toHaveLength(7);
  });

  test('of concurrent checks of two subjects with one Idempotency-Key one is refused', async () => {
    const policy_id = await createPolicy({ disc_min: 1 });
    const headers = { 'idempotency-key': 'race-2' };
    const answers = await Promise.all(
      ['tris:racer', 'tris:rival'].map((subject_tris) =>
        service.post('/v1/policies/ap/check', { policy_id, subject_tris }, headers),
      ),
    );
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 422]);
  });
});

describe('POST /v1/policies/ap/check/batch', () => {
  const checkMany = (body: object, headers = {}) => service.post('/v1/policies/ap/check/batch', body, headers);
  const recorded = async (subject: string) => {
    const decisions = [];
    for await (const { jti } of audit(service.stores.eventStore, subject)) decisions.push(jti);
    return decisions;
  };

  test('does not keep others waiting until all of it is judged', async () => {
    // The advice for such rules is a long search.
    const by = (n: number) => ({ verification: [{ status: 'zk-KYH', issuers: [`tris:issuer-${n}`] }] });
    const of = Array.from({ length: 20 }, (_, n) => ({ all: [by(2 * n), by((2 * n + 7) % 37)] }));
    const id = await createPolicy({ at_least: 8, of });
    const subject_tris = Array.from({ length: 25 }, () => unique('tris:long-'));
    let isDone = false;
    let [longest, whole] = [0, 0];
    const turns = (async () => {
      while (!isDone) {
        const began = process.cpuUsage();
        await new Promise(setImmediate);
        const { user, system } = process.cpuUsage(began);
        longest = Math.max(longest, user + system);
        whole += user + system;
      }
    })();
    const { status } = await checkMany({ policy_id: id, subject_tris });
    isDone = true;
    await turns;
    expect(status).toBe(200);
    expect(longest).toBeLessThan(whole / 4);
  });

  test('answers for each subject what its check alone would, and records each decision', async () => {
    const id = await createPolicy({ disc_min: 10 }, { ttl_seconds: 3_600 });
    const subjects = [unique('tris:many-'), unique('tris:many-'), unique('tris:many-')];
    await act(subjects[0]!, 5);
    const position = await act(subjects[1]!);
    const body = { policy_id: id, subject_tris: subjects, audience: 'https://app.example' };
    const answer = await checkMany(body, { 'credence-min-position': position });
    expect(answer.status).toBe(200);
    expect(answer.json.results).toHaveLength(3);
    const own = (checked: Record<string, unknown>) => {
      const { eligibility_token, expires_at, checked_at, ...others } = checked;
      return {
        ...others,
        isToken: typeof eligibility_token === 'string',
        expires: typeof expires_at,
        checked: typeof checked_at,
      };
    };
    for (const [i, subject_tris] of subjects.entries()) {
      const { data, ...result } = answer.json.results[i];
      expect(result).toEqual({ policy_id: id, subject_tris, status: 200 });
      expect(await recorded(subject_tris)).toHaveLength(1);
      expect(own(data)).toEqual(own(await check(id, subject_tris, undefined, { audience: body.audience })));
    }
    const token = answer.json.results[0].data.eligibility_token;
    expect(await verify({ token, audience: body.audience, policy_id: id })).toMatchObject({ active: true });
    // The position covers all.
    const [, at] = String(answer.headers['credence-position']).split('.');
    const decisions = await Promise.all(subjects.map(async (subject) => (await recorded(subject))[0]!));
    const streams = await Promise.all(decisions.map((jti) => service.stores.eventStore.readStream(`access-${jti}`)));
    expect(Number(at)).toBe(Math.max(...streams.map(([event]) => event!.position)));
  });

  test('checks one subject by several policies: a problem with one affects no other', async () => {
    const subject_tris = unique('tris:many-');
    const [open, closed, retired] = [
      await createPolicy({ disc_min: 1 }),
      await createPolicy({ disc_min: 99 }),
      await createPolicy({ disc_min: 1 }),
    ];
    await service.post(`/v1/policies/ap/${retired}/retire`);
    const position = await act(subject_tris);
    const policy_ids = [open, 'AP_NOWHERE_V1', closed, retired];
    const { json } = await checkMany({ policy_ids, subject_tris }, { 'credence-min-position': position });
    expect(json.results).toMatchObject([
      { policy_id: open, subject_tris, status: 200, data: { granted: true } },
      { policy_id: 'AP_NOWHERE_V1', subject_tris, status: 404, problem: { code: 'policy_not_found' } },
      { policy_id: closed, status: 200, data: { granted: false } },
      { policy_id: retired, status: 409, problem: { code: 'policy_not_active' } },
    ]);
    expect(await recorded(subject_tris)).toHaveLength(2);
  });

  test('a retry with the same Idempotency-Key gets the same decisions; what differs is refused', async () => {
    const id = await createPolicy({ disc_min: 1 });
    const subjects = [unique('tris:many-'), unique('tris:many-')];
    const position = await act(subjects[0]!);
    const key = { 'idempotency-key': 'batch-1' };
    const body = { policy_id: id, subject_tris: subjects };
    const first = await checkMany(body, { ...key, 'credence-min-position': position });
    expect(first.json.results.map(({ data }: { data: { granted: boolean } }) => data.granted)).toEqual([true, false]);
    const again = await checkMany(body, key);
    expect(again.json).toEqual(first.json);
    expect([await recorded(subjects[0]!), await recorded(subjects[1]!)].flat()).toHaveLength(2);
    const other = await checkMany({ ...body, subject_tris: [subjects[0], unique('tris:many-')] }, key);
    expect(other.json.results).toMatchObject([
      { status: 200 },
      { status: 422, problem: { code: 'idempotency_key_reused' } },
    ]);
    expect(other.json.results[0]).toEqual(first.json.results[0]);
  });

  test.each<[object, string, string]>([
    [{ subject_tris: ['tris:a'] }, 'validation_failed', '/policy_ids'],
    [{ policy_id: 'AP_A_V1', policy_ids: ['AP_A_V1'], subject_tris: ['tris:a'] }, 'validation_failed', '/policy_ids'],
    [{ policy_id: 'AP_A_V1', subject_tris: 'tris:a' }, 'validation_failed', '/subject_tris'],
    [{ policy_id: 'AP_A_V1', subject_tris: [] }, 'validation_failed', '/subject_tris'],
    [{ policy_id: 'AP_A_V1', subject_tris: ['tris:a', 'b'] }, 'validation_failed', '/subject_tris/1'],
    [{ policy_id: 'AP_A_V1', subject_tris: ['tris:a', 'tris:a'] }, 'validation_failed', '/subject_tris'],
    [{ policy_id: 'AP_A_V1' }, 'validation_failed', '/subject_tris'],
    [
      { policy_id: 'AP_A_V1', subject_tris: Array.from({ length: 101 }, (_, i) => `tris:n${i}`) },
      'batch_too_large',
      '/subject_tris',
    ],
    [{ policy_ids: ['AP_A_V1'], subject_tris: ['tris:a'] }, 'validation_failed', '/subject_tris'],
    [{ policy_ids: ['AP_A_V1', 'AP_A_V1'], subject_tris: 'tris:a' }, 'validation_failed', '/policy_ids'],
    [
      { policy_ids: Array.from({ length: 21 }, (_, i) => `AP_A_V${i + 1}`), subject_tris: 'tris:a' },
      'batch_too_large',
      '/policy_ids',
    ],
  ])('refuses %j', async (body, code, pointer) => {
    const { status, json } = await checkMany(body);
    expect([status, json.code, json.errors[0].pointer]).toEqual([400, code, pointer]);
  });
});

describe('POST /v1/policies/ap/evaluate', () => {
  const rules = { any: [{ disc_min: 10 }, { metrics: { finance: 0.2 } }] };
  const evaluate = (body: object, headers = {}) => service.post('/v1/policies/ap/evaluate', body, headers);

  test('decides as a check by a stored policy with these rules, with the outcome of every node, and records nothing', async () => {
    const rules = { all: [{ disc_min: 10 }, { any: [{ metrics: { finance: 0.2 } }, { tct_min: 100_000 }] }] };
    const id = await createPolicy(rules);
    const subjects = ['tris:tried-5', 'tris:tried-1', 'tris:tried-nobody'];
    await act(subjects[0]!, 5);
    const position = await act(subjects[1]!);
    const before = await service.stores.eventStore.head();
    const { status, json } = await evaluate({ rules, subjects }, { 'credence-min-position': position });
    expect(status).toBe(200);
    expect(await service.stores.eventStore.head()).toBe(before);
    expect(json).toMatchObject({
      lens: { policy_id: null, content_hash: expect.stringMatching(/^[0-9a-f]{64}$/) },
      model: { id: expect.stringMatching(/^disc-/), hash: expect.any(String) },
      position: expect.any(String),
    });
    for (const [i, subject] of subjects.entries()) {
      const { granted, score, reasons, how_to_pass } = await check(id, subject);
      expect(json.results[i]).toMatchObject({ subject_tris: subject, granted, score, reasons, how_to_pass });
    }
    const outcomes = (i: number) => json.results[i].nodes.map((node: { outcome: string }) => node.outcome);
    expect(json.results[0].nodes.map(({ pointer }: { pointer: string }) => pointer)).toEqual([
      '/all',
      '/all/0/disc_min',
      '/all/1/any',
      '/all/1/any/0/metrics/finance',
      '/all/1/any/1/tct_min',
    ]);
    expect([0, 1, 2].map(outcomes)).toEqual([
      ['met', 'met', 'met', 'met', 'failed'],
      ['failed', 'failed', 'met', 'met', 'failed'],
      ['unknown', 'unknown', 'unknown', 'unknown', 'unknown'],
    ]);
  });

  test('uses the validation policy that is named', async () => {
    const vp = policyBody('VP_FOR_TRY_V1', { security_audit: 'Critical' });
    expect((await service.post('/v1/policies/vp', vp)).status).toBe(201);
    const subjects = [unique('tris:tried-')];
    const position = await act(subjects[0]!);
    const after = { 'credence-min-position': position };
    const plain = await evaluate({ rules, subjects }, after);
    const lensed = await evaluate({ rules, subjects, vp: vp.policy_id }, after);
    expect([plain, lensed].map(({ json }) => [json.lens.policy_id, json.results[0].score])).toEqual([
      [null, 7.9],
      ['VP_FOR_TRY_V1', 7],
    ]);
    const { json } = await evaluate({ rules, subjects, vp: 'VP_NOWHERE_V1' });
    expect(json.code).toBe('policy_not_found');
  });

  test.each<[object, string, string]>([
    [{ rules: { any: [{ disc_min: 101 }] } }, 'validation_failed', '/rules/any/0/disc_min'],
    [{ subjects: [] }, 'validation_failed', '/subjects'],
    [{ subjects: ['tris:a', 'tris:b', 'tris:a'] }, 'validation_failed', '/subjects'],
    [{ subjects: ['alice'] }, 'validation_failed', '/subjects/0'],
    [{ subjects: Array.from({ length: 101 }, (_, i) => `tris:n${i}`) }, 'batch_too_large', '/subjects'],
    [{ ttl_seconds: 5 }, 'validation_failed', '/ttl_seconds'],
  ])('refuses %j', async (change, code, pointer) => {
    const { status, json } = await evaluate({ rules, subjects: ['tris:a'], ...change });
    expect([status, json.code, json.errors[0].pointer]).toEqual([400, code, pointer]);
  });
});

describe('the audit of decisions', () => {
  const audited = async (subject: string) => {
    const decisions = [];
    for await (const decision of audit(service.stores.eventStore, subject)) decisions.push(decision);
    return decisions;
  };

  test('agrees with every decision, also if the facts have changed since', async () => {
    const subject = 'tris:audited';
    const id = await createPolicy({
      all: [
        { disc_min: 8 },
        { any: [{ reliability_min: 0.5, metrics: { finance: 0.3 } }, { verification: ['zk-KYH'] }] },
      ],
    });
    await check(id, subject);
    await check(id, subject, await act(subject));
    await check(id, subject, await act(subject, 3));
    const bad = await service.post(`/v1/identities/${subject}/bad-status`, { level: 3, reason_code: 'fraud' });
    await check(id, subject, String(bad.headers['credence-position']));
    const cleared = await service.delete(`/v1/identities/${subject}/bad-status`);
    await check(id, subject, String(cleared.headers['credence-position']));
    const decisions = await audited(subject);
    expect(decisions.map(({ granted }) => granted)).toEqual([false, false, true, false, true]);
    expect(decisions.flatMap(({ differences }) => differences)).toEqual([]);
  });

  test('an export of what is about one identity holds the decisions about it, and the revocations of their tokens', async () => {
    const id = await createPolicy({ disc_min: 7 });
    const subject = unique('tris:exported');
    const position = await act(subject);
    await act('tris:not-exported');
    await relay(service, [
      { tris_id: 'tris:rated', category: 'social', action_type: 'post', criticality: 'low', counterparty: subject },
    ]);
    const { eligibility_token } = await check(id, subject, position);
    await check(id, unique('tris:other'));
    await service.post('/v1/eligibility/revoke', { token: eligibility_token });
    const exported: { type: string; data: JsonObject }[] = [];
    for await (const text of exportLines(service.stores.eventStore, isAbout(subject))) {
      for (const line of text.trim().split('\n')) if (!line.includes('end_of_export')) exported.push(JSON.parse(line));
    }
    expect(exported.map(({ type }) => type)).toEqual([
      'ActionRelayed',
      'CredonationRecorded',
      'ActionRelayed',
      'CredonationRecorded',
      'AccessChecked',
      'EligibilityRevoked',
    ]);
    expect(exported[2]!.data).toMatchObject({ tris_id: 'tris:rated', counterparty: subject });
    expect(exported[4]!.data).toMatchObject({ subject_tris: subject, policy_id: id, granted: true });
  });

  test('agrees in an imported log with other positions, and the token is the same there', async () => {
    const subject = 'tris:moved';
    const id = await createPolicy({ disc_min: 8 });
    await check(id, subject, await act(subject));
    const granted = await check(id, subject, await act(subject, 3));
    const moved = await startService();
    const { eventStore } = moved.stores;
    await relay(moved, [{ tris_id: 'tris:earlier', category: 'social', action_type: 'post', criticality: 'low' }]);
    for await (const append of appendsOf(service.stores.eventStore)) {
      await eventStore.append(append[0]!.stream, 'any', append);
    }
    const decisions = [];
    for await (const decision of audit(eventStore, subject)) decisions.push(decision);
    expect(decisions.map(({ score, differences }) => [score, differences])).toEqual([
      [7.9, []],
      [granted.score, []],
    ]);
    const [record] = await eventStore.readStream(`access-${decisions[1]!.jti}`);
    // Its key does not move with the log.
    const signer = moved.app.get(EligibilityTokens, { strict: false });
    const token = await signer.sign({ ...(record!.data as unknown as AccessDecision), kid: signer.keys.current.kid });
    expect(claimsOf(token!)).toEqual(claimsOf(granted.eligibility_token));
    await moved.close();
  });

  test('derives the advice of a decision with the algorithm it was recorded with', async () => {
    const subject = 'tris:advised';
    const rules = { any: [{ disc_min: 90 }, { metrics: { security: 0.2 } }] };
    const id = await createPolicy(rules);
    const { how_to_pass } = await check(id, subject, await act(subject));
    expect(how_to_pass).toMatchObject([{ fact: 'health.security' }]);
    const { jti } = (await audited(subject))[0]!;
    const [recorded] = await service.stores.eventStore.readStream(`access-${jti}`);
    const { type, data, metadata } = recorded!;
    const { advice: _none, ...before } = data;
    const older = async (advice: JsonObject[]) => {
      const stream = `access-${randomUUID()}`;
      await service.stores.eventStore.append(stream, 'no-stream', [
        { id: randomUUID(), type, data: { ...before, how_to_pass: advice }, metadata: { ...metadata, schema: 1 } },
      ]);
    };
    await older([{ fact: 'net_tct', required: 33_376, actual: 140, pointers: ['/any/0/disc_min'] }]);
    await older(how_to_pass);
    const differences = (await audited(subject)).map((decision) => decision.differences);
    expect(differences).toEqual([[], [], [expect.stringMatching(/^how_to_pass: recorded .*health.security/)]]);
  });

  test('finds a recorded decision that does not follow from the log', async () => {
    const subject = 'tris:forged';
    const id = await createPolicy({ disc_min: 90 });
    await check(id, subject, await act(subject));
    const { jti } = (await audited(subject))[0]!;
    const [recorded] = await service.stores.eventStore.readStream(`access-${jti}`);
    const { type, data, metadata } = recorded!;
    const forged = randomUUID();
    await service.stores.eventStore.append(`access-${forged}`, 'no-stream', [
      { id: randomUUID(), type, data: { ...data, jti: forged, granted: true, score: 91 }, metadata },
    ]);
    const [, second] = await audited(subject);
    expect(second!.differences).toEqual(['granted: recorded true, derived false', 'score: recorded 91, derived 7.9']);
  });
});

describe('POST /v1/eligibility/verify and /revoke', () => {
  async function token(more: object = {}, policy: object = {}) {
    const id = await createPolicy({ disc_min: 1 }, policy);
    const subject = `tris:${unique('holder')}`;
    const { eligibility_token } = await check(id, subject, await act(subject), more);
    return { id, subject, token: eligibility_token as string };
  }

  test('an active token contains the decision and its coordinates', async () => {
    const { id, subject, token: jwt } = await token();
    const { content_hash } = (await service.get(`/v1/policies/ap/${id}`, { 'x-api-key': service.key })).json;
    const answer = await verify({ token: jwt, policy_id: id });
    expect(answer).toEqual({
      active: true,
      claims: {
        iss: `http://127.0.0.1:${service.port}`,
        sub: subject,
        jti: expect.stringMatching(/^[0-9a-f-]{36}$/),
        iat: expect.any(Number),
        exp: answer.claims.iat + 600,
        policy_id: id,
        policy_hash: content_hash,
        as_of: expect.any(String),
        position: expect.any(String),
        lens: { policy_id: null, content_hash: expect.any(String) },
        model: { id: 'disc-1', hash: expect.any(String) },
      },
    });
    const jwks = (await service.get('/.well-known/jwks.json')).json;
    const header = JSON.parse(Buffer.from(jwt.split('.')[0]!, 'base64url').toString());
    expect(header).toEqual({ alg: 'EdDSA', kid: jwks.keys[0].kid, typ: 'eligibility+jwt' });
  });

  test('is bound to its audience, both ways, and to its policy', async () => {
    const bound = await token({ audience: 'https://app.example' });
    const free = await token();
    expect(await verify({ token: bound.token, audience: 'https://app.example' })).toMatchObject({ active: true });
    for (const body of [
      { token: bound.token },
      { token: bound.token, audience: 'x' },
      { token: free.token, audience: 'x' },
    ]) {
      expect(await verify(body)).toMatchObject({ active: false, reason: 'eligibility_audience' });
    }
    expect(await verify({ token: free.token, policy_id: bound.id })).toMatchObject({ reason: 'eligibility_policy' });
  });

  test('expires, and the detail says to check again', async () => {
    const { token: jwt } = await token({}, { ttl_seconds: 1 });
    ahead = 1_100;
    const answer = await verify({ token: jwt }).finally(() => (ahead = 0));
    expect(answer).toMatchObject({ active: false, reason: 'eligibility_expired' });
    expect(answer.detail).toMatch(/check the subject again/);
  });

  test('a metrics proof by the same key is not a token', async () => {
    const subject = 'tris:proved';
    const position = await act(subject);
    const { json } = await service.get(`/v1/disc/metrics/${subject}`, { 'credence-min-position': position });
    expect(await verify({ token: json.proof })).toMatchObject({ active: false, reason: 'eligibility_malformed' });
  });

  test.each(['', 'x', 'a.b.c', '..', 'e30.e30.e30'])('%j is malformed', async (jwt) => {
    expect(await verify({ token: jwt })).toMatchObject({ active: false, reason: 'eligibility_malformed' });
  });

  test('a token whose decision is not in the log is unknown', async () => {
    const claims = { ...claimsOf((await token()).token), jti: '00000000-0000-4000-8000-000000000000' };
    const keys = service.app.get(SigningKeys, { strict: false });
    const answer = await verify({ token: await keys.sign(claims, 'eligibility+jwt') });
    expect(answer).toMatchObject({ active: false, reason: 'eligibility_unknown', claims });
  });

  test('a token that says something else than its decision is unknown, although a key of the service signed it', async () => {
    const first = claimsOf((await token({ audience: 'app' })).token);
    const other = claimsOf((await token()).token);
    const keys = service.app.get(SigningKeys, { strict: false });
    for (const changed of [
      { sub: other.sub },
      { exp: first.exp + 1_000_000 },
      { policy_id: other.policy_id, policy_hash: other.policy_hash },
      { aud: 'another' },
    ]) {
      const claims = { ...first, ...changed };
      const jwt = await keys.sign(claims, 'eligibility+jwt');
      const answer = await verify({ token: jwt, audience: claims.aud });
      expect([changed, answer]).toMatchObject([changed, { active: false, reason: 'eligibility_unknown' }]);
    }
  });

  test('a revocation counts at once, by token or by jti, and may be repeated', async () => {
    const first = await token({ audience: 'app' });
    expect((await service.post('/v1/eligibility/revoke', { token: first.token })).json).toMatchObject({
      revoked: true,
    });
    expect(await verify({ token: first.token, audience: 'app' })).toMatchObject({
      active: false,
      reason: 'eligibility_revoked',
    });
    const second = await token();
    const { jti } = (await verify({ token: second.token })).claims;
    for (let i = 0; i < 2; i++) {
      const { status, json } = await service.post('/v1/eligibility/revoke', { jti });
      expect([status, json]).toEqual([200, { jti, revoked: true }]);
    }
    expect(await verify({ token: second.token })).toMatchObject({ reason: 'eligibility_revoked' });
  });

  test('refuses a request that names no token', async () => {
    const revoke = (body: object) => service.post('/v1/eligibility/revoke', body);
    const jti = '00000000-0000-4000-8000-000000000000';
    expect((await revoke({ jti })).status).toBe(404);
    expect((await revoke({})).status).toBe(400);
    expect((await revoke({ jti, token: 'x' })).status).toBe(400);
    expect((await revoke({ token: 'x' })).json.errors[0].pointer).toBe('/token');
    expect((await revoke({ jti: 'lens-platform' })).json.errors[0].pointer).toBe('/jti');
  });
});

describe('tris_id in place of subject_tris, subject and subjects', () => {
  const rules = { disc_min: 0 };
  const tris_id = 'tris:alias';
  const checks = '/v1/policies/ap/check';
  const withKey = () => ({ 'x-api-key': service.key });

  test('names the same: in a check, in several, in previews, and in the query of decisions', async () => {
    const policy_id = await createPolicy(rules);
    const position = await act(tris_id);
    const post = (path: string, body: object) => service.post(path, body, { 'credence-min-position': position });
    expect((await post(checks, { policy_id, tris_id })).json).toMatchObject({ subject_tris: tris_id, granted: true });
    const both = { policy_id, tris_id, subject_tris: tris_id };
    expect((await post(checks, both)).json).toMatchObject({ subject_tris: tris_id, granted: true });
    let last = '';
    for (const body of [
      { policy_id, tris_id: [tris_id] },
      { policy_ids: [policy_id], tris_id },
    ]) {
      const { json, headers } = await post('/v1/policies/ap/check/batch', body);
      last = String(headers['credence-position']);
      expect(json.results).toMatchObject([{ status: 200, data: { subject_tris: tris_id } }]);
    }
    const tried = await post('/v1/policies/ap/evaluate', { rules, tris_id: [tris_id] });
    expect(tried.json.results).toMatchObject([{ subject_tris: tris_id, granted: true }]);
    const listed = await service.get(`/v1/access/decisions?tris_id=${tris_id}`, {
      ...withKey(),
      'credence-min-position': last,
    });
    expect(listed.json.decisions).toHaveLength(4);
  });

  test('with another value beside it is refused', async () => {
    const refused = await service.post(checks, { policy_id: 'AP_X_V1', tris_id, subject_tris: 'tris:other' });
    expect([refused.status, refused.json.errors]).toEqual([
      400,
      [
        {
          pointer: '/tris_id',
          code: 'contradiction',
          message: 'tris_id is another name of subject_tris: send one of them, or the same value in both',
        },
      ],
    ]);
    const query = await service.get('/v1/access/decisions?tris_id=tris:a&subject=tris:b', withKey());
    expect([query.status, query.json.errors[0].pointer]).toEqual([400, '?tris_id']);
  });

  test('is checked as the field is', async () =>
    expect((await service.post(checks, { policy_id: 'AP_X_V1', tris_id: 'bob' })).json.errors).toMatchObject([
      { pointer: '/subject_tris', code: 'tris_id' },
    ]));
});
