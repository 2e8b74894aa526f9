import { generateKeyPairSync, sign } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { jest } from '@jest/globals';
import { encodeAbiParameters, encodePacked, keccak256, parseAbiParameters, zeroAddress, zeroHash } from 'viem';
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts';
import { createKey } from '../../src/credentials/api-keys.js';
import { deleteText } from '../../src/commands/kept-texts.js';
import { sha256Hex } from '../../src/kernel/hash.js';
import { Platforms } from '../../src/features/organizations/platforms.js';
import { EAS_SCHEMA } from '../../src/features/trove/proofs.js';
import { ProofChecks } from '../../src/features/trove/proof-checks.js';
import { temporaryFolder } from '../embedded/temporary-folder.js';
import { eventually } from '../contracts/harness.js';
import { plantEvent } from '../contracts/sample-events.js';
import { signingKeyFile } from '../../src/credentials/signing-keys.js';
import { type Service, seen, startService, startServiceWithKeys } from '../policies/service.fixture.js';

let service: Service;
/** Of a second operator: nobody reviews what the same key submitted. */
let REVIEWER: Record<string, string>;
beforeAll(async () => {
  service = await startService();
  REVIEWER = { 'x-api-key': await createKey(service.config, { id: 'reviewer', scopes: ['trove:review'] }) };
  // The keys are read again within a second.
  const probe = () => service.post(`/v1/trove/${sha256Hex('none')}/review`, { decision: 'approve' }, REVIEWER);
  await eventually(async () => (await probe()).status === 404);
});
afterAll(() => service.close());

let serial = 0;
function record(more: object = {}) {
  serial++;
  return {
    tris_id: `tris:maker${serial}`,
    record_type: 'milestone',
    metric: 'creative_code_contribution',
    criticality: 'high',
    title: `Release ${serial}`,
    content_hash: sha256Hex(`content ${serial} of ${process.pid}`),
    uri: `https://example.com/releases/${serial}`,
    occurred_at: '2026-01-31T12:00:00Z',
    ...more,
  };
}
type Body = ReturnType<typeof record> & Record<string, unknown>;

const submit = (body: object, headers?: Record<string, string>) => service.post('/v1/trove/submit', body, headers);
const key = (of = service) => ({ 'x-api-key': of.key });
const get = async (id: string) => (await service.get(`/v1/trove/${id}`, key())).json;
async function submitted(body: Body): Promise<string> {
  const answer = await submit(body);
  if (answer.status !== 202) throw new Error(answer.text);
  return answer.json.record_id;
}
async function decided(id: string) {
  await eventually(async () => (await get(id)).status !== 'Pending');
  return get(id);
}
/** Once the read models hold all of the log. */
const sweep = async (of = service) => {
  await of.get('/v1/trove', { ...key(of), ...(await seen(of)) });
  await of.app.get(ProofChecks).sweep();
};
const scoreOf = async (trisId: string) => (await service.get(`/v1/disc/score/${trisId}`, await seen(service))).json;
const statementFor = async (body: Body) => (await get(await submitted(body))).statement as string;

