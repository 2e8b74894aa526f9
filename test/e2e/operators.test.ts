import { createHash } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Body } from '../../clients/typescript/src/client.js';
import { ACTION, type Answer, Server, expectProblem, expectRefusal, unique } from './server.js';

/** Keys as an operator hands them out: one with every scope, one per organization, and some with a single scope. */
const SCOPES = [
  'relay:write',
  'policies:write',
  'access:check',
  'identity:write',
  'trove:write',
  'trove:review',
  'ops',
];
const KEYS = [
  { id: 'operator', scopes: SCOPES },
  { id: 'bank', scopes: ['relay:write', 'identity:write'], organization: 'tris:bank' },
  { id: 'shop', scopes: ['relay:write', 'identity:write'], organization: 'tris:shop' },
  ...SCOPES.map((scope) => ({ id: `only-${scope.replace(':', '-')}`, scopes: [scope] })),
];
const secret = (id: string) => `secret-of-${id}`;
const as = (id: string) => ({ 'x-api-key': secret(id) });

let server: Server;
let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'credence-keys-'));
  const file = join(folder, 'keys.json');
  const digests = KEYS.map((key) => ({ ...key, sha256: createHash('sha256').update(secret(key.id)).digest('hex') }));
  await writeFile(file, JSON.stringify(digests));
  server = await Server.start({ env: { CREDENCE_API_KEYS: file } });
  server.key = secret('operator');
});
afterAll(() => rm(folder, { recursive: true }));

const keys = (value: object) => Object.keys(value).sort();
const position = ({ headers }: Answer) => headers['credence-position'];
const register = (tris_org: string, ...platform_ids: string[]) =>
  server.post('/v1/organizations', { tris_org, platform_ids });
/** The client with the key of that id. */
const clientOf = (id: string) => server.clientWith(secret(id));
const about = (tris_id: string) => ({ params: { path: { tris_id } } });
const relay = (action: Partial<typeof ACTION>) =>
  server.client.post('/api/decision-relay', { body: { ...ACTION, ...action } });
/** As `register`, by the client, whose reads include it. */
const registered = (tris_org: string, ...platform_ids: string[]) =>
  server.client.post('/v1/organizations', { body: { tris_org, platform_ids } });

