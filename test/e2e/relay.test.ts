import { reached } from './ledger.js';
import { ACTION, type Answer, Server, expectProblem, unique } from './server.js';

let server: Server;
beforeAll(async () => void (server = await Server.start()));

const history = async (id: string, after?: Answer) => {
  if (after) await reached(server, after);
  return (await server.get(`/v1/disc/score/${id}/history?limit=1000`)).json.entries as any[];
};
const sameAnswer = ({ status, json, headers }: Answer) => ({ status, json, position: headers['credence-position'] });

describe('an action', () => {
  test('of the five required fields (requirement 16) is received', async () => {
    const tris_id = unique();
    const answer = await server.relay({ tris_id });
    expect(answer.status).toBe(202);
    expect(answer.headers['content-type']).toMatch(/^application\/json/);
    expect(answer.json).toEqual({
      status: 'received',
      message: expect.any(String),
      action_id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      source: 'vouched',
    });
    expect(answer.headers['credence-position']).toMatch(/^[0-9a-f-]{36}\.\d+$/);
    const [entry, ...others] = await history(tris_id, answer);
    expect(others).toEqual([]);
    expect(entry).toMatchObject({
      event_id: answer.json.action_id,
      event_type: 'ActionRelayed',
      metric: 'financial_loan_repayment',
      platform_id: 'lender',
      tct_delta: 100,
      total_tct: 100,
      score: 7.6,
      score_rating: 'Poor',
    });
    expect(entry.occurred_at).toBe(entry.recorded_at);
  });

  test('carries its own time and evidence', async () => {
    const tris_id = unique();
    const relayed = await server.relay({
      tris_id,
      occurred_at: '2020-02-29T23:30:00.5+01:00',
      evidence_uri: 'https://evidence.example/42',
      external_id: unique('x'),
    });
    expect(relayed.status).toBe(202);
    const [entry] = await history(tris_id, relayed);
    expect(entry.occurred_at).toBe('2020-02-29T22:30:00.500Z');
    expect(Date.parse(entry.recorded_at)).toBeGreaterThan(Date.now() - 60_000);
    expect(JSON.stringify(entry)).not.toContain('evidence.example');
  });

  test.each([
    ['minimal', 10],
    ['LOW', 30],
    ['Moderate', 70],
    ['hIgH', 100],
    ['critical', 140],
  ])('of criticality %s earns %i TCT', async (criticality, tct) => {
    const tris_id = unique();
    const relayed = await server.relay({ tris_id, criticality });
    expect(await history(tris_id, relayed)).toMatchObject([{ tct_delta: tct }]);
  });

  test.each([
    ['finance', 'financial_vote'],
    ['governance', 'behavioral_vote'],
    ['creative', 'creative_vote'],
  ])('of category %s counts for %s', async (category, metric) => {
    const tris_id = unique();
    const relayed = await server.relay({ tris_id, category, action_type: 'vote' });
    expect(await history(tris_id, relayed)).toMatchObject([{ metric }]);
  });

  test('whose type ends in _flags forfeits ten times its TCT', async () => {
    const tris_id = unique();
    await server.relay({ tris_id, criticality: 'critical' });
    const relayed = await server.relay({ tris_id, action_type: 'default_flags', criticality: 'low' });
    expect(await history(tris_id, relayed)).toMatchObject([
      { tct_delta: 140, total_tct: 140 },
      { tct_delta: -300, total_tct: 0, score: 6, score_rating: 'BAD' },
    ]);
  });

  test.each(['tris@alice', 'tris:a.b_c-d:e@f', 'did:pkh:eip155:1:0xAbC', `tris:${'x'.repeat(123)}`])(
    'of %s is found under its percent-encoded id',
    async (tris_id) => {
      const relayed = await server.relay({ tris_id });
      const plain = await server.getAfter(relayed, `/api/disc-score/${tris_id}`);
      expect(plain.json.tris_id).toBe(tris_id);
      const encoded = tris_id.replace(/[^A-Za-z0-9]/g, (char) => `%${char.charCodeAt(0).toString(16)}`);
      expect((await server.get(`/api/disc-score/${encoded}`)).text).toBe(plain.text);
    },
  );
});

