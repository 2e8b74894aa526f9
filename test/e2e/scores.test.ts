import { createHash, createPublicKey, verify } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Body, Item, Query } from '../../clients/typescript/src/client.js';
import { SigningKeys } from '../../src/credentials/signing-keys.js';
import { loadConfig } from '../../src/kernel/config.js';
import { Cursors } from '../../src/kernel/cursor.js';
import { canonicalJson } from '../../src/kernel/hash.js';
import { MODEL } from '../../src/scoring/model.js';
import { ACTION, type Answer, Server, environmentOf, expectProblem, expectRefusal, unique } from './server.js';

let server: Server;
/** An identity with a past: gains on two platforms, a flag, and an early action that was recorded last. */
const rich = 'tris:rich';
const LATE = '2021-03-01T12:00:00.000Z';
let relayed: { action_id: string; position: string }[];
/** The position before the late record, and a time between the two. */
let beforeLate: { position: string; time: string };

beforeAll(async () => {
  server = await Server.start();
  const actions: Partial<typeof ACTION>[] = [
    { criticality: 'High', occurred_at: '2025-01-01T00:00:00Z' },
    { criticality: 'Critical', category: 'governance', action_type: 'vote_participation', platform_id: 'dao' },
    { criticality: 'Minimal', category: 'compliance', action_type: 'moderation_flags', platform_id: 'dao' },
    { criticality: 'Critical', occurred_at: '2025-06-01T00:00:00Z' },
  ];
  relayed = [];
  for (const action of actions) relayed.push(await relay({ tris_id: rich, ...action }));
  await sleep(5);
  beforeLate = { position: relayed.at(-1)!.position, time: new Date().toISOString() };
  await sleep(5);
  relayed.push(await relay({ tris_id: rich, criticality: 'Low', occurred_at: LATE }));
  // Other reads than the client's do not wait.
  await score();
});

/** By the client, whose reads include it. */
const relay = async (action: Partial<typeof ACTION>) => {
  const { data } = await server.client.post('/api/decision-relay', { body: { ...ACTION, ...action } });
  return { action_id: data.action_id, position: server.client.position! };
};
const positionOf = ({ headers }: Answer) => String(headers['credence-position']);
const about = <Q extends object>(tris_id: string, query?: Q) => ({ params: { path: { tris_id }, query } });
const keys = (value: object) => Object.keys(value).sort();
const score = async (query: Query<'get', '/v1/disc/score/{tris_id}'> = {}, tris_id = rich) =>
  (await server.client.get('/v1/disc/score/{tris_id}', about(tris_id, query))).data;

describe('the public look-ups (requirement 29)', () => {
  test('/api/disc-score has exactly the fields of 2.5', async () => {
    const { data } = await server.client.get('/api/disc-score/{tris_id}', { params: { path: { tris_id: rich } } });
    expect(keys(data)).toEqual(['disc_metrics', 'score_rating', 'total_tct', 'tris_id']);
    expect(data).toMatchObject({ tris_id: rich, total_tct: 310, score_rating: 'Poor' });
    expect(keys(data.disc_metrics)).toEqual([...MODEL.categories].sort());
    for (const value of Object.values<number>(data.disc_metrics)) {
      expect(value).toBeGreaterThanOrEqual(0);
      expect(value).toBeLessThanOrEqual(1);
    }
    expect(data.disc_metrics.behavioral).toBeCloseTo(1 - Math.exp(-140 / 600), 4);
    expect(data.disc_metrics.creative).toBe(0);
  });

  test('/api/tris-validations has exactly the fields of 4.5 and 2.7, and a cursor', async () => {
    const { data } = await server.client.get('/api/tris-validations/{tris_id}', about(rich));
    expect(keys(data)).toEqual(['next_cursor', 'tris_id', 'validations']);
    expect(data.tris_id).toBe(rich);
    expect(data.next_cursor).toBeNull();
    expect(data.validations).toHaveLength(4); // a flag endorses nobody
    for (const entry of data.validations) expect(keys(entry)).toEqual(['amount', 'category', 'from', 'timestamp']);
    expect(data.validations[0]).toEqual({
      from: 'tris:platform:lender',
      amount: 100,
      timestamp: '2025-01-01T00:00:00.000Z',
      category: 'financial',
    });
    expect(data.validations[1]).toMatchObject({ from: 'tris:platform:dao', amount: 140, category: 'behavioral' });
  });

  test('pages of credonations together are one large page', async () => {
    const { client } = server;
    const { data: whole } = await client.get('/api/tris-validations/{tris_id}', about(rich, { limit: 1000 }));
    for (const limit of [1, 2, 3, 4]) {
      const validations = [];
      for await (const page of client.pages('/api/tris-validations/{tris_id}', about(rich, { limit }))) {
        expect(page.validations.length).toBeGreaterThan(0);
        validations.push(...page.validations);
      }
      expect(validations).toEqual(whole.validations);
    }
  });

  test('an unknown identity is not found on any route', async () => {
    for (const path of ['/api/disc-score/', '/api/tris-validations/', '/v1/disc/metrics/', '/v1/disc/report/']) {
      expectProblem(await server.get(`${path}tris:nobody`), 404, 'identity_not_found');
    }
    for (const path of ['', '/history', '/explain']) {
      expectProblem(await server.get(`/v1/disc/score/tris:nobody${path}`), 404, 'identity_not_found');
    }
  });
});