describe('organizations', () => {
  test('are registered with their platforms, and usable as soon as that is answered', async () => {
    const org = unique('tris:org');
    const platforms = [unique('p'), unique('p')].sort();
    const answer = await register(org, ...platforms);
    expect(answer.status).toBe(201);
    expect(answer.json).toEqual({
      tris_org: org,
      vetted: false,
      registered_at: expect.stringMatching(/Z$/),
      platform_ids: platforms,
    });
    expect((await server.get(`/v1/organizations/${org}`)).json).toEqual(answer.json);
    expect((await server.getAfter(answer, `/api/disc-score/${org}`)).json).toMatchObject({ total_tct: 0 });
  });

  test('return 200 if registered again without new platforms, and 201 with new ones', async () => {
    const org = unique('tris:org');
    const [one, two, three] = [unique('p'), unique('p'), unique('p')];
    expect((await register(org, one)).status).toBe(201);
    const head = await server.head();
    const again = await register(org, one);
    expect([again.status, again.json.tris_org]).toEqual([200, org]);
    expect((await register(org)).status).toBe(200);
    expect(await server.head()).toBe(head);
    const more = await register(org, one, two, three);
    expect(more.status).toBe(201);
    const read = await server.getAfter(more, `/v1/organizations/${org}`);
    expect(read.json.platform_ids.sort()).toEqual([one, two, three].sort());
  });

  test('with an Idempotency-Key return the first answer again, and refuse another body', async () => {
    const body = { tris_org: unique('tris:org'), platform_ids: [unique('p')] };
    const headers = { 'idempotency-key': unique('key') };
    const first = await server.post('/v1/organizations', body, headers);
    const again = await server.post('/v1/organizations', body, headers);
    expect([again.status, again.json, position(again)]).toEqual([201, first.json, position(first)]);
    const other = await server.post('/v1/organizations', { ...body, platform_ids: [] }, headers);
    expectProblem(other, 422, 'idempotency_key_reused');
  });

  test('cannot take the platform of another, and then nothing is recorded', async () => {
    const [owner, thief] = [unique('tris:org'), unique('tris:org')];
    const [taken, free] = [unique('p'), unique('p')];
    await register(owner, taken);
    const head = await server.head();
    const answer = await register(thief, free, taken);
    expectProblem(answer, 409, 'platform_already_registered', '/platform_ids/1');
    expect(await server.head()).toBe(head);
    expectProblem(await server.get(`/v1/organizations/${thief}`), 404, 'organization_not_found');
  });

  test('racing for a platform: one gets it', async () => {
    const platform = unique('p');
    const orgs = Array.from({ length: 10 }, () => unique('tris:org'));
    const answers = await Promise.all(orgs.map((org) => register(org, platform)));
    expect(answers.map(({ status }) => status).sort()).toEqual([201, ...Array<number>(9).fill(409)]);
  });

  test('are listed in pages', async () => {
    const { client } = server;
    for (let n = 0; n < 4; n++) await registered(unique('tris:listed'));
    const { data: whole } = await client.get('/v1/organizations', { params: { query: { limit: 1000 } } });
    expect(keys(whole)).toEqual(['next_cursor', 'organizations']);
    expect(whole.next_cursor).toBeNull();
    for (const entry of whole.organizations) expect(keys(entry)).toEqual(['registered_at', 'tris_org', 'vetted']);
    const listed: unknown[] = [];
    for await (const one of client.list('/v1/organizations', { params: { query: { limit: 2 } } })) listed.push(one);
    expect(listed).toEqual(whole.organizations);
  });

  test('that are not registered are not found', async () => {
    expectProblem(await server.get('/v1/organizations/tris:nobody'), 404, 'organization_not_found');
    const head = async () => (await server.get('/health/ready')).json.checks.find(isStore).detail;
    const isStore = ({ name }: { name: string }) => name === 'event_store';
    const before = await head();
    for (const verb of ['vet', 'revoke']) {
      const answer = await server.post(`/v1/organizations/tris:nobody/${verb}`, undefined, { 'idempotency-key': verb });
      expectProblem(answer, 404, 'organization_not_found');
    }
    expect(await head()).toBe(before);
  });
});

describe('platforms', () => {
  test('are registered to a registered organization, once', async () => {
    const org = unique('tris:org');
    await register(org);
    const body = { platform_id: unique('p'), tris_org: org };
    const first = await server.post('/v1/platforms', body);
    expect([first.status, first.json]).toEqual([201, body]);
    const again = await server.post('/v1/platforms', body);
    expect([again.status, again.json, position(again)]).toEqual([200, body, position(first)]);
    const read = await server.getAfter(first, `/v1/organizations/${org}`);
    expect(read.json.platform_ids).toEqual([body.platform_id]);
    const other = unique('tris:org');
    await register(other);
    const answer = await server.post('/v1/platforms', { ...body, tris_org: other });
    expectProblem(answer, 409, 'platform_already_registered', '/platform_id');
    const unknown = await server.post('/v1/platforms', { platform_id: unique('p'), tris_org: 'tris:nobody' });
    expectProblem(unknown, 404, 'organization_not_found');
  });

  test('make their organization the sender of credonations from then on', async () => {
    const [org, platform_id, tris_id] = [unique('tris:org'), unique('p'), unique()];
    await relay({ tris_id, platform_id });
    await registered(org, platform_id);
    await relay({ tris_id, platform_id, criticality: 'Low' });
    const { data } = await server.client.get('/api/tris-validations/{tris_id}', about(tris_id));
    expect(data.validations.map(({ from, amount }) => [from, amount])).toEqual([
      [`tris:platform:${platform_id}`, 100],
      [org, 30],
    ]);
  });

  test('endorse every identity except their own organization', async () => {
    const [org, platform_id] = [unique('tris:org'), unique('p')];
    await registered(org, platform_id);
    await relay({ tris_id: org, platform_id });
    expect((await server.client.get('/api/tris-validations/{tris_id}', about(org))).data.validations).toEqual([]);
    expect((await server.client.get('/api/disc-score/{tris_id}', about(org))).data.total_tct).toBe(100);
  });
});

