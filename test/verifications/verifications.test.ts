import { randomUUID } from 'node:crypto';
import { jest } from '@jest/globals';
import { keyHash } from '../../src/features/verifications/domain/scheme.js';
import { ProofVerifier } from '../../src/features/verifications/verifier.js';
import type { NewEvent } from '../../src/kernel/event.js';
import { sha256Hex } from '../../src/kernel/hash.js';
import { StoreUnavailable } from '../../src/stores/ports/event-store.js';
import { LmdbEventStore } from '../../src/stores/lmdb/lmdb-event-store.js';
import { type Service, seen, startService } from '../policies/service.fixture.js';
import { account, bearer, call, claim, signIn } from '../sessions/wallet.js';
import { type Proven, bound, keyOf, malleated, prove, schemeBody, transcriptOf } from './proofs.fixture.js';

/** Verification by proof over HTTP: real circuits, real proofs, the whole service. */

const HUMANS = 'credence.humans';
const CHECKS = 'bank.checks';
const FAR = '1900000000';
const LATER = '2000000000';
const registry = [
  { secret: '11', expires_at: FAR },
  { secret: '12', expires_at: FAR },
  { secret: '13', expires_at: '1600000000' },
  { secret: '14', expires_at: FAR },
  { secret: '15', expires_at: FAR },
];
const renewed = [{ secret: '11', expires_at: LATER }];
const customers = [
  { secret: '21', expires_at: FAR, aml: '1' as const },
  { secret: '22', expires_at: FAR, aml: '0' as const },
];
/** A wallet with a TRIS of its own, and its proof. */
const dora = account(77);
const DORA = `tris:${dora.address.toLowerCase()}`;
const human = (holder: number, tris: string, members = registry, scope = HUMANS) =>
  ({ circuit: 'kyh', members, holder, ...bound(scope, tris) }) as const;
const checked = (holder: number, tris: string, aml_required: '0' | '1') =>
  ({ circuit: 'kyc', members: customers, holder, ...bound(CHECKS, tris), aml_required }) as const;

const JOBS = {
  alice: human(0, 'tris:alice'),
  aliceRenewed: human(0, 'tris:alice', renewed),
  /** Alice’s credential, for an identity of another name. */
  aliceAsMallory: human(0, 'tris:mallory'),
  aliceElsewhere: human(0, 'tris:alice', registry, 'other.humans'),
  dora: human(3, DORA),
  bob: human(1, 'tris:bob'),
  erin: human(4, 'tris:erin'),
  erinAsMallory: human(4, 'tris:mallory'),
  expired: human(2, 'tris:carol'),
  otherScope: human(0, 'tris:alice', registry, 'nowhere'),
  idOnly: checked(0, 'tris:alice', '0'),
  withAml: checked(0, 'tris:alice', '1'),
  idOfBob: checked(1, 'tris:bob', '0'),
};
let proven: Record<keyof typeof JOBS, Proven>;
const RACERS = Array.from({ length: 8 }, (_, i) => `tris:racer${i}`);
let racing: Proven[];
let service: Service;

beforeAll(async () => {
  const racers = RACERS.map((tris) => human(0, tris, registry, 'race'));
  const [proofs, started] = await Promise.all([prove([...Object.values(JOBS), ...racers]), startService()]);
  proven = Object.fromEntries(Object.keys(JOBS).map((name, i) => [name, proofs[i]!])) as typeof proven;
  racing = proofs.slice(-RACERS.length);
  service = started;
  const register = async (...args: Parameters<typeof schemeBody>) => {
    const answer = await service.post('/v1/verification-schemes', schemeBody(...args));
    expect([answer.status, answer.json.code]).toEqual([201, undefined]);
  };
  const kyh = { status: 'zk-KYH', issuer: 'tris:registry', roots: [proven.alice.root] };
  await register('kyh', { ...kyh, scheme: 'humans', scope: HUMANS });
  await register('kyh', { ...kyh, scheme: 'others', scope: 'other.humans', issuer: 'tris:others' });
  await register('kyh', { ...kyh, scheme: 'race', scope: 'race' });
  const kyc = { issuer: 'tris:bank', scope: CHECKS, roots: [proven.idOnly.root] };
  await register('kyc', { ...kyc, scheme: 'bank-id', status: 'zk-KYC (ID only)', aml: '0' });
  await register('kyc', { ...kyc, scheme: 'bank-aml', status: 'zk-KYC (ID + AML)', aml: '1' });
}, 180_000);
afterAll(async () => service?.close());