describe('/v1/disc/score', () => {
  test('contains everything needed to reproduce it', async () => {
    const json = await score();
    expect(keys(json)).toEqual(
      [
        'tris_id',
        'score',
        'score_rating',
        'total_tct',
        'earned_tct',
        'forfeited_tct',
        'reliability',
        'evidence',
        'reliability_interval',
        'disc_metrics',
        'verification',
        'bad_status',
        'lens',
        'model',
        'generation',
        'as_of',
        'position',
      ].sort(),
    );
    expect(json).toMatchObject({
      score: 8.9,
      score_rating: 'Poor',
      total_tct: 310,
      earned_tct: 410,
      forfeited_tct: 100,
      verification: [],
      bad_status: null,
      lens: { policy_id: null, content_hash: expect.stringMatching(/^[0-9a-f]{64}$/) },
      model: { id: 'disc-2', hash: expect.stringMatching(/^[0-9a-f]{64}$/) },
    });
    expect(json.as_of).toMatch(/:59:59\.999Z$/);
  });

  test('an early action that was recorded late counts as of its time, and only once it was known', async () => {
    const total = async (query: Parameters<typeof score>[0]) => (await score(query)).total_tct;
    const [as_of, as_of_position, known_at] = ['2025-03-01T00:00:00Z', beforeLate.position, beforeLate.time];
    expect(await total({ as_of: LATE })).toBe(30);
    expect(await total({ as_of })).toBe(130);
    expect(await total({ as_of, known_at })).toBe(100);
    expect(await total({ as_of, as_of_position })).toBe(100);
    expect(await total({ known_at })).toBe(280);
    expect(await total({ as_of_position })).toBe(280);
    expect(await total({})).toBe(310);
    await expectRefusal(score({ as_of: '2021-03-01T11:59:59.999Z' }), 404, 'identity_not_found');
    await expectRefusal(score({ as_of: LATE, known_at }), 404, 'identity_not_found');
  });

  test('contains its coordinates, and the same coordinates give the same bytes', async () => {
    const tris_id = unique();
    await relay({ tris_id, occurred_at: '2025-01-01T00:00:00Z' });
    await relay({ tris_id, criticality: 'Critical' });
    await score({}, tris_id);
    for (const query of [{}, { as_of: '2025-03-01T00:00:00Z' }, { known_at: new Date().toISOString() }]) {
      const { as_of, position } = await score(query, tris_id);
      const again = `/v1/disc/score/${tris_id}?as_of=${as_of}&as_of_position=${position}`;
      const first = (await server.get(again)).text;
      expect(JSON.parse(first)).toMatchObject({ as_of, position, total_tct: (await score(query, tris_id)).total_tct });
      await server
        .relay({ tris_id, criticality: 'minimal', occurred_at: '2020-01-01T00:00:00Z' })
        .then((write) => server.getAfter(write, again));
      expect((await server.get(again)).text).toBe(first);
    }
  });

  test('is refused on every route for a policy that does not exist', async () => {
    for (const path of [
      `score/${rich}`,
      `score/${rich}/history`,
      `score/${rich}/explain`,
      `metrics/${rich}`,
      `report/${rich}`,
    ]) {
      expectProblem(await server.get(`/v1/disc/${path}?vp=VP_X_V1`), 404, 'policy_not_found');
    }
    for (const kind of ['score', 'metrics', 'report']) {
      const batch = await server.post(`/v1/disc/${kind}/batch`, { tris_ids: [rich], vp: 'VP_X_V1' });
      expectProblem(batch, 404, 'policy_not_found');
    }
  });

  test('has an ETag: an unchanged answer is not sent again, a changed one is', async () => {
    const tris_id = unique();
    const first = await server.relay({ tris_id });
    for (const path of [
      `/api/disc-score/${tris_id}`,
      `/v1/disc/score/${tris_id}`,
      `/v1/disc/score/${tris_id}/history`,
    ]) {
      const read = await server.getAfter(first, path);
      const headers = { 'if-none-match': String(read.headers.etag) };
      const again = await server.get(path, { headers });
      // At the turn of an hour the default as_of has moved on.
      if (again.status !== 304) continue;
      expect([again.text, again.headers.etag]).toEqual(['', read.headers.etag]);
      const more = await server.relay({ tris_id, criticality: 'critical' });
      headers['if-none-match'] = String(read.headers.etag);
      const changed = await server.get(path, {
        headers: { ...headers, 'credence-min-position': positionOf(more) },
      });
      expect(changed.status).toBe(200);
      expect(changed.headers.etag).not.toBe(read.headers.etag);
    }
  });
});