describe('the rank', () => {
  test('is for vetted organizations only, and starts Unranked', async () => {
    const org = unique('tris:org');
    const rank = `/api/disc-rank/${org}`;
    expectProblem(await server.get(rank), 404, 'organization_not_vetted');
    expectProblem(await server.getAfter(await register(org), rank), 404, 'organization_not_vetted');
    const vetted = await server.post(`/v1/organizations/${org}/vet`);
    expect([vetted.status, vetted.json]).toEqual([200, { tris_org: org, vetted: true }]);
    const { status, json } = await server.getAfter(vetted, rank);
    expect(status).toBe(200);
    expect(json).toEqual({ tris_id: org, tct_total: 0, disc_rank: 'Unranked' });
    const again = await server.post(`/v1/organizations/${org}/vet`);
    expect([again.status, position(again)]).toEqual([200, position(vetted)]);
    const revoked = await server.post(`/v1/organizations/${org}/revoke`);
    expect(revoked.json).toEqual({ tris_org: org, vetted: false });
    expectProblem(await server.getAfter(revoked, rank), 404, 'organization_not_vetted');
    expectProblem(await server.get('/api/disc-rank/tris:somebody'), 404, 'organization_not_vetted');
  });

  test('follows the organization’s own ledger', async () => {
    const org = unique('tris:org');
    await registered(org);
    await server.client.post('/v1/organizations/{tris_id}/vet', about(org));
    // Each on a day of its own, since a day earns no more than 140 TCT.
    let days = 0;
    const relayTimes = (count: number, action: Partial<typeof ACTION>) =>
      Promise.all(
        Array.from({ length: count }, () => {
          const occurred_at = new Date(Date.now() - days++ * 86_400_000).toISOString();
          return relay({ tris_id: org, occurred_at, ...action });
        }),
      );
    const rank = async () => (await server.client.get('/api/disc-rank/{tris_id}', about(org))).data;
    await relayTimes(10, { criticality: 'High' });
    expect(await rank()).toEqual({ tris_id: org, tct_total: 1_000, disc_rank: 'Bronze' });
    await relayTimes(1, { criticality: 'Minimal', action_type: 'default_flags' });
    expect(await rank()).toEqual({ tris_id: org, tct_total: 900, disc_rank: 'Unranked' });
    await relayTimes(41, { criticality: 'High' });
    expect(await rank()).toEqual({ tris_id: org, tct_total: 5_000, disc_rank: 'Silver' });
  });
});