const bodyOf = (scheme: string, tris_id: string, { proof, public_signals }: Proven) => ({
  scheme,
  proof,
  public_signals,
  tris_id,
});
const submit = (scheme: string, tris: string, of: Proven, headers?: Record<string, string>) =>
  service.post('/v1/tris/verifications', bodyOf(scheme, tris, of), headers);
async function held(tris: string) {
  const head = `${service.stores.eventStore.logId}.${await service.stores.eventStore.head()}`;
  const answer = await service.get(`/v1/disc/score/${tris}`, { 'credence-min-position': head });
  return answer.status === 404 ? 404 : answer.json.verification;
}
const refused = (answer: { status: number; json: any }) => [
  answer.status,
  answer.json.code,
  ...(answer.json.errors ?? []).map((error: any) => `${error.pointer} ${error.code}`),
];
function keyWithout(exported: ReturnType<typeof keyOf>) {
  const { vk_alphabeta_12: _, ...key } = exported;
  return key;
}
const granted = { tris_id: 'tris:alice', status: 'zk-KYH', issuer: 'tris:registry', scheme: 'humans' };
const expires_at = new Date(Number(FAR) * 1000).toISOString();

describe('a proof', () => {
  test('under an issuer’s own scheme does not verify the issuer', async () => {
    const answer = await submit('humans', 'tris:registry', proven.alice);
    expect(refused(answer)).toEqual([403, 'self_statement']);
    expect(await held('tris:registry')).toBe(404);
  });

  test.each([
    ['of another root', 'humans', 'tris:alice', () => proven.aliceRenewed, '/public_signals/1 unknown_root'],
    ['bound to another identity', 'humans', 'tris:mallory', () => proven.alice, '/public_signals/3 wrong_subject'],
    ['of another scope', 'humans', 'tris:alice', () => proven.otherScope, '/public_signals/2 wrong_scope'],
    ['of less than the scheme asks', 'bank-aml', 'tris:alice', () => proven.idOnly, '/public_signals/4 wrong_constant'],
  ])('%s is refused', async (_name, scheme, tris, of, where) => {
    expect(refused(await submit(scheme, tris, of()))).toEqual([422, 'public_signal_mismatch', where]);
  });

  test('of an expired credential is refused', async () => {
    expect(refused(await submit('humans', 'tris:carol', proven.expired))).toEqual([422, 'proof_expired']);
  });

  test('whose signals were replaced by the expected ones is invalid', async () => {
    const { public_signals } = proven.alice;
    const { proof } = proven.otherScope;
    expect(refused(await submit('humans', 'tris:alice', { ...proven.alice, proof }))).toEqual([422, 'proof_invalid']);
    const signals = public_signals.with(4, LATER);
    expect(refused(await submit('humans', 'tris:alice', { ...proven.alice, public_signals: signals }))).toEqual([
      422,
      'proof_invalid',
    ]);
    const nullifier = public_signals.with(0, '1');
    expect(refused(await submit('humans', 'tris:alice', { ...proven.alice, public_signals: nullifier }))).toEqual([
      422,
      'proof_invalid',
    ]);
  });

  test('of a wrong form is refused with a pointer', async () => {
    const { proof, public_signals } = proven.alice;
    const R = 21888242871839275222246405745257275088548364400416034343698204186575808495617n;
    const cases: [Partial<ReturnType<typeof bodyOf>> | object, string][] = [
      [{ proof: { ...proof, pi_c: undefined } }, '/proof/pi_c required'],
      [{ proof: { ...proof, pi_b: proof.pi_b.slice(0, 2) } }, '/proof/pi_b g2'],
      [{ proof: { ...proof, pi_b: proof.pi_b.with(2, ['1', { toString: 1 }] as never) } }, '/proof/pi_b g2'],
      [{ proof: { ...proof, pi_a: [proof.pi_a[0], '1', '1'] } }, '/proof/pi_a not_a_point'],
      [{ proof: { ...proof, pi_a: ['0', '1', '0'] } }, '/proof/pi_a g1'],
      [{ proof: { ...proof, pi_a: ['9'.repeat(100_000), '1', '1'] } }, '/proof/pi_a g1'],
      [{ proof: { ...proof, curve: 'bls12381' } }, '/proof/curve is_in'],
      [{ proof: { ...proof, extra: '1' } }, '/proof/extra unknown_field'],
      [{ proof: 'AAAA' }, '/proof is_object'],
      [{ public_signals: public_signals.slice(1) }, '/public_signals signal_count'],
      [{ public_signals: [...public_signals, '0'] }, '/public_signals signal_count'],
      [{ public_signals: public_signals.with(4, 7 as never) }, '/public_signals/4 signal'],
      [{ public_signals: public_signals.with(2, String(BigInt(public_signals[2]!) + R)) }, '/public_signals/2 signal'],
      [{ public_signals: Array.from({ length: 1_000 }, () => '1') }, '/public_signals array_max_size'],
      [{ tris_id: undefined }, '/tris_id required'],
    ];
    for (const [change, expected] of cases) {
      const body = { ...bodyOf('humans', 'tris:alice', proven.alice), ...change };
      expect(refused(await service.post('/v1/tris/verifications', body))).toEqual([400, 'validation_failed', expected]);
    }
  });

  test('under an unknown scheme is refused', async () => {
    expect(refused(await submit('nothing', 'tris:alice', proven.alice))).toEqual([404, 'scheme_not_found']);
  });

  test('that is refused leaves nothing behind', async () => {
    const before = await service.stores.eventStore.head();
    await submit('humans', 'tris:mallory', proven.alice, { 'idempotency-key': 'refused' });
    await submit('humans', 'tris:carol', proven.expired, { 'idempotency-key': 'refused' });
    expect(await service.stores.eventStore.head()).toBe(before);
    expect(await held('tris:mallory')).toBe(404);
  });
});

