import { setTimeout as sleep } from 'node:timers/promises';
import { configuration } from '../policies/configuration.js';
import { Server, expectProblem } from './server.js';

/** A change of policy as an organization lives it: preview, replay, promote, look, roll back. Every answer is held against the OpenAPI document. */

const PEOPLE = 300;
const person = (i: number) => `tris:vp-${String(i).padStart(3, '0')}`;
const policy = (policy_id: string, inputs: [string, string, number][]) => ({
  policy_id,
  tris_org: 'tris:lender',
  inputs: configuration(inputs.map(([metric, criticality, weight]) => ({ metric, criticality, weight }))),
  metadata: { total_weight: 1, visibility: 'public', version: 'v1.0' },
});
const LEND = policy('VP_LEND_V1', [
  ['finance_loan_repayment', 'Critical', 0.14],
  ['governance_vote_participation', 'Low', 0.03],
]);
const VOTE = policy('VP_VOTE_V1', [['governance_vote_participation', 'critical', 0.14]]);

let server: Server;
beforeAll(async () => {
  server = await Server.start();
  const relays: Promise<unknown>[] = [];
  for (let i = 0; i < PEOPLE; i++) {
    for (let n = 0; n < i % 7; n++) relays.push(server.relay({ tris_id: person(i), criticality: 'low' }));
    relays.push(
      server.relay({
        tris_id: person(i),
        category: 'governance',
        action_type: 'vote_participation',
        criticality: 'high',
      }),
    );
  }
  await Promise.all(relays);
});
afterAll(() => server.end());

const score = async (i: number, query = '') => (await server.get(`/v1/disc/score/${person(i)}${query}`)).json;
const finished = async (id: string) => {
  for (;;) {
    const { json } = await server.get(`/v1/replays/${id}`);
    if (json.status !== 'queued' && json.status !== 'running') return json;
    await sleep(20);
  }
};

test('a policy is previewed, replayed over everyone, promoted, seen and rolled back', async () => {
  const created = await server.post('/v1/policies/vp', LEND);
  expect(created.status).toBe(201);
  const second = await server.post('/v1/policies/vp', VOTE);
  expect(second.status).toBe(201);
  expect((await server.getAfter(second, '/v1/policies/vp')).json.policies).toHaveLength(2);

  const [before, through] = [await score(6), await score(6, '?vp=VP_LEND_V1')];
  const preview = await server.post('/v1/policies/vp/evaluate', { policy: LEND, subjects: [person(6)] });
  expect(preview.json.results[0].projected.score).toBe(through.score);
  const everyone = await server.post('/v1/policies/vp/evaluate', { policy_id: 'VP_LEND_V1' });
  expect(everyone.json.summary.count).toBe(PEOPLE);

  const started = await server.post('/v1/policies/vp/VP_LEND_V1/replay');
  expect(started.status).toBe(202);
  const replay = await finished(started.json.replay_id);
  expect(replay).toMatchObject({ status: 'completed', progress: { done: PEOPLE, total: PEOPLE } });
  expect(replay.result.histogram).toEqual(everyone.json.summary.histogram);

  const history = await server.get(`/v1/disc/score/${person(6)}/history?vp=VP_LEND_V1`);
  const promotion = { scope: 'platform', replay_id: replay.replay_id };
  const promoted = await server.post('/v1/policies/vp/VP_LEND_V1/promote', promotion);
  expect([promoted.status, promoted.json.active.policy_id]).toEqual([200, 'VP_LEND_V1']);
  expect((await server.getAfter(promoted, `/v1/disc/score/${person(6)}`)).json.score).toBe(through.score);
  expect((await server.get(`/v1/disc/score/${person(6)}/history`)).json).toEqual(history.json);
  expect(await score(6, '?vp=model')).toMatchObject({ score: before.score, lens: before.lens });

  expectProblem(await server.post('/v1/policies/vp/VP_VOTE_V1/rollback', {}), 409, 'policy_not_active');
  const rolledBack = await server.post('/v1/policies/vp/VP_LEND_V1/rollback');
  expect(rolledBack.json).toMatchObject({ active: { policy_id: null }, previous: { policy_id: 'VP_LEND_V1' } });
  expect(await score(6)).toMatchObject({ score: before.score, lens: before.lens });
  const { history: states } = (await server.get('/v1/policies/vp/VP_LEND_V1')).json;
  expect(states.map(({ status }: { status: string }) => status)).toEqual(['created', 'promoted', 'rolled_back']);
  expect((await server.post('/v1/policies/vp/VP_VOTE_V1/retire')).json.status).toBe('retired');
  expectProblem(await server.post('/v1/policies/vp/VP_VOTE_V1/promote', { scope: 'platform' }), 409, 'policy_retired');
  expectProblem(await server.get('/v1/policies/vp/VP_NONE_V1'), 404, 'policy_not_found');
  expectProblem(await server.get(`/v1/replays/rpl_${'0'.repeat(32)}`), 404, 'replay_not_found');
  expect((await server.delete(`/v1/replays/${replay.replay_id}`)).json.status).toBe('completed');
});

test('a killed server continues replays and keeps the promoted lens', async () => {
  const promoted = await server.post('/v1/policies/vp/VP_LEND_V1/promote', { scope: 'platform' });
  const lens = (await server.getAfter(promoted, `/v1/disc/score/${person(6)}`)).json.lens;
  expect(lens.policy_id).toBe('VP_LEND_V1');
  const ids: string[] = [];
  for (let n = 0; n < 5; n++) ids.push((await server.post('/v1/policies/vp/VP_LEND_V1/replay')).json.replay_id);
  await server.kill();
  server = await Server.start({ data: server.data });
  for (const id of ids) expect(await finished(id)).toMatchObject({ status: 'completed', result: { count: PEOPLE } });
  expect((await score(6)).lens).toEqual(lens);
});