describe('a record without a proof', () => {
  test('is pending, without effect on the score, until a reviewer approves it', async () => {
    const body = record();
    const answer = await submit(body);
    expect([answer.status, answer.json]).toEqual([202, { record_id: body.content_hash, status: 'Pending' }]);
    expect(await get(body.content_hash)).toMatchObject({
      status: 'Pending',
      title: body.title,
      uri: body.uri,
      metric: 'creative_code_contribution',
      criticality: 'High',
      occurred_at: '2026-01-31T12:00:00.000Z',
      decision: null,
      proof: null,
    });
    expect((await service.get(`/v1/disc/score/${body.tris_id}`)).status).toBe(404);

    const review = await service.post(`/v1/trove/${body.content_hash}/review`, { decision: 'approve' }, REVIEWER);
    expect([review.status, review.json]).toEqual([200, { record_id: body.content_hash, status: 'Approved' }]);
    const position = { 'credence-min-position': review.headers['credence-position'] as string };
    const score = await service.get(`/v1/disc/score/${body.tris_id}`, position);
    expect(score.json).toMatchObject({ total_tct: 100, earned_tct: 100 });
    const { validations } = (await service.get(`/api/tris-validations/${body.tris_id}`, position)).json;
    expect(validations).toEqual([
      { from: 'tris:platform:trove', amount: 100, timestamp: '2026-01-31T12:00:00.000Z', category: 'creative' },
    ]);
    const { decision } = await get(body.content_hash);
    expect(decision).toMatchObject({ method: 'review', decided_by: 'key:reviewer', reason_code: null });
    const history = (await service.get(`/v1/disc/score/${body.tris_id}/history`)).json;
    expect(history.entries[0]).toMatchObject({ event_id: decision.action_id, platform_id: 'trove', tct_delta: 100 });
  });

  test('has no effect when it is rejected, which requires a reason', async () => {
    const body = record();
    const id = await submitted(body);
    const bare = await service.post(`/v1/trove/${id}/review`, { decision: 'reject' }, REVIEWER);
    expect([bare.status, bare.json.errors[0].pointer]).toEqual([400, '/reason_code']);
    const rejection = { decision: 'reject', reason_code: 'not_reproducible' };
    const review = await service.post(`/v1/trove/${id}/review`, rejection, REVIEWER);
    expect(review.json.status).toBe('Rejected');
    expect(await get(id)).toMatchObject({
      status: 'Rejected',
      decision: { reason_code: 'not_reproducible', action_id: null },
    });
    expect((await service.get(`/v1/disc/score/${body.tris_id}`)).status).toBe(404);
  });

  test('counts no more once its reviewer has revoked it, and only then', async () => {
    const body = record();
    const id = await submitted(body);
    const review = (decision: object, headers = REVIEWER) => service.post(`/v1/trove/${id}/review`, decision, headers);
    const revoke = { decision: 'revoke', reason_code: 'mistake' };
    expect((await review(revoke)).json.code).toBe('record_decided');
    await review({ decision: 'approve' });
    const { decision } = await get(id);
    for (const wrong of [{ decision: 'revoke' }, { ...revoke, reason_code: 'no_such_reason' }]) {
      const { status, json } = await review(wrong);
      expect([status, json.errors[0].pointer]).toEqual([400, '/reason_code']);
    }
    expect((await review(revoke, key())).json.code).toBe('own_submission');
    const revoked = await review(revoke);
    expect([revoked.status, revoked.json.status]).toEqual([200, 'Rejected']);
    const again = await review(revoke);
    expect(again.headers['credence-position']).toBe(revoked.headers['credence-position']);
    expect(await get(id)).toMatchObject({ status: 'Rejected', decision: { reason_code: 'mistake', action_id: null } });
    expect(await scoreOf(body.tris_id)).toMatchObject({ earned_tct: 0 });
    const reinstate = await service.post(`/v1/actions/${decision.action_id}/reinstate`, { reason: 'mistake' });
    expect([reinstate.status, reinstate.json.code]).toEqual([409, 'record_decided']);
    // After the rejection is lifted, it is decided again.
    await review({ decision: 'lift' });
    expect((await review({ decision: 'approve' })).json.status).toBe('Approved');
    expect(await scoreOf(body.tris_id)).toMatchObject({ earned_tct: 100 });
    expect((await get(id)).decision.action_id).not.toBe(decision.action_id);
    expect((await review(revoke)).json.status).toBe('Rejected');
    expect(await scoreOf(body.tris_id)).toMatchObject({ earned_tct: 0 });
  });

  test('is decided once: the same decision again changes nothing, another is refused', async () => {
    const id = await submitted(record());
    const approve = () => service.post(`/v1/trove/${id}/review`, { decision: 'approve' }, REVIEWER);
    const answers = await Promise.all([approve(), approve(), approve()]);
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200]);
    const other = await service.post(`/v1/trove/${id}/review`, { decision: 'reject', reason_code: 'late' }, REVIEWER);
    expect([other.status, other.json.code]).toEqual([409, 'record_decided']);
    expect(await service.stores.eventStore.readStream(`trove-${id}`)).toHaveLength(4); // submission, approval, action, credonation
  });
});