describe('a version of the model', () => {
  const path = (kind: string) => `/v1/disc/score/${rich}${kind}`;

  test('is a coordinate of every answer, and disc-2 the default of a new log', async () => {
    expect((await score()).model).toEqual((await score({ model: 'disc-2' })).model);
    const json = await score({ model: 'disc-2' });
    expect(json.model).toEqual({ id: 'disc-2', hash: expect.stringMatching(/^[0-9a-f]{64}$/) });
    expect(json.evidence).toEqual({ amount: expect.any(Number), word: 'some' });
    const [low, high] = json.reliability_interval!;
    expect(low).toBeLessThan(json.reliability);
    expect(high).toBeGreaterThan(json.reliability);
    const first = await score({ model: 'disc-1' });
    expect([first.evidence, first.reliability_interval]).toEqual([undefined, undefined]);
    const tags = ['', '?model=disc-1', '?model=disc-2'].map(
      async (query) => (await server.get(path(query))).headers.etag,
    );
    const [none, one, two] = await Promise.all(tags);
    expect(two).toBe(none);
    expect(one).not.toBe(two);
  });

  test('holds in histories, explanations, metrics, reports and batches', async () => {
    const { score: own, earned_tct, evidence } = await score({ model: 'disc-2' });
    const { client } = server;
    const by = about(rich, { model: 'disc-2' } as const);
    const { data: history } = await client.get('/v1/disc/score/{tris_id}/history', by);
    expect(history.entries.at(-1)!.score).toBe(own);
    const { data: explanation } = await client.get('/v1/disc/score/{tris_id}/explain', by);
    expect(explanation.contributions.reduce((sum, { tct }) => sum + tct, 0)).toBe(earned_tct);
    expect(explanation.summary).toMatch(
      /^[\d.]+ good days? and [\d.]+ flags? still count\. Praise counts once a day, /,
    );
    const next = explanation.next_rating!;
    expect(next.days_needed).toBe(Math.ceil(next.tct_needed / 140));
    const { data: report } = await client.get('/v1/disc/report/{tris_id}', by);
    expect(report).toMatchObject({ score: own, evidence, model: { id: 'disc-2' } });
    const { data: metrics } = await client.get('/v1/disc/metrics/{tris_id}', by);
    expect(JSON.parse(Buffer.from(metrics.proof.split('.')[1]!, 'base64url').toString()).model.id).toBe('disc-2');
    const { data: batch } = await client.post('/v1/disc/score/batch', { body: { tris_ids: [rich], model: 'disc-2' } });
    expect(batch.results[0]!.data).toMatchObject({ score: own, model: { id: 'disc-2' } });
  });

  test('that does not exist is refused, with those that do', async () => {
    for (const kind of ['', '/history', '/explain']) {
      const answer = await server.get(path(`${kind}?model=disc-3`));
      expectProblem(answer, 400, 'validation_failed');
      expect(answer.json.detail).toMatch(/disc-1, disc-2/);
    }
    expectProblem(
      await server.post('/v1/disc/score/batch', { tris_ids: [rich], model: 'x' }),
      400,
      'validation_failed',
    );
  });

  test('a cursor of one version does not continue a history by another', async () => {
    const { json } = await server.get(path('/history?model=disc-1&limit=1'));
    const answer = await server.get(path(`/history?limit=1&cursor=${json.next_cursor}`));
    expectProblem(answer, 400, 'validation_failed');
  });
});