describe('a nullifier', () => {
  test('verifies one identity, however often and in whatever form the proof comes', async () => {
    const first = await submit('humans', 'tris:alice', proven.alice, { 'idempotency-key': 'once' });
    expect([first.status, first.json]).toEqual([201, { ...granted, expires_at }]);
    const head = await service.stores.eventStore.head();

    const again = await submit('humans', 'tris:alice', proven.alice);
    expect([again.status, again.json]).toEqual([200, first.json]);
    for (const proof of malleated(proven.alice.proof, keyOf('kyh'))) {
      const answer = await submit('humans', 'tris:alice', { ...proven.alice, proof });
      expect([answer.status, answer.json]).toEqual([200, first.json]);
    }
    const retry = await submit('humans', 'tris:alice', proven.alice, { 'idempotency-key': 'once' });
    expect([retry.status, retry.headers['credence-position']]).toEqual([201, first.headers['credence-position']]);
    expect(await service.stores.eventStore.head()).toBe(head);
    expect(await held('tris:alice')).toEqual([
      { status: 'zk-KYH', issuer: 'tris:registry', scheme: 'humans', expires_at, accredited: true },
    ]);

    const second = await submit('humans', 'tris:mallory', proven.aliceAsMallory);
    expect(refused(second)).toEqual([409, 'nullifier_used']);
    expect(second.json.detail).not.toContain('alice');
    expect(await held('tris:mallory')).toBe(404);
  });

  test('verifies one of eight identities that race for it', async () => {
    const answers = await Promise.all(RACERS.map((tris, i) => submit('race', tris, racing[i]!)));
    expect(answers.map(({ status }) => status).sort()).toEqual([201, ...Array(7).fill(409)]);
    const verified = await Promise.all(RACERS.map(held));
    expect(verified.filter((of) => of !== 404 && of.length === 1)).toHaveLength(1);
  });

  test('sent many times at once is granted once', async () => {
    const answers = await Promise.all(Array.from({ length: 12 }, () => submit('humans', 'tris:bob', proven.bob)));
    expect(answers.map(({ status }) => status).sort()).toEqual([...Array(11).fill(200), 201]);
    const stream = await service.stores.eventStore.readStream('identity-tris:bob');
    expect(stream.map(({ type }) => type)).toEqual(['VerificationGranted']);
  });
});