describe('reading one’s own write', () => {
  test('a read that names the position always includes the write', async () => {
    const tris_id = unique();
    for (let n = 1; n <= 14; n++) {
      const relayed = await server.relay({ tris_id, criticality: 'minimal' });
      const read = await server.getAfter(relayed, `/api/disc-score/${tris_id}`);
      expect([read.status, read.json.total_tct]).toEqual([200, 10 * n]);
    }
  });

  test.each([
    ['beyond the head', (position: string) => position.replace(/\d+$/, (n) => String(Number(n) + 1_000_000))],
    ['of another log', (position: string) => position.replace(/^[^.]+/, '00000000-0000-4000-8000-000000000000')],
    ['in another form', (position: string) => position.replace(/^[^.]+\./, '')],
  ])('a position %s is refused', async (_name, change) => {
    const relayed = await server.relay();
    const position = change(String(relayed.headers['credence-position']));
    const read = await server.get('/api/disc-score/tris:somebody', { headers: { 'credence-min-position': position } });
    expectProblem(read, 400, 'position_unknown');
  });
});

const externalId = () => ({ external_id: unique('x') });

describe('a retry', () => {
  const idempotencyKey = () => ({ 'idempotency-key': unique('key') });

  test.each([
    ['the external id', true, false],
    ['the Idempotency-Key', false, true],
    ['both', true, true],
  ])('with %s gets the first answer again, and nothing more is written', async (_name, hasExternal, hasKey) => {
    const tris_id = unique();
    const action = { tris_id, ...(hasExternal && externalId()) };
    const headers = hasKey ? idempotencyKey() : undefined;
    const first = await server.relay(action, headers);
    expect(first.status).toBe(202);
    const head = await server.head();
    for (let n = 0; n < 3; n++) {
      expect(sameAnswer(await server.relay(action, headers))).toEqual(sameAnswer(first));
    }
    expect(await server.head()).toBe(head);
    expect(await history(tris_id, first)).toHaveLength(1);
  });

  test('with neither an external id nor a key is another action', async () => {
    const tris_id = unique();
    const first = await server.relay({ tris_id });
    const second = await server.relay({ tris_id });
    expect(second.json.action_id).not.toBe(first.json.action_id);
    expect(await history(tris_id, second)).toHaveLength(2);
  });

  test('may spell criticality, category and time differently if they mean the same', async () => {
    const action = { tris_id: unique(), ...externalId() };
    const time = { occurred_at: '2024-01-01T00:00:00Z' };
    const first = await server.relay({ ...action, ...time, category: 'finance' });
    const again = await server.relay({
      ...action,
      occurred_at: '2024-01-01T01:00:00.000+01:00',
      category: 'financial',
      criticality: 'HIGH',
    });
    expect(sameAnswer(again)).toEqual(sameAnswer(first));
  });

  test.each([
    ['tris_id', { tris_id: 'tris:another' }],
    ['action_type', { action_type: 'other' }],
    ['category', { category: 'social' }],
    ['criticality', { criticality: 'low' }],
    ['occurred_at', { occurred_at: '2024-01-01T00:00:00Z' }],
    ['evidence_uri', { evidence_uri: 'https://evidence.example/1' }],
  ])('with the external id but another %s is refused', async (_name, change) => {
    const action = { tris_id: unique(), ...externalId() };
    const first = await server.relay(action);
    const head = await server.head();
    expectProblem(await server.relay({ ...action, ...change }), 409, 'external_id_conflict', '/external_id');
    expect(await server.head()).toBe(head);
    expect(sameAnswer(await server.relay(action))).toEqual(sameAnswer(first));
  });

  test('another platform may use the same external id', async () => {
    const action = { tris_id: unique(), ...externalId() };
    const first = await server.relay(action);
    const second = await server.relay({ ...action, platform_id: 'another' });
    expect([second.status, second.json.action_id === first.json.action_id]).toEqual([202, false]);
  });

  test.each([
    ['alone', {}, {}],
    ['with the same external id', { external_id: 'shared' }, { external_id: 'shared' }],
    ['with another external id', { external_id: 'one' }, { external_id: 'two' }],
    ['where the first had no external id', {}, { external_id: 'three' }],
    ['where the first had an external id', { external_id: 'four' }, {}],
  ])('with an Idempotency-Key of another body, %s, is refused', async (_name, before, after) => {
    const headers = idempotencyKey();
    const tris_id = unique();
    const platform_id = unique('platform');
    expect((await server.relay({ tris_id, platform_id, ...before }, headers)).status).toBe(202);
    const other = { tris_id, platform_id, criticality: 'low', ...after };
    const head = await server.head();
    expectProblem(await server.relay(other, headers), 422, 'idempotency_key_reused');
    expect(await server.head()).toBe(head);
  });

  test('with a new Idempotency-Key for a known external id gets the first answer', async () => {
    const action = { tris_id: unique(), ...externalId() };
    const first = await server.relay(action, idempotencyKey());
    expect(sameAnswer(await server.relay(action, idempotencyKey()))).toEqual(sameAnswer(first));
    expect(sameAnswer(await server.relay(action))).toEqual(sameAnswer(first));
  });

  test.each([
    ['the external id', true, false],
    ['the Idempotency-Key', false, true],
    ['both', true, true],
  ])('fifty times at once with %s is one action', async (_name, hasExternal, hasKey) => {
    const tris_id = unique();
    const action = { tris_id, ...(hasExternal && externalId()) };
    const headers = hasKey ? idempotencyKey() : undefined;
    const answers = await Promise.all(Array.from({ length: 50 }, () => server.relay(action, headers)));
    const distinct = new Set(answers.map((answer) => JSON.stringify(sameAnswer(answer))));
    expect([...distinct]).toEqual([JSON.stringify(sameAnswer(answers[0]!))]);
    expect(answers[0]!.status).toBe(202);
    expect(await history(tris_id, answers[0])).toHaveLength(1);
  });

  test('of different concurrent actions with one external id, one wins and the others get a conflict', async () => {
    const external_id = unique('x');
    const ids = Array.from({ length: 20 }, () => unique());
    const answers = await Promise.all(ids.map((tris_id) => server.relay({ tris_id, external_id })));
    expect(answers.filter(({ status }) => status === 202)).toHaveLength(1);
    for (const answer of answers) if (answer.status !== 202) expectProblem(answer, 409, 'external_id_conflict');
  });

  test.each([
    ['empty', ''],
    ['blank', ' '],
    ['beyond ASCII', 'ü'],
    ['with a tab', 'a\tb'],
    ['of 256 characters', 'x'.repeat(256)],
  ])('an Idempotency-Key %s is refused', async (_name, key) => {
    const head = await server.head();
    expectProblem(await server.relay({}, { 'idempotency-key': key }), 400, 'validation_failed', 'Idempotency-Key');
    expect(await server.head()).toBe(head);
  });
});