describe('the history', () => {
  const HISTORY = '/v1/disc/score/{tris_id}/history';
  const history = async (query: Query<'get', typeof HISTORY> = {}) =>
    (await server.client.get(HISTORY, about(rich, query))).data;

  test('shows each event with both times and the standing after it', async () => {
    const data = await history({ as_of_position: relayed.at(-1)!.position });
    expect(keys(data)).toEqual(['entries', 'lens', 'next_cursor', 'tris_id']);
    for (const entry of data.entries) {
      expect(keys(entry)).toEqual(
        [
          'position',
          'occurred_at',
          'recorded_at',
          'event_id',
          'event_type',
          'metric',
          'platform_id',
          'tct_delta',
          'total_tct',
          'score',
          'score_rating',
        ].sort(),
      );
    }
    expect(data.entries.map((entry) => [entry.metric, entry.tct_delta, entry.total_tct])).toEqual([
      ['financial_loan_repayment', 100, 100],
      ['behavioral_vote_participation', 140, 240],
      ['compliance_moderation_flags', -100, 140],
      ['financial_loan_repayment', 140, 280],
      ['financial_loan_repayment', 30, 310],
    ]);
    expect(data.entries.map((entry) => entry.event_id)).toEqual(relayed.map(({ action_id }) => action_id));
    expect(data.entries.at(-1)!.occurred_at).toBe(LATE);
    expect(data.entries.at(-1)!.recorded_at > data.entries[0]!.recorded_at).toBe(true);
  });

  test('read in pages equals one large page, also for a past state', async () => {
    for (const past of [{}, { as_of: '2025-03-01T00:00:00Z' }, { known_at: beforeLate.time }]) {
      const whole = await history({ limit: 1000, ...past });
      expect(whole.entries.length).toBeGreaterThan(1);
      for (const limit of [1, 2, 3]) {
        const entries = [];
        for await (const page of server.client.pages(HISTORY, about(rich, { limit, ...past }))) {
          entries.push(...page.entries);
          expect(page.entries.length).toBeLessThanOrEqual(limit);
        }
        expect(entries).toEqual(whole.entries);
      }
    }
  });

  test('ends with the present score', async () => {
    const last = (await history({ limit: 1000 })).entries.at(-1)!;
    expect(await score()).toMatchObject({ total_tct: last.total_tct, score: last.score });
  });

  test('accepts a cursor only for the time of the first request', async () => {
    const path = (query: string) => `/v1/disc/score/${rich}/history?limit=1${query}`;
    const as_of_position = `&as_of_position=${relayed.at(-1)!.position}`;
    const [now, as_of, known_at] = ['', '&as_of=2025-03-01T00:00:00Z', `&known_at=${beforeLate.time}`];
    const times = [now, as_of, known_at, as_of_position, '&as_of=2025-03-01T00:00:01Z'];
    for (const asked of [now, as_of, known_at, as_of_position]) {
      const { next_cursor } = (await server.get(path(asked))).json;
      for (const other of times) {
        const answer = await server.get(path(`${other}&cursor=${next_cursor}`));
        if (other === asked) expect(answer.status).toBe(200);
        else expectProblem(answer, 400, 'validation_failed', '?cursor');
      }
    }
    const { next_cursor } = (await server.get(path(as_of))).json;
    const spelled = '&as_of=2025-03-01T01:00:00.000%2B01:00';
    expect((await server.get(path(`${spelled}&cursor=${next_cursor}`))).status).toBe(200);
  });

  test('refuses a cursor of another identity', async () => {
    const other = unique();
    await server.relay({ tris_id: other });
    const write = await server.relay({ tris_id: other });
    const { json } = await server.getAfter(write, `/v1/disc/score/${other}/history?limit=1`);
    const answer = await server.get(`/v1/disc/score/${rich}/history?cursor=${json.next_cursor}`);
    expectProblem(answer, 400, 'validation_failed', '?cursor');
  });
});