test('a grant that failed after its nullifier is made by sending the proof again, only for the same identity', async () => {
  const { eventStore } = service.stores;
  const append = jest.spyOn(eventStore, 'append').mockImplementation(function (this: unknown, stream, ...rest) {
    if (stream === 'identity-tris:erin') return Promise.reject(new StoreUnavailable('as if the process had died here'));
    return LmdbEventStore.prototype.append.call(eventStore, stream, ...rest);
  });
  const key = { 'idempotency-key': 'erin' };
  expect(refused(await submit('humans', 'tris:erin', proven.erin, key))).toEqual([503, 'store_unavailable']);
  append.mockRestore();
  expect(await held('tris:erin')).toBe(404);
  expect(refused(await submit('humans', 'tris:mallory', proven.erinAsMallory))).toEqual([409, 'nullifier_used']);
  expect((await submit('humans', 'tris:erin', proven.erin, key)).status).toBe(201);
  expect(await held('tris:erin')).toMatchObject([{ status: 'zk-KYH' }]);
});

describe('a session', () => {
  test('verifies its own TRIS, named or not, and no other', async () => {
    const tokens = await claim(service, dora);
    expect(tokens.tris_id).toBe(DORA);
    const send = (body: object) => call(service, '/v1/tris/verifications', body, bearer(tokens));
    const { tris_id: _, ...unnamed } = bodyOf('humans', DORA, proven.dora);
    expect(refused(await send(bodyOf('humans', 'tris:bob', proven.bob)))).toEqual([403, 'forbidden']);
    const first = await send(unnamed);
    expect([first.status, first.json.tris_id]).toEqual([201, DORA]);
    expect((await send({ ...unnamed, tris_id: DORA })).status).toBe(200);
    expect((await held(DORA)).map(({ scheme }: any) => scheme)).toEqual(['humans']);
    const [granted] = await service.stores.eventStore.readStream(`identity-${DORA}`);
    expect(granted!.metadata.actor).toBe(`session:${DORA}`);

    const stranger = await signIn(service, account(78));
    const answer = await call(service, '/v1/tris/verifications', unnamed, bearer(stranger.json));
    expect(refused(answer)).toEqual([403, 'forbidden']);
  });
});