describe('a batch', () => {
  const PATH = '/v1/decision-relay/batch';
  const NDJSON = { 'content-type': 'application/x-ndjson' };
  const actionOf = (more: Record<string, unknown> = {}) => ({ ...ACTION, tris_id: unique(), ...more });
  const statuses = ({ json }: Answer) => json.results.map((result: any) => result.problem?.code ?? result.status);
  const lines = (items: unknown[]) =>
    items.map((item) => (typeof item === 'string' ? item : JSON.stringify(item))).join('\n');

  test.each([
    ['as JSON', (actions: unknown[]) => server.post(PATH, { actions })],
    ['as NDJSON', (actions: unknown[]) => server.post(PATH, lines(actions), NDJSON)],
  ])('%s records each action as if it were sent alone', async (_how, post) => {
    const [tris_id, other] = [unique(), unique()];
    const answer = await post([actionOf({ tris_id }), actionOf({ tris_id: other, criticality: 'low' })]);
    expect(answer.status).toBe(200);
    expect(answer.json.results).toEqual(
      [0, 1].map((index) => ({
        index,
        status: 202,
        data: {
          action_id: expect.stringMatching(/^[0-9a-f-]{36}$/),
          position: expect.stringMatching(/^[0-9a-f-]{36}\.\d+$/),
          source: 'vouched',
        },
      })),
    );
    const positions = answer.json.results.map(({ data }: any) => Number(data.position.split('.')[1]));
    expect(Number(String(answer.headers['credence-position']).split('.')[1])).toBe(Math.max(...positions));
    expect(await history(tris_id, answer)).toMatchObject([
      { event_id: answer.json.results[0].data.action_id, tct_delta: 100 },
    ]);
    expect(await history(other, answer)).toMatchObject([{ tct_delta: 30 }]);
  });

  test('has a result of its own for each line, whatever is wrong with the others', async () => {
    const tris_id = unique();
    const good = actionOf({ tris_id });
    const later = new Date(Date.now() + 3_600_000).toISOString();
    const items = [
      good,
      '{"tris_id":',
      '',
      '7',
      { ...good, criticality: 'huge' },
      { ...good, colour: 'red', tris_id: 'bob' },
      { ...good, platform_id: 'someone@example.com' },
      { ...good, occurred_at: later },
      good,
    ];
    const answer = await server.post(PATH, lines(items), NDJSON);
    expect(statuses(answer)).toEqual([
      202,
      'malformed_json',
      'validation_failed',
      'unknown_criticality',
      'validation_failed',
      'personal_data',
      'validation_failed',
      202,
    ]);
    const results = answer.json.results as any[];
    expect(results.map(({ index }) => index)).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
    expect(results[4].problem).toMatchObject({
      status: 400,
      errors: [{ pointer: '/tris_id' }, { pointer: '/colour', code: 'unknown_field' }],
    });
    expect(await history(tris_id, answer)).toHaveLength(2);
    const wrong = { actions: [good, { ...good, external_id: '\ud800' }] };
    expect(statuses(await server.post(PATH, wrong))).toEqual([202, 'validation_failed']);
  });

  test('with nothing that is recorded has no position and writes nothing', async () => {
    const head = await server.head();
    const answer = await server.post(PATH, { actions: [{}, null] });
    expect([answer.status, answer.headers['credence-position']]).toEqual([200, undefined]);
    expect(statuses(answer)).toEqual(['validation_failed', 'validation_failed']);
    expect(await server.head()).toBe(head);
  });

  test('with duplicates records each external id once; the first decides', async () => {
    const [first, other] = [actionOf(externalId()), actionOf(externalId())];
    const changed = { ...first, criticality: 'low' };
    const answer = await server.post(PATH, { actions: [first, first, changed, other, first] });
    expect(statuses(answer)).toEqual([202, 202, 'external_id_conflict', 202, 202]);
    const ids = answer.json.results.map(({ data }: any) => data?.action_id);
    expect([ids[1], ids[4]]).toEqual([ids[0], ids[0]]);
    expect(await history(first.tris_id, answer)).toHaveLength(1);
    // A single relay of the same action is a retry, and the other way round.
    expect((await server.relay(first)).json.action_id).toBe(ids[0]);
    const alone = await server.relay(actionOf({ ...externalId(), tris_id: first.tris_id }));
    expect(alone.status).toBe(202);
  });

  test.each([
    ['the external ids', true, false],
    ['the Idempotency-Key', false, true],
    ['both', true, true],
  ])('is repeated with %s without a second effect', async (_name, hasExternal, hasKey) => {
    const tris_id = unique();
    const actions = Array.from({ length: 3 }, () => actionOf({ tris_id, ...(hasExternal && externalId()) }));
    const headers = hasKey ? { 'idempotency-key': unique('key') } : undefined;
    const first = await server.post(PATH, { actions }, headers);
    expect(statuses(first)).toEqual([202, 202, 202]);
    const head = await server.head();
    const again = await server.post(PATH, lines(actions), { ...NDJSON, ...headers });
    expect([again.json, again.headers['credence-position']]).toEqual([first.json, first.headers['credence-position']]);
    expect(await server.head()).toBe(head);
    expect(await history(tris_id, first)).toHaveLength(3);
  });

  test('under an Idempotency-Key of another batch refuses what differs', async () => {
    const headers = { 'idempotency-key': unique('key') };
    const [same, other] = [actionOf(), actionOf()];
    await server.post(PATH, { actions: [same, other] }, headers);
    const answer = await server.post(PATH, { actions: [same, { ...other, criticality: 'low' }] }, headers);
    expect(statuses(answer)).toEqual([202, 'idempotency_key_reused']);
  });

  test('of 1,000 actions is taken, and of 1,001 is refused whole', async () => {
    const actions = Array.from({ length: 1_000 }, () => actionOf({ tris_id: 'tris:of-a-large-batch' }));
    const head = await server.head();
    expectProblem(await server.post(PATH, { actions: [...actions, ACTION] }), 400, 'batch_too_large', '/actions');
    const tooMany = await server.post(PATH, lines([...actions, 'nonsense']), NDJSON);
    expectProblem(tooMany, 400, 'batch_too_large', '/actions');
    expect(await server.head()).toBe(head);
    const answer = await server.post(PATH, lines(actions), NDJSON);
    expect(new Set(statuses(answer))).toEqual(new Set([202]));
    expect(await history('tris:of-a-large-batch', answer)).toHaveLength(1_000);
  });

  test.each([
    ['without actions', '{"actions":[]}', 'validation_failed'],
    ['without lines', '\n \n', 'validation_failed', NDJSON],
    ['that is no list', '{"actions":{}}', 'validation_failed'],
    ['cut in the middle', `{"actions":[${JSON.stringify(ACTION)},{"tris_id":`, 'malformed_json'],
    ['with another field', '{"actions":[{}],"vp":"VP_A_V1"}', 'validation_failed'],
    ['beyond 1 MiB', JSON.stringify({ actions: ['x'.repeat(1024 * 1024)] }), 'payload_too_large'],
    ['compressed', '{}', 'unsupported_media_type', { ...NDJSON, 'content-encoding': 'gzip' }],
  ])('%s is refused whole', async (_what, body, code, headers: Record<string, string> = {}) => {
    const head = await server.head();
    const answer = await server.post(PATH, body, headers);
    expect([answer.status >= 400, answer.json.code]).toEqual([true, code]);
    expect(await server.head()).toBe(head);
  });

  test('sends NDJSON only to the batch', async () => {
    expectProblem(
      await server.post('/api/decision-relay', JSON.stringify(ACTION), NDJSON),
      415,
      'unsupported_media_type',
    );
  });
});