describe('the same content', () => {
  test('is the same record', async () => {
    const body = record();
    const position = (await submit(body)).headers['credence-position'];
    const again = await submit({ ...body, metric: 'creative_code_contribution', criticality: 'HIGH' });
    expect([again.status, again.json.record_id, again.headers['credence-position']]).toEqual([
      202,
      body.content_hash,
      position,
    ]);
  });

  test.each(['tris_id', 'title', 'uri', 'metric', 'criticality', 'occurred_at'])(
    'with another %s is refused',
    async (field) => {
      const body = record();
      await submitted(body);
      const others: Record<string, string> = {
        tris_id: 'tris:thief',
        title: 'Mine',
        uri: 'https://example.com/mine',
        metric: 'creative_bugs_found',
        criticality: 'low',
        occurred_at: '2026-01-31T12:00:01Z',
      };
      const head = await service.stores.eventStore.head();
      const answer = await submit({ ...body, [field]: others[field] }, { 'idempotency-key': `other-${field}` });
      expect([answer.status, answer.json.code, answer.json.errors[0].pointer]).toEqual([
        409,
        'record_conflict',
        '/content_hash',
      ]);
      expect(await service.stores.eventStore.head()).toBe(head);
    },
  );

  test('does not store a deleted text again', async () => {
    const body = record();
    const id = await submitted(body);
    for (const text of [body.title, body.uri]) await deleteText(service.stores.keyValue, sha256Hex(text));
    expect(await submitted(body)).toBe(id);
    expect(await get(id)).toMatchObject({ title: null, uri: null });
  });

  test('is one record under concurrent submissions', async () => {
    const body = record();
    const answers = await Promise.all(Array.from({ length: 20 }, () => submit(body)));
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([202]));
    expect(await service.stores.eventStore.readStream(`trove-${body.content_hash}`)).toHaveLength(1);
  });
});

describe('a record of an AI agent’s behavior', () => {
  test('names the agent and its operator', async () => {
    const missing = await submit(record({ record_type: 'ai_behavior' }));
    expect([missing.status, missing.json.errors.map(({ pointer }: { pointer: string }) => pointer)]).toEqual([
      400,
      ['/agent_id', '/operator_tris'],
    ]);
    const body = record({ record_type: 'ai_behavior', agent_id: 'agent-7', operator_tris: 'tris:operator' });
    expect(await get(await submitted(body))).toMatchObject({ agent_id: 'agent-7', operator_tris: 'tris:operator' });
  });

  test('cannot be submitted as another record type', async () => {
    const answer = await submit(record({ agent_id: 'agent-7' }));
    expect([answer.status, answer.json.errors[0].pointer]).toEqual([400, '/agent_id']);
  });
});