describe('the explanation', () => {
  const explanation = async (query: Query<'get', '/v1/disc/score/{tris_id}/explain'> = {}) =>
    (await server.client.get('/v1/disc/score/{tris_id}/explain', about(rich, query))).data;

  test('adds up to the score', async () => {
    const data = await explanation();
    const standing = await score();
    expect(keys(data)).toEqual(
      [
        'tris_id',
        'score',
        'contributions',
        'platforms',
        'forfeits',
        'next_rating',
        'summary',
        'reliability',
        'evidence',
        'reliability_interval',
        'lens',
        'model',
        'as_of',
        'position',
      ].sort(),
    );
    const sum = <K extends string>(parts: Record<K, number>[], field: K) =>
      parts.reduce((total, part) => total + part[field], 0);
    expect(data.score).toBe(standing.score);
    expect(sum(data.contributions, 'tct')).toBe(standing.earned_tct);
    expect(sum(data.forfeits, 'forfeited_tct')).toBe(standing.forfeited_tct);
    expect(sum(data.contributions, 'share')).toBeCloseTo(1, 3);
    expect(sum(data.platforms, 'tct')).toBe(standing.earned_tct);
    expect(sum(data.platforms, 'flagged_tct') * 10).toBe(standing.forfeited_tct);
    expect(sum([...data.contributions, ...data.forfeits], 'actions')).toBe(sum(data.platforms, 'actions'));
    expect(data.contributions.map((part) => part.metric)).toEqual([
      'financial_loan_repayment',
      'behavioral_vote_participation',
    ]);
    expect(data.contributions[0]).toMatchObject({ category: 'financial', last_at: '2025-06-01T00:00:00.000Z' });
    for (const part of data.contributions) {
      expect(keys(part)).toEqual(['actions', 'category', 'last_at', 'metric', 'share', 'tct']);
    }
    expect(data.forfeits).toMatchObject([{ metric: 'compliance_moderation_flags', actions: 1, flagged_tct: 10 }]);
    expect(data.next_rating!.rating).toBe('Fair');
    expect(data.next_rating!.tct_needed).toBe(2_250 - standing.total_tct);
  });

  test('of a past state explains the score of that time', async () => {
    const query = { as_of: '2025-03-01T00:00:00Z' };
    const { contributions } = await explanation(query);
    expect(contributions.map(({ tct }) => tct)).toEqual([(await score(query)).earned_tct]);
  });
});

describe('metrics', () => {
  const metrics = async (query: Query<'get', '/v1/disc/metrics/{tris_id}'> = {}) =>
    (await server.client.get('/v1/disc/metrics/{tris_id}', about(rich, query))).data;

  test('have exactly the fields of 2.8, and the seven categories by default', async () => {
    const data = await metrics();
    expect(keys(data)).toEqual(['payload', 'proof', 'status', 'timestamp']);
    expect(data.status).toBe('success');
    expect(Object.keys(data.payload)).toEqual([...MODEL.categories]);
    expect(data.payload).toEqual((await score()).disc_metrics);
    expect(Math.abs(Date.parse(data.timestamp) - Date.now())).toBeLessThan(60_000);
  });

  test('echo the names asked for, aliases and full metrics too', async () => {
    const names = [
      'finance',
      'financial',
      'governance',
      'security',
      'finance_loan_repayment',
      'financial_loan_repayment',
    ];
    const documented = ['governance_vote_participation', 'creative_bugs_found', 'compliance_moderation_flags'];
    const { payload } = await metrics({ metrics: [...names, ...documented] });
    expect(Object.keys(payload)).toEqual([...names, ...documented]);
    expect(payload['finance']).toBe(payload['financial']);
    expect(payload['finance_loan_repayment']).toBe(payload['financial_loan_repayment']);
    expect(payload['finance_loan_repayment']).toBeGreaterThan(0);
    expect(payload['governance_vote_participation']).toBeCloseTo(1 - Math.exp(-140 / 600), 4);
    expect(payload['creative_bugs_found']).toBe(0);
    expect(payload['compliance_moderation_flags']).toBeCloseTo(Math.exp(-10 / 150), 4);
  });

  test.each(['unheard', 'financial_unheard_of', 'constructor', 'financial_'])(
    'an unknown one (%s) is refused',
    async (name) => {
      const answer = await server.get(`/v1/disc/metrics/${rich}?metrics=finance,${name}`);
      expectProblem(answer, 400, 'unknown_metric', '?metrics');
      expect(answer.json.detail).toContain('financial');
      expect(answer.json.detail).toContain('financial_loan_repayment');
    },
  );

  test('a refusal lists the metrics that the identity had at that time, however many actions it has', async () => {
    const tris_id = 'tris:e2e-metrics-known';
    const actions: Body<'post', '/v1/decision-relay/batch'>['actions'] = Array.from({ length: 80 }, (_, i) => ({
      ...ACTION,
      tris_id,
      action_type: i === 79 ? 'later' : 'first',
      occurred_at: i === 79 ? '2026-02-02T00:00:00Z' : '2026-02-01T00:00:00Z',
    }));
    await server.client.post('/v1/decision-relay/batch', { body: { actions } });
    const path = `/v1/disc/metrics/${tris_id}?metrics=financial_later&as_of=2026-02-01T12:00:00Z`;
    const answer = await server.get(path, { headers: { 'credence-min-position': server.client.position! } });
    expectProblem(answer, 400, 'unknown_metric', '?metrics');
    const [, known] = answer.json.detail.split('Known metrics: ');
    expect(known).toContain('financial_first');
    expect(known).not.toContain('financial_later');
  });

  test('carry a proof that node:crypto verifies against the published keys', async () => {
    const { payload, proof, timestamp } = await metrics({ metrics: ['finance', 'security'] });
    const claims = verified(proof, await publishedKeys());
    expect(claims).toMatchObject({ sub: rich, payload, timestamp });
    const { lens, model } = await score();
    expect(claims).toMatchObject({ lens, model, as_of: expect.any(String), position: expect.any(String) });
  });
});

