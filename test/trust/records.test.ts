import { generateKeyPairSync, randomUUID, sign } from 'node:crypto';
import { jest } from '@jest/globals';
import { SCOPES } from '../../src/credentials/caller.js';
import type { NewEvent } from '../../src/kernel/event.js';
import { keptText } from '../../src/commands/kept-texts.js';
import { sha256Hex } from '../../src/kernel/hash.js';
import { CountedContent } from '../../src/features/trove/counted-content.js';
import { eventually } from '../contracts/harness.js';
import { type Service, as, seen, startServiceWithKeys } from '../policies/service.fixture.js';

/** Records belong to who submits them; a review counts for the reviewer's own platforms and binds nobody else. */

const KEYS = [
  { id: 'operator', scopes: SCOPES },
  { id: 'operator-2', scopes: SCOPES },
  { id: 'a1', scopes: SCOPES, organization: 'tris:a' },
  { id: 'a2', scopes: SCOPES, organization: 'tris:a' },
  { id: 'b', scopes: SCOPES, organization: 'tris:b' },
  { id: 'c', scopes: SCOPES, organization: 'tris:c' },
];
const [OPERATOR, OPERATOR_2] = [as('operator'), as('operator-2')];
const [A1, A2, B, C] = [as('a1'), as('a2'), as('b'), as('c')];
type Headers = Record<string, string>;

let service: Service;
beforeAll(async () => {
  service = await startServiceWithKeys(KEYS);
  for (const name of ['a', 'b', 'c']) {
    const body = { tris_org: `tris:${name}`, platform_ids: [`${name}-app`] };
    expect((await service.post('/v1/organizations', body, OPERATOR)).status).toBe(201);
  }
});
afterAll(() => service.close());

let serial = 0;
const record = (more: object = {}) => {
  const n = ++serial;
  return {
    tris_id: `tris:maker${n}`,
    record_type: 'milestone',
    metric: 'creative_code_contribution',
    criticality: 'high',
    title: `Release ${n}`,
    content_hash: sha256Hex(`record ${n}`),
    occurred_at: '2026-01-01T00:00:00Z',
    ...more,
  };
};
const submit = async (body: object, by: Headers) => {
  const { status, json } = await service.post('/v1/trove/submit', body, by);
  return status === 202 ? (json.record_id as string) : `${status} ${json.code}`;
};
const review = async (id: string, body: object, by: Headers) => {
  const { status, json } = await service.post(`/v1/trove/${id}/review`, body, by);
  return status === 200 ? (json.status as string) : `${status} ${json.code}`;
};
const approveFor = (platform_id: string) => ({ decision: 'approve', platform_id });
const LIFT = { decision: 'lift' };
const REJECT = { decision: 'reject', reason_code: 'not_reproducible' };
const get = async (id: string) => (await service.get(`/v1/trove/${id}`, OPERATOR)).json;
const totalOf = async (tris: string) =>
  (await service.get(`/v1/disc/score/${tris}`, await seen(service))).json.total_tct;

test('another organization’s record of the same content neither blocks nor changes one', async () => {
  const body = record();
  const byB = await submit({ ...body, tris_id: 'tris:somebody' }, B);
  const byA = await submit(body, A1);
  const byOperator = await submit({ ...body, title: 'Another title' }, OPERATOR);
  expect(new Set([byA, byB, byOperator]).size).toBe(3);
  for (const id of [byA, byB]) expect(id).toMatch(new RegExp(`^${body.content_hash}-[0-9a-f]{16}$`));
  expect(byOperator).toBe(body.content_hash);
  expect(await get(byA)).toMatchObject({ tris_id: body.tris_id, submitter: 'tris:a', content_hash: body.content_hash });
  expect(await get(byB)).toMatchObject({ tris_id: 'tris:somebody', submitter: 'tris:b' });
  expect(await get(byOperator)).toMatchObject({ title: 'Another title', submitter: null });
});

test('the keys of one organization submit the same record', async () => {
  const body = record();
  const id = await submit(body, A1);
  expect(await submit(body, A2)).toBe(id);
  expect(await submit({ ...body, criticality: 'low' }, A2)).toBe('409 record_conflict');
});

test('a submission that another one with the same content has overtaken leaves no text', async () => {
  const body = record();
  const titles = Array.from({ length: 6 }, (_, n) => `${body.title}, edition ${n}`);
  const answers = await Promise.all(
    titles.map((title) => submit({ ...body, title, uri: `https://x.example/${title.length}` }, A1)),
  );
  const recorded = titles.filter((_, n) => !answers[n]!.startsWith('409'));
  expect(recorded).toHaveLength(1);
  const stored = await Promise.all(titles.map((title) => keptText(service.stores.keyValue, sha256Hex(title))));
  expect(stored.filter((text) => text !== null)).toEqual(recorded);
});