describe('verifications of several sources', () => {
  test('bind to one identity, each with issuer, scheme and expiry, and are revoked one by one', async () => {
    for (const [scheme, of] of [
      ['others', proven.aliceElsewhere],
      ['bank-id', proven.idOnly],
      ['bank-aml', proven.withAml],
    ] as const) {
      expect((await submit(scheme, 'tris:alice', of)).status).toBe(201);
    }
    const path = '/v1/identities/tris:alice/verifications';
    await service.post(path, { status: 'zk-KYH', evidence_hash: 'ab'.repeat(32) });
    const all = [
      { status: 'zk-KYH', issuer: 'tris:registry', scheme: 'humans', expires_at, accredited: true },
      { status: 'zk-KYH', issuer: 'tris:others', scheme: 'others', expires_at, accredited: true },
      { status: 'zk-KYC (ID only)', issuer: 'tris:bank', scheme: 'bank-id', expires_at, accredited: true },
      { status: 'zk-KYC (ID + AML)', issuer: 'tris:bank', scheme: 'bank-aml', expires_at, accredited: true },
      { status: 'zk-KYH', issuer: 'key:development', scheme: 'operator', expires_at: null, accredited: true },
    ];
    const now = await held('tris:alice');
    expect(now.map((one: any) => ({ ...one, issuer: one.issuer.replace(/^key:.*/, 'key:development') }))).toEqual(all);
    expect((await service.get('/v1/disc/report/tris:alice')).json.verification).toEqual(now);

    await service.delete(`${path}/zk-KYH?issuer=tris:others`);
    expect((await held('tris:alice')).map(({ scheme }: any) => scheme)).toEqual([
      'humans',
      'bank-id',
      'bank-aml',
      'operator',
    ]);
    await service.delete(`${path}/zk-KYH?scheme=operator`);
    expect((await held('tris:alice')).map(({ scheme }: any) => scheme)).toEqual(['humans', 'bank-id', 'bank-aml']);
    await service.delete(`${path}/${encodeURIComponent('zk-KYC (ID + AML)')}`);
    expect((await held('tris:alice')).map(({ scheme }: any) => scheme)).toEqual(['humans', 'bank-id']);
  });

  test('let an access policy grant', async () => {
    const rules = { verification: ['zk-KYH', 'zk-KYC (ID only)'] };
    await service.post('/v1/policies/ap', { policy_id: 'AP_PROVEN_V1', rules });
    const check = async (subject_tris: string) =>
      (await service.post('/v1/policies/ap/check', { policy_id: 'AP_PROVEN_V1', subject_tris })).json.granted;
    expect(await check('tris:alice')).toBe(true);
    expect(await check('tris:bob')).toBe(false);
    await submit('bank-id', 'tris:bob', proven.idOfBob);
    await held('tris:bob');
    expect(await check('tris:bob')).toBe(true);
  });
});

describe('a revoked verification', () => {
  test('does not come back with the same credential, but with a later one', async () => {
    await service.delete('/v1/identities/tris:alice/verifications/zk-KYH');
    expect(refused(await submit('humans', 'tris:alice', proven.alice))).toEqual([409, 'verification_revoked']);
    const [malleable] = malleated(proven.alice.proof, keyOf('kyh'));
    expect(refused(await submit('humans', 'tris:alice', { ...proven.alice, proof: malleable! }))).toEqual([
      409,
      'verification_revoked',
    ]);

    expect(refused(await submit('humans', 'tris:alice', proven.aliceRenewed))[1]).toBe('public_signal_mismatch');
    const added = await service.post('/v1/verification-schemes/humans/roots', { root: proven.aliceRenewed.root });
    expect([added.status, added.json.roots]).toEqual([200, [proven.alice.root, proven.aliceRenewed.root]]);
    const later = await submit('humans', 'tris:alice', proven.aliceRenewed);
    expect([later.status, later.json.expires_at]).toEqual([201, new Date(Number(LATER) * 1000).toISOString()]);
    // The older credential neither shortens it nor adds to it.
    const older = await submit('humans', 'tris:alice', proven.alice);
    expect([older.status, older.json]).toEqual([200, later.json]);
  });
});