async function publishedKeys(): Promise<any[]> {
  return (await server.client.get('/.well-known/jwks.json')).data.keys;
}

/** The claims of a compact Ed25519 JWS, by nothing but node:crypto. Throws if it is not signed by one of the keys. */
function verified(jws: string, published: any[]): any {
  const [head, body, signature] = jws.split('.') as [string, string, string];
  const header = JSON.parse(Buffer.from(head, 'base64url').toString());
  expect(header).toMatchObject({ alg: 'EdDSA', kid: expect.any(String) });
  const key = createPublicKey({ key: published.find(({ kid }) => kid === header.kid), format: 'jwk' });
  const holds = (text: string) => verify(null, Buffer.from(text), key, Buffer.from(signature, 'base64url'));
  expect(holds(`${head}.${body}`)).toBe(true);
  expect(holds(`${head}.${Buffer.from('{}').toString('base64url')}`)).toBe(false);
  const text = Buffer.from(body, 'base64url').toString();
  expect(text).toBe(canonicalJson(JSON.parse(text)));
  return JSON.parse(text);
}

describe('a report', () => {
  const AS_OF = '2025-07-15T00:00:00.000Z';
  const report = async (query: Query<'get', '/v1/disc/report/{tris_id}'> = {}, tris_id = rich) =>
    (await server.client.get('/v1/disc/report/{tris_id}', about(tris_id, query))).data;

  test('has its fields, its hash and a proof', async () => {
    const data = await report({ as_of: AS_OF });
    expect(keys(data)).toEqual(
      [
        'report_id',
        'report_hash',
        'portable_hash',
        'tris_id',
        'period',
        'window',
        'depth',
        'score',
        'score_delta',
        'score_rating',
        'total_tct',
        'reliability',
        'evidence',
        'reliability_interval',
        'trajectory',
        'metrics',
        'top_credonators',
        'top_platforms',
        'actions_by_metric',
        'verification',
        'wallets_count',
        'lens',
        'model',
        'as_of',
        'position',
        'proof',
        'generated_at',
      ].sort(),
    );
    const { report_id, report_hash, portable_hash, proof, generated_at, ...content } = data;
    const { position: _, ...portable } = content;
    expect(report_hash).toBe(createHash('sha256').update(canonicalJson(content)).digest('hex'));
    expect(portable_hash).toBe(createHash('sha256').update(canonicalJson(portable)).digest('hex'));
    expect(verified(proof, await publishedKeys())).toMatchObject({
      sub: rich,
      report_id,
      report_hash,
      timestamp: generated_at,
    });
    const { log_tree, position } = verified(proof, await publishedKeys());
    expect(log_tree).toEqual({ size: expect.any(Number), root: expect.stringMatching(/^[\w+/]{43}=$/) });
    // The same position has the same tree later, and another one another tree.
    await relay({ tris_id: 'tris:of-another-tree' });
    const claimsAt = async (query: Query<'get', '/v1/disc/report/{tris_id}'>) =>
      verified((await report(query)).proof, await publishedKeys());
    expect((await claimsAt({ as_of_position: position })).log_tree).toEqual(log_tree);
    expect((await claimsAt({ as_of: AS_OF })).log_tree.size).toBeGreaterThan(log_tree.size);
    expect(data).toMatchObject({
      tris_id: rich,
      window: 3,
      depth: 'insight',
      period: { from: '2025-04-15T00:00:00.000Z', to: AS_OF },
      wallets_count: 0,
      actions_by_metric: { financial_loan_repayment: 1 },
      top_credonators: [{ from: 'tris:platform:lender', amount: 140, count: 1 }],
      top_platforms: [{ platform_id: 'lender', actions: 1, tct: 140, flagged_tct: 0 }],
    });
    const standing = await score({ as_of: AS_OF });
    expect(data).toMatchObject({
      score: standing.score,
      score_rating: standing.score_rating,
      metrics: standing.disc_metrics,
    });
    const before = await score({ as_of: '2025-04-15T00:00:00Z' });
    expect(data.score_delta).toBeCloseTo(standing.score - before.score, 1);
  });

  test('has the same id and content whenever it is requested', async () => {
    const { position: as_of_position } = await report({ as_of: AS_OF });
    const first = await report({ as_of: AS_OF, as_of_position });
    const second = await report({ as_of: AS_OF, as_of_position });
    expect(second.report_id).toBe(first.report_id);
    expect(second.report_hash).toBe(first.report_hash);
  });

  test.each<[window: 1 | 3 | 6 | 12, from: string, actions: object]>([
    [1, '2025-06-15T00:00:00.000Z', {}],
    [3, '2025-04-15T00:00:00.000Z', { financial_loan_repayment: 1 }],
    [6, '2025-01-15T00:00:00.000Z', { financial_loan_repayment: 1 }],
    [12, '2024-07-15T00:00:00.000Z', { financial_loan_repayment: 2 }],
  ])('over %i months looks at no more', async (window, from, actions) => {
    const data = await report({ as_of: AS_OF, window });
    expect(data).toMatchObject({ window, period: { from, to: AS_OF }, actions_by_metric: actions });
  });

  test.each<[depth: 'snapshot' | 'insight' | 'analysis', points: number]>([
    ['snapshot', 0],
    ['insight', 3 + 1],
    ['analysis', 3 * 4 + 1],
  ])('of depth %s has %i points on its trajectory', async (depth, points) => {
    const data = await report({ as_of: AS_OF, depth });
    expect(data.depth).toBe(depth);
    expect(data.trajectory).toHaveLength(points);
    if (points > 0) {
      expect(data.trajectory[0]!.at).toBe(data.period.from);
      expect(data.trajectory.at(-1)).toMatchObject({ at: AS_OF, score: data.score, total_tct: data.total_tct });
    }
  });

  test('with known_at includes the credonation of the last known action', async () => {
    const tris_id = unique();
    await relay({ tris_id });
    await score({}, tris_id);
    const known = await report({ known_at: new Date().toISOString() }, tris_id);
    expect(known.top_credonators).toEqual([{ from: 'tris:platform:lender', amount: 100, count: 1 }]);
    const { as_of, position: as_of_position } = known;
    expect((await report({ as_of, as_of_position }, tris_id)).report_id).toBe(known.report_id);
  });
});