test('nobody reviews what their organization, or the same key, submitted', async () => {
  const byA = await submit(record(), A1);
  for (const by of [A1, A2]) expect(await review(byA, approveFor('a-app'), by)).toBe('403 own_submission');
  const byOperator = await submit(record(), OPERATOR);
  expect(await review(byOperator, { decision: 'approve' }, OPERATOR)).toBe('403 own_submission');
  expect(await review(byOperator, { decision: 'approve' }, OPERATOR_2)).toBe('Approved');
});

test('an organization approves for its own platforms, not for that of the trove', async () => {
  const id = await submit(record(), A1);
  expect(await review(id, { decision: 'approve' }, B)).toBe('403 platform_not_owned');
  expect(await review(id, approveFor('c-app'), B)).toBe('403 platform_not_owned');
  expect(await review(id, approveFor('b-app'), B)).toBe('Approved');
});

test('a rejection by one organization leaves the record to others', async () => {
  const body = record();
  const id = await submit(body, A1);
  expect(await review(id, REJECT, B)).toBe('Pending');
  expect(await get(id)).toMatchObject({
    status: 'Pending',
    decision: null,
    reviews: [{ organization: 'tris:b', approved: false, reason_code: 'not_reproducible', action_id: null }],
  });
  const pending = await service.get(`/v1/trove?status=Pending&tris_id=${body.tris_id}`, {
    ...C,
    ...(await seen(service)),
  });
  expect(pending.json.records.map(({ record_id }: { record_id: string }) => record_id)).toEqual([id]);
  expect(await review(id, approveFor('b-app'), B)).toBe('409 record_decided');
  expect(await review(id, approveFor('c-app'), C)).toBe('Approved');
  expect(await review(id, approveFor('c-app'), C)).toBe('Approved');
  expect(await totalOf(body.tris_id)).toBe(100);
  expect(await get(id)).toMatchObject({ status: 'Approved', decision: { platform_id: 'c-app', decided_by: 'key:c' } });
});

test('an operator’s rejection is shown, and organizations still decide for their own platforms', async () => {
  const id = await submit(record(), A1);
  expect(await review(id, REJECT, OPERATOR)).toBe('Rejected');
  expect(await review(id, { decision: 'approve' }, OPERATOR_2)).toBe('409 record_decided');
  expect(await review(id, approveFor('b-app'), B)).toBe('Approved');
});

test('each organization that approves endorses once', async () => {
  const body = record();
  const id = await submit(body, A1);
  const approvals = [review(id, approveFor('b-app'), B), review(id, approveFor('c-app'), C)];
  expect(await Promise.all(approvals)).toEqual(['Approved', 'Approved']);
  const { validations } = (await service.get(`/api/tris-validations/${body.tris_id}`, await seen(service))).json;
  expect(validations.map(({ from }: { from: string }) => from).sort()).toEqual(['tris:b', 'tris:c']);
});

test('the same content counts once for an identity on a platform, whoever submits it', async () => {
  const body = record();
  const [byA, byC] = [await submit(body, A1), await submit(body, C)];
  const answers = await Promise.all([byA, byC].map((id) => review(id, approveFor('b-app'), B)));
  expect(answers.sort()).toEqual(['409 record_counted', 'Approved']);
  expect(await totalOf(body.tris_id)).toBe(100);
});

test('a record counts once on a platform, though its organization and operators approve it', async () => {
  const body = record();
  const id = await submit(body, A1);
  const answers = await Promise.all([OPERATOR, B].map((by) => review(id, approveFor('b-app'), by)));
  expect(answers.sort()).toEqual(['409 record_counted', 'Approved']);
  expect(await totalOf(body.tris_id)).toBe(100);
  expect(await review(id, approveFor('c-app'), C)).toBe('Approved');
});

test('an approval that was revoked since is repeated with its Idempotency-Key', async () => {
  const id = await submit(record(), A1);
  const approve = () =>
    service.post(`/v1/trove/${id}/review`, approveFor('b-app'), { ...B, 'idempotency-key': 'approve-once' });
  const first = await approve();
  expect(first.status).toBe(200);
  expect(await review(id, { decision: 'revoke', reason_code: 'mistake' }, B)).toBe('Pending');
  const again = await approve();
  expect([again.status, again.headers['credence-position']]).toEqual([200, first.headers['credence-position']]);
  expect(again.headers['idempotency-replayed']).toBe('true');
});