describe('a proof by a registered issuer', () => {
  const pair = generateKeyPairSync('ed25519');
  const account = privateKeyToAccount(generatePrivateKey());
  const ed25519 = (pair.publicKey.export({ format: 'jwk' }) as { x: string }).x;
  const signed = (statement: string) => sign(null, Buffer.from(statement), pair.privateKey).toString('base64url');
  const proof = (signature: string, issuer = 'lab') => ({ type: 'signature', issuer, signature });

  beforeAll(async () => {
    await service.post('/v1/organizations', { tris_org: 'tris:university', platform_ids: ['university.example'] });
    const lab = await service.post('/v1/trove-issuers', {
      issuer_id: 'lab',
      platform_id: 'university.example',
      ed25519,
    });
    expect([lab.status, lab.json]).toEqual([
      201,
      { issuer_id: 'lab', platform_id: 'university.example', ed25519, address: null, eas_domain: null, retired: false },
    ]);
    const wallet = { issuer_id: 'wallet', platform_id: 'university.example', address: account.address.toLowerCase() };
    expect((await service.post('/v1/trove-issuers', wallet)).json.address).toBe(account.address);
  });

  test('approves the record; the issuer’s organization endorses the identity', async () => {
    const body = record();
    const statement = await statementFor(body);
    expect(JSON.parse(statement)).toEqual({
      tris_id: body.tris_id,
      record_type: 'milestone',
      metric: 'creative_code_contribution',
      criticality: 'High',
      content_hash: body.content_hash,
      occurred_at: '2026-01-31T12:00:00.000Z',
    });
    expect((await submit({ ...body, proof: proof(signed(statement)) })).json.status).toBe('Pending');
    expect(await decided(body.content_hash)).toMatchObject({
      status: 'Approved',
      proof: { type: 'signature', issuer: 'lab' },
      decision: { method: 'signature', decided_by: 'lab' },
    });
    const [validation] = (await service.get(`/api/tris-validations/${body.tris_id}`, await seen(service))).json
      .validations;
    expect(validation).toMatchObject({ from: 'tris:university', amount: 100 });
    expect(await scoreOf(body.tris_id)).toMatchObject({ total_tct: 100 });
  });

  test('by an Ethereum address is a signature of the same statement (EIP-191)', async () => {
    const body = record();
    const signature = await account.signMessage({ message: await statementFor(body) });
    await submit({ ...body, proof: proof(signature, 'wallet') });
    expect(await decided(body.content_hash)).toMatchObject({ status: 'Approved', decision: { decided_by: 'wallet' } });
  });

  test('is verified although the process ended before its job was in the queue', async () => {
    const body = record();
    const statement = await statementFor(body);
    const enqueue = service.stores.jobs.enqueue;
    service.stores.jobs.enqueue = () => Promise.reject(new Error('the process ended'));
    const answer = await submit({ ...body, proof: proof(signed(statement)) });
    service.stores.jobs.enqueue = enqueue;
    expect(answer.status).toBe(500);
    await sweep();
    expect(await decided(body.content_hash)).toMatchObject({ status: 'Approved' });
  });

  test('is verified although its job failed permanently, by a resubmission or by the next sweep of pending records', async () => {
    let ahead = 0;
    const later = await startService({}, () => Date.now() + ahead);
    try {
      await later.post('/v1/trove-issuers', { issuer_id: 'lab', platform_id: 'university.example', ed25519 });
      const find = async (body: Body) => (await later.get(`/v1/trove/${body.content_hash}`, key(later))).json;
      const outage = jest.spyOn(Platforms.prototype, 'ownerOf').mockRejectedValue(new Error('an outage'));
      const bodies: Body[] = [];
      for (const body of [record(), record()]) {
        await later.post('/v1/trove/submit', body);
        bodies.push({ ...body, proof: proof(signed((await find(body)).statement)) });
      }
      for (const body of bodies) expect((await later.post('/v1/trove/submit', body)).json.status).toBe('Pending');
      const failed = async () => (await later.stores.jobs.list({ status: 'failed' })).length;
      await eventually(async () => (ahead += 600_000) > 0 && (await failed()) === 2);
      outage.mockRestore();

      const [resubmitted, left] = bodies as [Body, Body];
      await later.post('/v1/trove/submit', resubmitted);
      await eventually(async () => (await find(resubmitted)).status === 'Approved');
      await sweep(later);
      await eventually(async () => (await find(left)).status === 'Approved');
    } finally {
      jest.restoreAllMocks();
      await later.close();
    }
  });

  test('approves nothing where the retirement of the issuer cannot be read', async () => {
    await service.post('/v1/trove-issuers', { issuer_id: 'ended', platform_id: 'university.example', ed25519 });
    const [before, after] = [record(), record()];
    const [early, late] = [await statementFor(before), await statementFor(after)];
    const { eventStore, jobs } = service.stores;
    const { enqueue } = jobs;
    jobs.enqueue = () => Promise.reject(new Error('the process ended'));
    await submit({ ...before, proof: proof(signed(early), 'ended') });
    jobs.enqueue = enqueue;
    await plantEvent(eventStore, 'issuer-ended', 'IssuerRetired', {});

    const refused = await submit({ ...after, proof: proof(signed(late), 'ended') });
    expect([refused.status, refused.json.code]).toEqual([500, 'history_unreadable']);
    await sweep();
    const job = () => jobs.get('trove_verification', `trv_${before.content_hash}_1`);
    await eventually(async () => Boolean((await job())?.error));
    expect((await job())?.error).toMatch(/^issuer-ended cannot be read: /);
    for (const { content_hash } of [before, after]) expect((await get(content_hash)).status).toBe('Pending');
  });

  test('is verified although another record, submitted before it, cannot be read', async () => {
    const [lost, body] = [record(), record()];
    await statementFor(lost);
    const statement = await statementFor(body);
    const { eventStore, jobs } = service.stores;
    await plantEvent(eventStore, `trove-${lost.content_hash}`, 'TroveRecordRejected', {});
    const { enqueue } = jobs;
    jobs.enqueue = () => Promise.reject(new Error('the process ended'));
    await submit({ ...body, proof: proof(signed(statement)) });
    jobs.enqueue = enqueue;
    await sweep();
    expect(await decided(body.content_hash)).toMatchObject({ status: 'Approved' });
    const review = await service.post(`/v1/trove/${lost.content_hash}/review`, { decision: 'approve' }, REVIEWER);
    expect([review.status, review.json.code]).toEqual([500, 'history_unreadable']);
  });

  test('is searched for by workers only, and not in the streams of records that wait for a reviewer', async () => {
    const sweeps = jest.spyOn(ProofChecks.prototype, 'sweep');
    const cluster = {
      CREDENCE_PROFILE: 'cluster',
      EVENTSTORE_URL: 'esdb://127.0.0.1:1',
      REDIS_URL: 'redis://127.0.0.1:1',
      CREDENCE_DATABASE_URL: 'postgres://credence@127.0.0.1:1/credence',
      CREDENCE_SIGNING_KEYS: signingKeyFile(service.config).path,
    };
    const api = await startServiceWithKeys([], { ...cluster, CREDENCE_ROLES: 'api' });
    expect(sweeps).not.toHaveBeenCalled();
    await api.close();
    const worker = await startServiceWithKeys([], { ...cluster, CREDENCE_ROLES: 'worker' });
    expect(sweeps).toHaveBeenCalledTimes(1);
    await worker.close();

    const waiting = await submitted(record());
    const reads = jest.spyOn(service.stores.eventStore, 'readStream');
    await sweep();
    // Jobs of other records may still be tried again.
    expect(reads.mock.calls.map(([stream]) => stream)).not.toContain(`trove-${waiting}`);
    jest.restoreAllMocks();
  });

  test('of another record rejects it; a right one afterwards approves it', async () => {
    const body = record();
    const statement = await statementFor(body);
    await submit({ ...body, proof: proof(signed(statement.replace('High', 'Critical'))) });
    expect(await decided(body.content_hash)).toMatchObject({
      status: 'Rejected',
      decision: { reason_code: 'signature_invalid' },
    });
    const position = (await submit({ ...body, proof: proof(signed(statement.replace('High', 'Critical'))) })).json;
    expect(position.status).toBe('Rejected');
    await submit({ ...body, proof: proof(signed(statement)) });
    expect(await decided(body.content_hash)).toMatchObject({ status: 'Approved' });
  });

  test('is refused at once if it cannot be valid: unknown or retired issuer, wrong kind', async () => {
    const ethereum = `0x${'1'.repeat(130)}`;
    const plain = 'A'.repeat(86);
    await service.post('/v1/trove-issuers', { issuer_id: 'former', platform_id: 'university.example', ed25519 });
    const earlier = record();
    const statement = await statementFor(earlier);
    await submit({ ...earlier, proof: proof(signed(statement), 'former') });
    await decided(earlier.content_hash);
    expect((await service.post('/v1/trove-issuers/former/retire')).json.retired).toBe(true);
    const again = await submit({ ...earlier, proof: proof(signed(statement), 'former') });
    expect([again.status, again.json.status]).toEqual([202, 'Approved']);
    const message = {
      version: 2,
      schema: zeroHash,
      recipient: zeroAddress,
      time: 1,
      expirationTime: 0,
      revocable: true,
      refUID: zeroHash,
      data: zeroHash,
      salt: zeroHash,
    };
    const domain = { name: 'EAS Attestation', version: '1.2.0', chainId: 10, verifyingContract: zeroAddress };
    const attestation = { domain, message };
    for (const [wrong, pointer] of [
      [proof(plain, 'nobody'), '/proof/issuer'],
      [proof(plain, 'former'), '/proof/issuer'],
      [proof(ethereum), '/proof/signature'],
      [proof(plain, 'wallet'), '/proof/signature'],
      [{ ...proof(plain), type: 'eas' }, '/proof/attestation'],
      [{ ...proof(plain), attestation }, '/proof/attestation'],
      [{ ...proof(ethereum), type: 'eas', attestation }, '/proof/type'],
      [{ ...proof(plain), type: 'vouch' }, '/proof/type'],
    ] as const) {
      const answer = await submit(record({ proof: wrong }));
      expect([answer.status, answer.json.errors[0].pointer]).toEqual([400, pointer]);
    }
  });

  test('can be an off-chain attestation in the form of EAS', async () => {
    const body = record({ record_type: 'ai_behavior', agent_id: 'agent-7', operator_tris: 'tris:operator' });
    const schema = (revocable: boolean) =>
      keccak256(encodePacked(['string', 'address', 'bool'], [EAS_SCHEMA, zeroAddress, revocable]));
    /** The contract of EAS on Optimism. */
    const EAS = '0x4200000000000000000000000000000000000021' as const;
    const seconds = Math.floor(Date.now() / 1000);
    const attest = async (given: Body, more: object = {}) => {
      const message = {
        version: 2,
        schema: schema(true),
        recipient: zeroAddress,
        time: seconds,
        expirationTime: 0,
        revocable: true,
        refUID: zeroHash,
        data: encodeAbiParameters(parseAbiParameters(EAS_SCHEMA), [
          given.tris_id,
          'ai_behavior',
          given.metric,
          'High',
          `0x${given.content_hash}`,
          BigInt(Date.parse(given.occurred_at)),
          'agent-7',
          'tris:operator',
        ]),
        salt: zeroHash,
        ...more,
      };
      const domain = { name: 'EAS Attestation', version: '1.2.0', chainId: 10, verifyingContract: EAS };
      const signature = await account.signTypedData({
        domain,
        types: {
          Attest: [
            { name: 'version', type: 'uint16' },
            { name: 'schema', type: 'bytes32' },
            { name: 'recipient', type: 'address' },
            { name: 'time', type: 'uint64' },
            { name: 'expirationTime', type: 'uint64' },
            { name: 'revocable', type: 'bool' },
            { name: 'refUID', type: 'bytes32' },
            { name: 'data', type: 'bytes' },
            { name: 'salt', type: 'bytes32' },
          ],
        },
        primaryType: 'Attest',
        message: message as never,
      });
      return { type: 'eas', issuer: 'wallet', signature, attestation: { domain, message } };
    };
    const reasons: [string, object][] = [
      ['attests_another_record', await attest({ ...(body as Body), tris_id: 'tris:another' })],
      ['attestation_schema_unknown', await attest(body as Body, { schema: schema(false) })],
      ['attestation_expired', await attest(body as Body, { expirationTime: seconds - 1 })],
      ['attestation_in_the_future', await attest(body as Body, { time: seconds + 3600 })],
      ['attestation_unreadable', await attest(body as Body, { data: zeroHash })],
    ];
    for (const [reason_code, wrong] of reasons) {
      const { status, text } = await submit({ ...body, proof: wrong });
      if (status !== 202) throw new Error(text);
      expect(await decided(body.content_hash)).toMatchObject({ status: 'Rejected', decision: { reason_code } });
    }
    const right = await attest(body as Body);
    const forged = {
      ...right,
      attestation: { ...right.attestation, domain: { ...right.attestation.domain, chainId: 1 } },
    };
    await submit({ ...body, proof: forged });
    expect(await decided(body.content_hash)).toMatchObject({ decision: { reason_code: 'signature_invalid' } });
    for (const [issuer_id, eas_domain] of [
      ['other-chain', { chain_id: 1, verifying_contract: EAS }],
      ['other-contract', { chain_id: 10, verifying_contract: account.address }],
    ] as const) {
      const named = { issuer_id, platform_id: 'university.example', address: account.address, eas_domain };
      expect((await service.post('/v1/trove-issuers', named)).json).toMatchObject({ eas_domain });
      expect((await service.post('/v1/trove-issuers', { ...named, eas_domain: undefined })).status).toBe(409);
      await submit({ ...body, proof: { ...right, issuer: issuer_id } });
      expect(await decided(body.content_hash)).toMatchObject({
        decision: { reason_code: 'attestation_domain_unknown' },
      });
    }
    const own = { chain_id: 10, verifying_contract: EAS };
    const attester = { issuer_id: 'attester', platform_id: 'university.example', address: account.address };
    expect((await service.post('/v1/trove-issuers', { ...attester, eas_domain: own })).status).toBe(201);
    await submit({ ...body, proof: { ...right, issuer: 'attester' } });
    expect(await decided(body.content_hash)).toMatchObject({ status: 'Approved', decision: { method: 'attestation' } });
    const byAny = record({ record_type: 'ai_behavior', agent_id: 'agent-7', operator_tris: 'tris:operator' });
    await submit({ ...byAny, proof: await attest(byAny as Body) });
    expect(await decided(byAny.content_hash)).toMatchObject({ status: 'Approved' });
  });

  test('has exactly one key, permanently', async () => {
    const both = { issuer_id: 'both', platform_id: 'p', ed25519, address: account.address };
    expect((await service.post('/v1/trove-issuers', both)).status).toBe(400);
    expect((await service.post('/v1/trove-issuers', { issuer_id: 'none', platform_id: 'p' })).status).toBe(400);
    const domain = { chain_id: 10, verifying_contract: account.address };
    const named = { issuer_id: 'named', platform_id: 'p', ed25519, eas_domain: domain };
    expect((await service.post('/v1/trove-issuers', named)).json.errors[0].pointer).toBe('/eas_domain');
    const [first, ...rest] = account.address.slice(2);
    const flipped = first === first!.toLowerCase() ? first!.toUpperCase() : first!.toLowerCase();
    if (flipped !== first) {
      const wrong = { issuer_id: 'checksum', platform_id: 'p', address: `0x${flipped}${rest.join('')}` };
      const refused = (await service.post('/v1/trove-issuers', wrong)).json;
      expect([refused.code, refused.errors[0].pointer]).toEqual(['address_checksum', '/address']);
    }
    const lab = { issuer_id: 'lab', platform_id: 'university.example', ed25519 };
    expect((await service.post('/v1/trove-issuers', lab)).status).toBe(200);
    const other = await service.post('/v1/trove-issuers', { ...lab, platform_id: 'elsewhere' });
    expect([other.status, other.json.code]).toEqual([409, 'issuer_conflict']);
  });
});