describe('keys', () => {
  const bankPlatform = 'bank-app';
  beforeAll(async () => {
    await register('tris:bank', bankPlatform);
    await register('tris:shop', 'shop-app');
  });

  test('of an organization relay for its own platforms only', async () => {
    expect((await server.relay({ platform_id: bankPlatform }, as('bank'))).status).toBe(202);
    const head = await server.head();
    for (const platform_id of ['shop-app', 'nobody-registered-this']) {
      const answer = await server.relay({ platform_id }, { ...as('bank'), 'idempotency-key': unique('key') });
      expectProblem(answer, 403, 'platform_not_owned');
    }
    expectProblem(await server.relay({ platform_id: bankPlatform }, as('shop')), 403, 'platform_not_owned');
    expect(await server.head()).toBe(head);
    expect((await server.relay({ platform_id: bankPlatform }, as('operator'))).status).toBe(202);
  });

  test('relay at once for a platform registered later', async () => {
    const platform_id = unique('p');
    expectProblem(await server.relay({ platform_id }, as('bank')), 403, 'platform_not_owned');
    await server.post('/v1/platforms', { platform_id, tris_org: 'tris:bank' });
    expect((await server.relay({ platform_id }, as('bank'))).status).toBe(202);
  });

  test('have Idempotency-Keys of their own', async () => {
    const headers = { 'idempotency-key': unique('key') };
    const platform_id = bankPlatform;
    const first = await server.relay({ platform_id }, { ...as('bank'), ...headers });
    const other = await server.relay({ platform_id, criticality: 'low' }, { ...as('operator'), ...headers });
    expect([first.status, other.status]).toEqual([202, 202]);
  });

  const grant = { status: 'zk-KYH', evidence_hash: 'a'.repeat(64) };
  const writes: [string, string, string, unknown][] = [
    ['relay:write', 'POST', '/api/decision-relay', {}],
    ['ops', 'POST', '/v1/organizations', {}],
    ['ops', 'GET', '/v1/organizations', undefined],
    ['ops', 'GET', '/v1/organizations/tris:bank', undefined],
    ['ops', 'POST', '/v1/organizations/tris:bank/vet', undefined],
    ['ops', 'POST', '/v1/organizations/tris:bank/revoke', undefined],
    ['ops', 'POST', '/v1/platforms', {}],
    ['ops', 'POST', '/v1/identities/tris:a/bad-status', {}],
    ['ops', 'DELETE', '/v1/identities/tris:a/bad-status', undefined],
    ['identity:write', 'POST', '/v1/identities/tris:a/verifications', grant],
    ['identity:write', 'DELETE', '/v1/identities/tris:a/verifications/zk-KYH', undefined],
    ['identity:write', 'POST', '/v1/tris/verifications', {}],
    ['ops', 'POST', '/v1/issuers', {}],
    ['ops', 'DELETE', '/v1/issuers/tris:a', undefined],
    ['ops', 'POST', '/v1/verification-schemes', {}],
    ['ops', 'POST', '/v1/verification-schemes/a/roots', { root: '1' }],
    ['ops', 'DELETE', '/v1/verification-schemes/a/roots/1', undefined],
    ['ops', 'POST', '/v1/verification-schemes/a/retire', undefined],
  ];
  test.each(writes)('only one with the scope %s may %s %s', async (scope, method, path, body) => {
    const head = await server.head();
    expectProblem(await server.request(method, path, { body, key: false }), 401, 'unauthorized');
    expectProblem(await server.request(method, path, { body, key: 'wrong' }), 401, 'unauthorized');
    for (const other of SCOPES) {
      if (other === scope) continue;
      const key = secret(`only-${other.replace(':', '-')}`);
      expectProblem(await server.request(method, path, { body, key }), 403, 'forbidden');
    }
    expect(await server.head()).toBe(head);
    const allowed = await server.request(method, path, { body, key: secret(`only-${scope.replace(':', '-')}`) });
    expect([401, 403]).not.toContain(allowed.status);
  });

  test('are not needed for public routes', async () => {
    await server
      .relay({ tris_id: 'tris:public' })
      .then((write) => server.getAfter(write, '/api/disc-score/tris:public'));
    const id = 'tris:public';
    for (const path of [
      `/api/disc-score/${id}`,
      `/api/tris-validations/${id}`,
      `/v1/disc/score/${id}`,
      `/v1/disc/score/${id}/history`,
      `/v1/disc/score/${id}/explain`,
      `/v1/disc/metrics/${id}`,
      `/v1/disc/report/${id}`,
      '/.well-known/jwks.json',
    ]) {
      expect([path, (await server.get(path, { key: false })).status]).toEqual([path, 200]);
      expectProblem(await server.send('GET', path, { key: 'wrong' }), 401, 'unauthorized');
    }
  });
});