test('a repeated submission, or review, says what the record was then', async () => {
  const body = record();
  const keyed = async (path: string, of: object, by: Headers) => {
    const { json, status } = await service.post(path, of, { ...by, 'idempotency-key': `then ${body.content_hash}` });
    return [status, json.status];
  };
  const submitIt = () => keyed('/v1/trove/submit', body, OPERATOR);
  const rejectIt = () => keyed(`/v1/trove/${body.content_hash}/review`, REJECT, OPERATOR_2);
  expect([await submitIt(), await rejectIt()]).toEqual([
    [202, 'Pending'],
    [200, 'Rejected'],
  ]);
  expect(await submitIt()).toEqual([202, 'Pending']);
  expect(await review(body.content_hash, LIFT, OPERATOR_2)).toBe('Pending');
  expect(await rejectIt()).toEqual([200, 'Rejected']);
});

/** Lets other requests in between taking the content's place and the approval. */
const afterTaking = (then: () => Promise<unknown>) => {
  const { take } = CountedContent.prototype;
  jest.spyOn(CountedContent.prototype, 'take').mockImplementationOnce(async function (this: CountedContent, ...args) {
    const taken = await take.apply(this, args);
    await then();
    return taken;
  });
};

test('a content counts by another record if its own was rejected while it was being approved', async () => {
  const body = record();
  const [byA, byC] = [await submit(body, A1), await submit(body, C)];
  afterTaking(() => review(byA, REJECT, OPERATOR_2));
  expect(await review(byA, { decision: 'approve' }, OPERATOR)).toBe('409 record_decided');
  expect(await review(byC, { decision: 'approve' }, OPERATOR)).toBe('Approved');
  expect(await review(byA, LIFT, OPERATOR)).toBe('Pending');
  expect(await review(byA, { decision: 'approve' }, OPERATOR)).toBe('409 record_counted');
  expect(await totalOf(body.tris_id)).toBe(100);
});

test('a content counts once, although its place was given to another record and the rejection lifted meanwhile', async () => {
  const body = record();
  const [byA, byC] = [await submit(body, A1), await submit(body, C)];
  afterTaking(async () => {
    expect(await review(byA, REJECT, OPERATOR_2)).toBe('Rejected');
    expect(await review(byC, { decision: 'approve' }, OPERATOR_2)).toBe('Approved');
    expect(await review(byA, LIFT, OPERATOR_2)).toBe('Pending');
  });
  expect(await review(byA, { decision: 'approve' }, OPERATOR)).toBe('409 write_conflict');
  expect(await review(byA, { decision: 'approve' }, OPERATOR)).toBe('409 record_counted');
  expect(await totalOf(body.tris_id)).toBe(100);
});

test('a content’s place is not given away while the platform’s organization can still approve its record', async () => {
  const body = record();
  const [byA, byC] = [await submit(body, A1), await submit(body, C)];
  let other: string | undefined;
  afterTaking(async () => {
    await review(byA, REJECT, OPERATOR_2);
    other = await review(byC, approveFor('b-app'), OPERATOR);
  });
  expect(await review(byA, approveFor('b-app'), B)).toBe('Approved');
  expect(other).toBe('409 record_counted');
  expect(await totalOf(body.tris_id)).toBe(100);
});

test('a content’s place is given away if the platform’s organization cannot approve its record, which it submitted', async () => {
  const body = record();
  const [byA, byC] = [await submit(body, A1), await submit(body, C)];
  afterTaking(() => review(byA, REJECT, OPERATOR_2));
  expect(await review(byA, approveFor('a-app'), OPERATOR)).toBe('409 record_decided');
  expect(await review(byC, approveFor('a-app'), A1)).toBe('Approved');
  expect(await totalOf(body.tris_id)).toBe(100);
});

const { privateKey, publicKey } = generateKeyPairSync('ed25519');
/** With the issuer's signature. */
async function proven(body: ReturnType<typeof record>, issuer: string, platform_id = `${issuer}.example`) {
  const content = {
    issuer_id: issuer,
    platform_id,
    ed25519: publicKey.export({ format: 'jwk' }).x,
  };
  expect([200, 201]).toContain((await service.post('/v1/trove-issuers', content, OPERATOR)).status);
  const { statement } = await get(await submit(body, A1));
  const signature = sign(null, Buffer.from(statement), privateKey).toString('base64url');
  return { ...body, proof: { type: 'signature', issuer, signature } };
}
async function decided(id: string) {
  await eventually(async () => (await get(id)).status !== 'Pending');
  return get(id);
}