describe('a key bound to an organization', () => {
  let bound: Service;
  let folder: Awaited<ReturnType<typeof temporaryFolder>>;
  beforeAll(async () => {
    folder = await temporaryFolder();
    const file = join(folder.path, 'keys.json');
    const entry = (id: string, scopes: string[], organization?: string) => ({
      id,
      sha256: sha256Hex(id),
      scopes,
      organization,
    });
    const keys = [
      entry('ops', ['ops', 'trove:write']),
      entry('dean', ['trove:review'], 'tris:university'),
      entry('writer', ['trove:write']),
    ];
    writeFileSync(file, JSON.stringify(keys));
    bound = await startService({ CREDENCE_API_KEYS: file });
    const organization = { tris_org: 'tris:university', platform_ids: ['university.example'] };
    expect((await bound.post('/v1/organizations', organization, { 'x-api-key': 'ops' })).status).toBe(201);
  });
  afterAll(async () => {
    await bound.close();
    await folder.remove();
  });
  const review = (id: string, body: object, reviewer = 'dean') =>
    bound.post(`/v1/trove/${id}/review`, body, { 'x-api-key': reviewer });
  const pending = async (more: object = {}) => {
    const body = record(more);
    await bound.post('/v1/trove/submit', body, { 'x-api-key': 'writer' });
    return body;
  };

  test('approves for its own platforms only, and thereby endorses', async () => {
    const { content_hash, tris_id } = await pending();
    const refused = await review(content_hash, { decision: 'approve', platform_id: 'elsewhere' });
    expect([refused.status, refused.json.code]).toEqual([403, 'platform_not_owned']);
    const approved = await review(content_hash, { decision: 'approve', platform_id: 'university.example' });
    expect(approved.status).toBe(200);
    const min = { 'credence-min-position': approved.headers['credence-position'] as string };
    const { validations } = (await bound.get(`/api/tris-validations/${tris_id}`, min)).json;
    expect(validations).toMatchObject([{ from: 'tris:university' }]);
    // The same decision is one for the same platform.
    expect((await review(content_hash, { decision: 'approve', platform_id: 'university.example' })).status).toBe(200);
    const otherwise = await review(content_hash, { decision: 'reject', reason_code: 'late' });
    expect(otherwise.json.code).toBe('record_decided');
  });

  test('does not approve for the platform of the trove, whether an organization owns it or not', async () => {
    const [before, after] = [await pending(), await pending()];
    expect((await review(before.content_hash, { decision: 'approve' })).json.code).toBe('platform_not_owned');
    const owner = { tris_org: 'tris:trove', platform_ids: ['trove'] };
    expect((await bound.post('/v1/organizations', owner, { 'x-api-key': 'ops' })).status).toBe(201);
    expect((await review(after.content_hash, { decision: 'approve' })).json.code).toBe('platform_not_owned');
  });

  test('cannot review records about itself or its agent, nor without the scope', async () => {
    const own = await pending({ tris_id: 'tris:university' });
    const agent = await pending({ record_type: 'ai_behavior', agent_id: 'bot', operator_tris: 'tris:university' });
    const other = await pending();
    for (const [{ content_hash }, reviewer, code] of [
      [own, 'dean', 'self_statement'],
      [agent, 'dean', 'self_statement'],
      [other, 'writer', 'forbidden'],
    ] as const) {
      const { status, json } = await review(content_hash, { decision: 'approve' }, reviewer);
      expect([status, json.code]).toEqual([403, code]);
    }
  });
});