describe('a BAD status', () => {
  const path = (id: string) => `/v1/identities/${id}/bad-status`;
  const BAD = '/v1/identities/{tris_id}/bad-status';
  const score = async (id: string, query: { as_of?: string } = {}) =>
    (await server.client.get('/v1/disc/score/{tris_id}', { params: { path: { tris_id: id }, query } })).data;

  test('overrides the score and the rating until it is cleared', async () => {
    const { client } = server;
    const id = unique();
    await relay({ tris_id: id });
    const set = await client.post(BAD, { ...about(id), body: { level: 3, reason_code: 'fraud' } });
    expect(set.data).toEqual({ tris_id: id, bad_status: { level: 3, reason_code: 'fraud' } });
    const bad = await score(id);
    expect(bad).toMatchObject({
      score: 3,
      score_rating: 'BAD',
      total_tct: 100,
      bad_status: { level: 3, reason_code: 'fraud', since: expect.stringMatching(/Z$/) },
    });
    const { bad_status } = bad;
    expect(keys(bad_status!)).toEqual(['level', 'reason_code', 'since']);
    const { data: discScore } = await client.get('/api/disc-score/{tris_id}', about(id));
    expect(discScore).toMatchObject({ score_rating: 'BAD', total_tct: 100 });
    const { data: explanation } = await client.get('/v1/disc/score/{tris_id}/explain', about(id));
    expect(explanation).toMatchObject({ score: 3, bad_status, next_rating: null });
    const { data: report } = await client.get('/v1/disc/report/{tris_id}', about(id));
    expect(report).toMatchObject({ score: 3, bad_status });
    expect((await client.delete(BAD, about(id))).data).toEqual({ tris_id: id, bad_status: null });
    expect(await score(id)).toMatchObject({ score: 7.6, score_rating: 'Poor', bad_status: null });
    const { data: history } = await client.get('/v1/disc/score/{tris_id}/history', about(id));
    expect(history.entries.map((entry) => [entry.event_type, entry.score, entry.tct_delta])).toEqual([
      ['ActionRelayed', 7.6, 100],
      ['BadStatusSet', 3, 0],
      ['BadStatusCleared', 7.6, 0],
    ]);
  });

  test('makes an identity known, and counts from when it was recorded', async () => {
    const id = unique();
    const before = new Date(Date.now() - 1_000).toISOString();
    await server.client.post(BAD, { ...about(id), body: { level: 6, reason_code: 'spam' } });
    expect(await score(id)).toMatchObject({ score: 6, score_rating: 'BAD', total_tct: 0 });
    await expectRefusal(score(id, { as_of: before }), 404, 'identity_not_found');
  });

  test('changes nothing if set or cleared again', async () => {
    const id = unique();
    const body = { level: 2, reason_code: 'fraud' };
    const first = await server.post(path(id), body);
    const head = await server.head();
    expect(position(await server.post(path(id), body))).toBe(position(first));
    expect(await server.head()).toBe(head);
    await server.delete(path(id));
    const cleared = await server.head();
    expect((await server.delete(path(id))).status).toBe(200);
    expect((await server.delete(path(unique()))).status).toBe(200);
    expect(await server.head()).toBe(cleared);
  });

  test('is set once per Idempotency-Key, also after it was cleared', async () => {
    const id = unique();
    const headers = { 'idempotency-key': unique('key') };
    const body = { level: 2, reason_code: 'fraud' };
    const first = await server.post(path(id), body, headers);
    const cleared = await server.delete(path(id));
    const retry = await server.post(path(id), body, headers);
    expect([retry.status, retry.json, position(retry)]).toEqual([200, first.json, position(first)]);
    const read = await server.getAfter(cleared, `/v1/disc/score/${id}`);
    expect(read.json).toMatchObject({ bad_status: null });
    expectProblem(await server.post(path(id), { ...body, level: 1 }, headers), 422, 'idempotency_key_reused');
  });

  test('is set by concurrent requests one after the other', async () => {
    const id = unique();
    const levels = [1, 2, 3, 4, 5, 6];
    const answers = await Promise.all(levels.map((level) => server.post(path(id), { level, reason_code: 'race' })));
    expect(answers.map(({ status }) => status)).toEqual(levels.map(() => 200));
    const last = answers.reduce((a, b) =>
      String(position(a)).length > String(position(b)).length || String(position(a)) > String(position(b)) ? a : b,
    );
    const read = await server.getAfter(last, `/v1/disc/score/${id}`);
    expect(read.json.score).toBe(last.json.bad_status.level);
  });
});