test('an operator’s rejection stands against a proof, until an operator lifts it', async () => {
  const body = await proven(record(), 'university');
  const { proof: _proof, ...bare } = body;
  const id = await submit(bare, A1);
  expect(await review(id, REJECT, OPERATOR)).toBe('Rejected');
  expect(await submit(body, A1)).toBe('409 record_decided');
  expect(await submit(bare, A1)).toBe(id);
  expect(await get(id)).toMatchObject({ status: 'Rejected', proof: null, decision: { decided_by: 'key:operator' } });

  expect(await review(id, LIFT, B)).toBe('403 forbidden');
  for (const by of [OPERATOR_2, OPERATOR_2]) expect(await review(id, LIFT, by)).toBe('Pending');
  expect(await get(id)).toMatchObject({ status: 'Pending', decision: null });
  expect(await submit(body, A1)).toBe(id);
  expect(await decided(id)).toMatchObject({ status: 'Approved', decision: { decided_by: 'university' } });
  expect(await review(id, LIFT, OPERATOR_2)).toBe('409 record_decided');
  expect(await totalOf(body.tris_id)).toBe(100);
});

test('a proof that an operator’s rejection overtook is verified when the rejection is lifted', async () => {
  const body = await proven(record(), 'college');
  const id = await submit({ ...body, proof: undefined }, A1);
  afterTaking(() => review(id, REJECT, OPERATOR));
  expect(await submit(body, A1)).toBe(id);
  expect(await decided(id)).toMatchObject({ status: 'Rejected', decision: { decided_by: 'key:operator' } });
  const job = async () => (await service.get(`/v1/jobs/trv_${id}_1`, OPERATOR)).json;
  await eventually(async () => (await job()).status === 'completed');
  expect((await job()).result).toBe('Rejected');
  expect(await review(id, LIFT, OPERATOR)).toBe('Pending');
  expect(await decided(id)).toMatchObject({ status: 'Approved', decision: { decided_by: 'college' } });
  expect(await totalOf(body.tris_id)).toBe(100);
});

test('a false proof takes no place from the record that has the right one', async () => {
  const lab = { tris_org: 'tris:lab', platform_ids: ['lab.example'] };
  expect((await service.post('/v1/organizations', lab, OPERATOR)).status).toBe(201);
  const body = await proven(record(), 'lab');
  const forged = { ...body, proof: { ...body.proof, signature: Buffer.alloc(64).toString('base64url') } };
  expect(await decided(await submit(forged, A1))).toMatchObject({ status: 'Rejected' });
  expect(await decided(await submit(body, C))).toMatchObject({ status: 'Approved' });
});

test('a proof counts once, though several submit it', async () => {
  const body = await proven(record(), 'lab');
  const { proof } = body;
  expect(await decided(await submit({ ...body, proof }, A1))).toMatchObject({ status: 'Approved' });
  expect(await decided(await submit({ ...body, proof }, B))).toMatchObject({
    status: 'Rejected',
    decision: { reason_code: 'already_counted' },
  });
  expect(await totalOf(body.tris_id)).toBe(100);
});

test('a proof does not count a record that the platform’s organization has approved', async () => {
  const body = await proven(record(), 'b-lab', 'b-app');
  const id = await submit({ ...body, proof: undefined }, A1);
  afterTaking(() => review(id, approveFor('b-app'), B));
  await submit(body, A1);
  const job = async () => (await service.get(`/v1/jobs/trv_${id}_1`, OPERATOR)).json;
  await eventually(async () => (await job()).status === 'completed');
  expect((await job()).result).toBe('already_counted');
  expect(await get(id)).toMatchObject({ status: 'Approved', decision: { decided_by: 'key:b' } });
  expect(await totalOf(body.tris_id)).toBe(100);
});

test('records and decisions from before submitters were recorded stay readable', async () => {
  const { content_hash, tris_id, metric, title } = record();
  const at = '2026-01-01T00:00:00.000Z';
  const data = {
    content_hash,
    tris_id,
    metric,
    record_type: 'milestone',
    criticality: 'High',
    title_hash: sha256Hex(title),
    uri_hash: null,
    agent_id: null,
    operator_tris: null,
    proof: null,
  };
  const event = (type: string, of: object, actor: string): NewEvent => ({
    id: randomUUID(),
    type,
    data: of as NewEvent['data'],
    metadata: {
      schema: 1,
      occurred_at: at,
      recorded_at: at,
      correlation_id: 'old',
      actor,
      body_hash: 'old',
      index: 0,
      size: 1,
    },
  });
  const { eventStore } = service.stores;
  await eventStore.append(`trove-${content_hash}`, 'no-stream', [event('TroveRecordSubmitted', data, 'key:a1')]);
  expect(await get(content_hash)).toMatchObject({ status: 'Pending', submitter: null });
  expect(await review(content_hash, approveFor('a-app'), A1)).toBe('403 own_submission');
  const rejected = { content_hash, tris_id, method: 'review', decided_by: 'key:b', reason_code: 'late' };
  await eventStore.append(`trove-${content_hash}`, 0, [event('TroveRecordRejected', rejected, 'key:b')]);
  expect(await get(content_hash)).toMatchObject({ status: 'Rejected', decision: { decided_by: 'key:b' }, reviews: [] });
});