describe('batches', () => {
  const many = (count: number) => Array.from({ length: count }, (_, i) => `tris:many-${i}`);

  test('answer each identity in order, also those that are not known', async () => {
    const tris_ids = ['tris:nobody', rich, 'tris:no-one'];
    for (const kind of ['score', 'metrics', 'report']) {
      const { status, json } = await server.post(`/v1/disc/${kind}/batch`, { tris_ids });
      expect(status).toBe(200);
      expect(keys(json)).toEqual(['results']);
      expect(json.results.map((result: any) => [result.tris_id, result.status])).toEqual([
        ['tris:nobody', 404],
        [rich, 200],
        ['tris:no-one', 404],
      ]);
      expect(keys(json.results[0])).toEqual(['problem', 'status', 'tris_id']);
      expect(json.results[0].problem).toMatchObject({ code: 'identity_not_found', status: 404 });
      expect(keys(json.results[1])).toEqual(['data', 'status', 'tris_id']);
    }
  });

  test('return the same as single look-ups', async () => {
    const as_of = '2025-03-01T00:00:00.000Z';
    const batch = async (kind: string, more: object = {}) =>
      (await server.post(`/v1/disc/${kind}/batch`, { tris_ids: [rich], as_of, ...more })).json.results[0].data;
    expect(await batch('score')).toEqual(await score({ as_of }));
    const metrics = ['finance', 'security'];
    const { payload } = await batch('metrics', { metrics });
    const { client } = server;
    const { data: alone } = await client.get('/v1/disc/metrics/{tris_id}', about(rich, { as_of, metrics }));
    expect(payload).toEqual(alone.payload);
    const query = { as_of, window: 6, depth: 'analysis' } as const;
    const { data: single } = await client.get('/v1/disc/report/{tris_id}', about(rich, query));
    for (const window of [6, '6']) {
      const { report_id } = await batch('report', { window, depth: 'analysis' });
      expect(report_id).toBe(single.report_id);
    }
  });

  test.each([
    ['score', 100],
    ['metrics', 100],
    ['report', 25],
  ])('of %s take %i identities and not one more', async (kind, most) => {
    const { status, json } = await server.post(`/v1/disc/${kind}/batch`, { tris_ids: many(most) });
    expect([status, json.results.length]).toEqual([200, most]);
    const tooMany = await server.post(`/v1/disc/${kind}/batch`, { tris_ids: many(most + 1) });
    expectProblem(tooMany, 400, 'batch_too_large', '/tris_ids');
  });

  test.each(['score', 'metrics', 'report'])('of %s hold each identity once', async (kind) => {
    const twice = await server.post(`/v1/disc/${kind}/batch`, { tris_ids: [rich, 'tris:nobody', rich] });
    expectProblem(twice, 400, 'validation_failed', '/tris_ids');
    expect(twice.json.errors[0]).toMatchObject({
      code: 'array_unique',
      message: expect.stringContaining(`"${rich}" is at 0 and at 2`),
    });
    const { paths, components } = (await server.get('/openapi.json')).json;
    const { $ref } = paths[`/v1/disc/${kind}/batch`].post.requestBody.content['application/json'].schema;
    expect(components.schemas[$ref.split('/').at(-1)].properties.tris_ids).toMatchObject({
      type: 'array',
      uniqueItems: true,
      items: { type: 'string', pattern: expect.any(String) },
    });
  });

  test('a metric that no identity has refuses the batch', async () => {
    const answer = await server.post('/v1/disc/metrics/batch', { tris_ids: [rich], metrics: ['finance', 'unheard'] });
    expectProblem(answer, 400, 'unknown_metric', '/metrics/1');
  });

  test('a metric that only some identities have is answered for those', async () => {
    const other = unique();
    await relay({ tris_id: other, category: 'social' });
    const body = { tris_ids: [other, rich, 'tris:nobody'], metrics: ['financial_loan_repayment'] };
    const { data } = await server.client.post('/v1/disc/metrics/batch', { body });
    expect(data.results).toMatchObject([
      { tris_id: other, status: 400, problem: { code: 'unknown_metric' } },
      { tris_id: rich, status: 200, data: { payload: { financial_loan_repayment: expect.any(Number) } } },
      { tris_id: 'tris:nobody', status: 404, problem: { code: 'identity_not_found' } },
    ]);
  });
});