describe('verifications', () => {
  const path = (id: string) => `/v1/identities/${id}/verifications`;
  const evidence_hash = 'ab'.repeat(32);
  type Grant = Body<'post', '/v1/identities/{tris_id}/verifications'>;
  const grant = (id: string, by: string, body: Omit<Grant, 'evidence_hash'>) =>
    clientOf(by).post('/v1/identities/{tris_id}/verifications', { ...about(id), body: { ...body, evidence_hash } });
  const revoke = (tris_id: string, by: string, status: Grant['status']) =>
    clientOf(by).delete('/v1/identities/{tris_id}/verifications/{status}', { params: { path: { tris_id, status } } });
  /** Read by whoever wrote last. */
  const held = async (id: string, by: string) =>
    (await clientOf(by).get('/v1/disc/score/{tris_id}', about(id))).data.verification;

  test('are granted by their issuer, shown with the score, and replaced by a later grant', async () => {
    const id = unique();
    const status = 'zk-KYC (ID only)';
    const expires_at = '2099-01-01T00:00:00.000Z';
    const first = await grant(id, 'operator', { status });
    expect(first.response.status).toBe(201);
    expect(first.data).toEqual({ tris_id: id, status, issuer: 'key:operator', scheme: 'operator', expires_at: null });
    await grant(id, 'operator', { status, expires_at });
    const third = await grant(id, 'bank', { status });
    expect(third.data.issuer).toBe('tris:bank');
    const both = await held(id, 'bank');
    expect(both).toEqual([
      { status, issuer: 'key:operator', scheme: 'operator', expires_at, accredited: true },
      { status, issuer: 'tris:bank', scheme: 'operator', expires_at: null, accredited: false },
    ]);
    expect((await clientOf('bank').get('/v1/disc/report/{tris_id}', about(id))).data.verification).toEqual(both);
  });

  test('end exactly when they expire', async () => {
    const id = unique();
    // What has expired when it arrives is refused.
    const expiry = Date.now() + 10_000;
    const expires_at = new Date(expiry).toISOString();
    const write = await server.post(path(id), { status: 'zk-KYH', evidence_hash, expires_at });
    const read = await server.getAfter(write, `/v1/disc/score/${id}`);
    if (Date.now() < expiry) expect(read.json.verification).toHaveLength(1);
    await sleep(expiry - Date.now() + 5);
    const headers = { 'if-none-match': String(read.headers.etag) };
    const after = await server.get(`/v1/disc/score/${id}`, { headers });
    expect([after.status, after.json?.verification]).toEqual([200, []]);
    const before = new Date(expiry - 1).toISOString();
    expect((await server.get(`/v1/disc/score/${id}?as_of=${before}`)).json.verification).toHaveLength(1);
    expect((await server.get(`/v1/disc/score/${id}?as_of=${expires_at}`)).json.verification).toEqual([]);
  });

  test('are revoked by an organization for itself, by an operator for everybody', async () => {
    const id = unique();
    const status = 'zk-KYC (ID + AML)';
    const issuers = async (by: string) => (await held(id, by)).map(({ issuer }) => issuer);
    await grant(id, 'bank', { status });
    await grant(id, 'operator', { status });
    await revoke(id, 'shop', status);
    expect(await issuers('shop')).toHaveLength(2);
    expect((await revoke(id, 'bank', status)).data).toEqual({ tris_id: id, status, revoked: true });
    expect(await issuers('bank')).toEqual(['key:operator']);
    await grant(id, 'bank', { status });
    await revoke(id, 'operator', status);
    expect(await issuers('operator')).toEqual([]);
  });

  test('are not granted if already expired', async () => {
    const expires_at = new Date(Date.now() - 1_000).toISOString();
    const granted = grant(unique(), 'operator', { status: 'zk-KYH', expires_at });
    await expectRefusal(granted, 400, 'validation_failed', '/expires_at');
  });
});