describe('a scheme', () => {
  const body = () =>
    schemeBody('kyh', {
      scheme: 'own',
      status: 'zk-KYH',
      issuer: 'tris:registry',
      scope: 'own',
      roots: [proven.alice.root],
    });

  test('is registered once, with the hash of its key, and can be read by provers', async () => {
    const first = await service.post('/v1/verification-schemes', body());
    expect(first.status).toBe(201);
    const { vk_alphabeta_12: _, ...verification_key } = keyOf('kyh');
    expect(first.json).toEqual({
      scheme: 'own',
      status: 'zk-KYH',
      issuer: 'tris:registry',
      scope: 'own',
      scope_value: bound('own', '').scope,
      public_inputs: ['nullifier', 'root', 'scope', 'subject', 'expires_at'].map((role) => ({ role, value: null })),
      verification_key,
      verification_key_hash: expect.stringMatching(/^[0-9a-f]{64}$/),
      transcript_hash: transcriptOf('kyh'),
      roots: [proven.alice.root],
      retired: false,
      registered_at: expect.any(String),
    });
    const [recorded] = await service.stores.eventStore.readStream('scheme-own');
    const { verification_key_hash, transcript_hash } = first.json;
    expect(recorded!.data).toMatchObject({ verification_key_hash, transcript_hash });
    const { json } = await service.get('/v1/verification-schemes', await seen(service));
    const listed = json.schemes.find(({ scheme }: { scheme: string }) => scheme === 'own');
    expect(listed).toMatchObject({ verification_key_hash, transcript_hash });
    expect((await service.post('/v1/verification-schemes', body())).status).toBe(200);
    for (const change of [{ scope: 'another' }, { transcript_hash: transcriptOf('kyc') }]) {
      const other = await service.post('/v1/verification-schemes', { ...body(), ...change });
      expect(refused(other)).toEqual([409, 'scheme_conflict']);
    }
    expect((await service.get('/v1/verification-schemes/own')).json).toEqual(first.json);
  });

  test('is refused if it would not protect anything', async () => {
    const { public_inputs: inputs, verification_key: key } = body();
    const cases: [object, string][] = [
      [{ scheme: 'operator' }, '/scheme not_equals'],
      [{ status: 'BAD Status validation' }, '/status is_in'],
      [{ public_inputs: inputs.with(3, { role: 'constant', value: '1' }) }, '/public_inputs input_count'],
      [{ public_inputs: inputs.with(3, { role: 'subject', value: '1' }) }, '/public_inputs/3 input_value'],
      [{ public_inputs: [...inputs, { role: 'constant', value: '1' }] }, '/verification_key input_count'],
      [{ verification_key: { ...key, nPublic: 4 } }, '/verification_key input_count'],
      [{ verification_key: { ...key, IC: key.IC.slice(1) } }, '/verification_key input_count'],
      [{ verification_key: { ...key, vk_delta_2: key.vk_gamma_2 } }, '/verification_key/vk_delta_2 not_a_point'],
      [{ verification_key: { ...key, vk_alpha_1: ['1', '1', '1'] } }, '/verification_key/vk_alpha_1 not_a_point'],
      [{ verification_key: { ...key, IC: 'none' } }, '/verification_key/IC is_array'],
      [{ transcript_hash: undefined }, '/transcript_hash required'],
      [{ transcript_hash: transcriptOf('kyh').toUpperCase() }, '/transcript_hash matches'],
      [{ transcript_hash: transcriptOf('kyh').slice(1) }, '/transcript_hash matches'],
      [{ transcript_hash: '0'.repeat(64) }, '/transcript_hash not_a_transcript'],
      [{ transcript_hash: sha256Hex('') }, '/transcript_hash not_a_transcript'],
      [{ transcript_hash: keyHash(keyWithout(key)) }, '/transcript_hash not_a_transcript'],
    ];
    for (const [change, expected] of cases) {
      const answer = await service.post('/v1/verification-schemes', { ...body(), scheme: 'weak', ...change });
      expect(refused(answer)).toEqual([400, 'validation_failed', expected]);
    }
    expect((await service.get('/v1/verification-schemes/weak')).status).toBe(404);
  });

  test('of before transcripts were required shows none, works, and gets one when it is registered again', async () => {
    const { transcript_hash, verification_key, ...rest } = body();
    const inputs = rest.public_inputs.map(({ role }) => ({ role, value: null }));
    const data = {
      ...rest,
      scheme: 'old',
      public_inputs: inputs,
      verification_key: keyWithout(verification_key),
      verification_key_hash: 'of before',
    };
    const at = new Date().toISOString();
    const metadata = { occurred_at: at, recorded_at: at, correlation_id: 'old', actor: 'key:old', body_hash: 'old' };
    const event: NewEvent = {
      id: randomUUID(),
      type: 'SchemeRegistered',
      data: data as unknown as NewEvent['data'],
      metadata: { ...metadata, schema: 1, index: 0, size: 1 },
    };
    await service.stores.eventStore.append('scheme-old', 'no-stream', [event]);
    const shown = async () => (await service.get('/v1/verification-schemes/old')).json.transcript_hash;
    const listed = async () => {
      const { json } = await service.get('/v1/verification-schemes', await seen(service));
      return json.schemes.find(({ scheme }: { scheme: string }) => scheme === 'old').transcript_hash;
    };
    expect([await shown(), await listed()]).toEqual([null, null]);
    expect((await service.post('/v1/verification-schemes/old/roots', { root: '7' })).status).toBe(200);

    const register = (change: object) =>
      service.post('/v1/verification-schemes', { ...body(), scheme: 'old', ...change });
    expect((await register({})).status).toBe(201);
    expect([await shown(), await listed()]).toEqual([transcript_hash, transcript_hash]);
    expect((await register({})).status).toBe(200);
    expect(refused(await register({ transcript_hash: transcriptOf('kyc') }))).toEqual([409, 'scheme_conflict']);
    const log = await service.stores.eventStore.readStream('scheme-old');
    expect(log.map(({ type }) => type)).toEqual(['SchemeRegistered', 'SchemeRootAdded', 'SchemeTranscriptDeclared']);
  });

  test('takes proofs of its roots only while they are accepted, and none once it is retired', async () => {
    const path = '/v1/verification-schemes/race';
    const root = racing[0]!.root;
    // Also while a proof waits for a thread.
    const verifier = service.app.get(ProofVerifier, { strict: false });
    const verify = jest.spyOn(verifier, 'verify').mockImplementationOnce(async () => {
      await service.delete(`${path}/roots/${root}`);
      return true;
    });
    const waited = await submit('race', RACERS[1]!, racing[1]!);
    expect(refused(waited).slice(0, 2)).toEqual([422, 'public_signal_mismatch']);
    verify.mockRestore();
    await service.post(`${path}/roots`, { root });
    const statusOf = async () => refused(await submit('race', RACERS[0]!, racing[0]!)).slice(0, 2);
    await service.delete(`${path}/roots/${root}`);
    expect(await statusOf()).toEqual([422, 'public_signal_mismatch']);
    await service.post(`${path}/roots`, { root });
    expect((await statusOf())[1]).not.toBe('public_signal_mismatch');
    const retired = await service.post(`${path}/retire`);
    expect([retired.status, retired.json.retired]).toEqual([200, true]);
    expect(await statusOf()).toEqual([409, 'scheme_retired']);
    expect(refused(await service.post(`${path}/roots`, { root: '7' }))).toEqual([409, 'scheme_retired']);
    const page = await service.get('/v1/verification-schemes?limit=2', {
      'credence-min-position': String(retired.headers['credence-position']),
    });
    expect(page.json.schemes.map(({ scheme }: any) => scheme)).toEqual(['bank-aml', 'bank-id']);
    const rest = await service.get(`/v1/verification-schemes?cursor=${page.json.next_cursor}`);
    expect(rest.json.schemes.map(({ scheme, retired }: any) => [scheme, retired])).toEqual([
      ['humans', false],
      ['old', false],
      ['others', false],
      ['own', false],
      ['race', true],
    ]);
  });
});

test('outcomes are counted', async () => {
  const text = (await service.get('/metrics', { 'x-api-key': service.key })).text;
  for (const outcome of ['granted', 'held', 'proof_invalid', 'proof_expired', 'nullifier_used', 'validation_failed']) {
    expect(text).toMatch(new RegExp(`credence_proofs_total\\{outcome="${outcome}"\\} [1-9]`));
  }
  expect(text).toMatch(/credence_proof_seconds_count [1-9]/);
});