test('records are listed by identity and status, in order of submission, page by page', async () => {
  const tris_id = 'tris:prolific';
  const ids: string[] = [];
  for (let i = 0; i < 5; i++) ids.push(await submitted(record({ tris_id })));
  const review = await service.post(`/v1/trove/${ids[1]}/review`, { decision: 'approve' }, REVIEWER);
  const headers = { ...key(), 'credence-min-position': review.headers['credence-position'] as string };
  const list = async (query: string) => {
    const { json } = await service.get(`/v1/trove?${query}`, headers);
    return json as { records: { record_id: string }[]; next_cursor: string | null };
  };
  const idsOf = ({ records }: { records: { record_id: string }[] }) => records.map(({ record_id }) => record_id);
  expect(idsOf(await list(`tris_id=${tris_id}`))).toEqual(ids);
  expect(idsOf(await list(`tris_id=${tris_id}&status=Approved`))).toEqual([ids[1]]);
  const first = await list(`tris_id=${tris_id}&status=Pending&limit=3`);
  expect(idsOf(first)).toEqual([ids[0], ids[2], ids[3]]);
  const second = await list(`tris_id=${tris_id}&status=Pending&limit=3&cursor=${first.next_cursor}`);
  expect([idsOf(second), second.next_cursor]).toEqual([[ids[4]], null]);
  expect(idsOf(await list('status=Pending&limit=1000'))).toEqual(expect.arrayContaining([ids[0], ids[4]]));
  expect((await service.get('/v1/trove?cursor=e30', headers)).status).toBe(400);
});

test('an unknown record is 404', async () => {
  const id = sha256Hex('nothing');
  expect((await service.get(`/v1/trove/${id}`, key())).json.code).toBe('record_not_found');
  expect((await service.post(`/v1/trove/${id}/review`, { decision: 'approve' }, REVIEWER)).json.code).toBe(
    'record_not_found',
  );
});