describe('the feed of changes', () => {
  const feed = async (query: Query<'get', '/v1/disc/changes'>) =>
    (await server.client.get('/v1/disc/changes', { params: { query } })).data;
  const everything = async () => {
    const changes: Item<'/v1/disc/changes'>[] = [];
    let cursor = '';
    for await (const page of server.client.pages('/v1/disc/changes', { params: { query: { limit: 3 } } })) {
      changes.push(...page.changes);
      cursor = page.next_cursor;
    }
    return { changes, cursor };
  };

  test('contains each identity once, with its present score, in the order of last changes', async () => {
    const { changes } = await everything();
    const ids = changes.map(({ tris_id }) => tris_id);
    expect(new Set(ids).size).toBe(ids.length);
    expect(ids).toContain(rich);
    const positions = changes.map(({ position }) => Number(position.split('.')[1]));
    expect(positions).toEqual([...positions].sort((a, b) => a - b));
    for (const change of changes) {
      expect(keys(change)).toEqual(['position', 'score', 'total_tct', 'tris_id']);
      expect(await score({}, change.tris_id)).toMatchObject({ score: change.score, total_tct: change.total_tct });
    }
  });

  test('continues after its cursor', async () => {
    const { cursor } = await everything();
    expect(await feed({ cursor })).toEqual({ changes: [], next_cursor: cursor });
    const [one, two] = [unique(), unique()];
    for (const tris_id of [one, two, one]) await relay({ tris_id });
    const { changes } = await feed({ cursor });
    expect(changes.map(({ tris_id, total_tct }) => [tris_id, total_tct])).toEqual([
      [two, 100],
      [one, 140],
    ]);
  });

  test('starts again for a cursor of another log, and says so', async () => {
    const state = Buffer.from(JSON.stringify({ p: 5, g: 'other', l: 'x', m: 'y' })).toString('base64url');
    // As a server on another log with the same keys gives it out.
    const keys = new SigningKeys(loadConfig(await environmentOf(server.data)));
    const cursor = new Cursors(() => keys.secret('cursors')).seal(state, '/v1/disc/changes');
    const answer = await feed({ limit: 1, cursor });
    expect(answer.reset).toBe(true);
    expect(answer.changes).toEqual((await feed({ limit: 1 })).changes);
  });
});

test('an action ahead of the clock by less than a minute counts as of its time', async () => {
  const tris_id = unique();
  const soon = new Date(Date.now() + 30_000).toISOString();
  const write = await server.relay({ ...ACTION, tris_id, occurred_at: soon });
  expect(write.status).toBe(202);
  const { json } = await server.getAfter(write, `/v1/disc/score/${tris_id}`);
  expect(json).toMatchObject({ total_tct: soon <= json.as_of ? 100 : 0 });
});
