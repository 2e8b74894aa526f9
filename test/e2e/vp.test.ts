import type { Body } from '../../clients/typescript/src/client.js';
import { becomes } from '../contracts/harness.js';
import { configuration } from '../policies/configuration.js';
import { Server } from './server.js';

/** A change of policy as an organization lives it: preview, replay, promote, look, roll back. Every answer is held against the OpenAPI document. */

const PEOPLE = 300;
const person = (i: number) => `tris:vp-${String(i).padStart(3, '0')}`;
const policy = (policy_id: string, inputs: [string, string, number][]) =>
  ({
    policy_id,
    tris_org: 'tris:lender',
    inputs: configuration(inputs.map(([metric, criticality, weight]) => ({ metric, criticality, weight }))),
    metadata: { total_weight: 1, visibility: 'public', version: 'v1.0' },
  }) as Body<'post', '/v1/policies/vp'>;
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

const path = (policy_id: string) => ({ params: { path: { policy_id } } });
const scoreOf = async (i: number, query: { vp?: string } = {}) =>
  (await server.client.get('/v1/disc/score/{tris_id}', { params: { path: { tris_id: person(i) }, query } })).data;
const historyOf = async (i: number, query: { vp?: string } = {}) =>
  (await server.client.get('/v1/disc/score/{tris_id}/history', { params: { path: { tris_id: person(i) }, query } }))
    .data;
const replayOf = async (replay_id: string) =>
  (await server.client.get('/v1/replays/{replay_id}', { params: { path: { replay_id } } })).data;
const finished = (id: string) =>
  becomes(
    () => replayOf(id),
    ({ status }) => status !== 'queued' && status !== 'running',
  );

test('a policy is previewed, replayed over everyone, promoted, seen and rolled back', async () => {
  const { client } = server;
  for (const body of [LEND, VOTE]) expect((await client.post('/v1/policies/vp', { body })).response.status).toBe(201);
  expect((await client.get('/v1/policies/vp')).data.policies).toHaveLength(2);

  const [before, through] = [await scoreOf(6), await scoreOf(6, { vp: 'VP_LEND_V1' })];
  const preview = await client.post('/v1/policies/vp/evaluate', { body: { policy: LEND, subjects: [person(6)] } });
  expect(preview.data.results![0]!.projected!.score).toBe(through.score);
  const everyone = await client.post('/v1/policies/vp/evaluate', { body: { policy_id: 'VP_LEND_V1' } });
  expect(everyone.data.summary!.count).toBe(PEOPLE);

  const started = await client.post('/v1/policies/vp/{policy_id}/replay', { ...path('VP_LEND_V1'), body: {} });
  expect(started.response.status).toBe(202);
  const replay = await finished(started.data.replay_id);
  expect(replay).toMatchObject({ status: 'completed', progress: { done: PEOPLE, total: PEOPLE } });
  expect(replay.result!.histogram).toEqual(everyone.data.summary!.histogram);

  const history = await historyOf(6, { vp: 'VP_LEND_V1' });
  const promote = (policy_id: string, body: { scope: 'platform'; replay_id?: string }) =>
    client.post('/v1/policies/vp/{policy_id}/promote', { ...path(policy_id), body });
  const rollBack = (policy_id: string) =>
    client.post('/v1/policies/vp/{policy_id}/rollback', { ...path(policy_id), body: {} });
  const promoted = await promote('VP_LEND_V1', { scope: 'platform', replay_id: replay.replay_id });
  expect(promoted.response.status).toBe(200);
  expect(promoted.data).toMatchObject({ active: { policy_id: 'VP_LEND_V1' } });
  expect((await scoreOf(6)).score).toBe(through.score);
  expect(await historyOf(6)).toEqual(history);
  expect(await scoreOf(6, { vp: 'model' })).toMatchObject({ score: before.score, lens: before.lens });

  await expect(rollBack('VP_VOTE_V1')).rejects.toMatchObject({ status: 409, code: 'policy_not_active' });
  const rolledBack = await rollBack('VP_LEND_V1');
  expect(rolledBack.data).toMatchObject({ active: { policy_id: null }, previous: { policy_id: 'VP_LEND_V1' } });
  expect(await scoreOf(6)).toMatchObject({ score: before.score, lens: before.lens });
  const { data: lend } = await client.get('/v1/policies/vp/{policy_id}', path('VP_LEND_V1'));
  expect(lend.history.map(({ status }) => status)).toEqual(['created', 'promoted', 'rolled_back']);
  const retired = await client.post('/v1/policies/vp/{policy_id}/retire', path('VP_VOTE_V1'));
  expect(retired.data.status).toBe('retired');
  const again = promote('VP_VOTE_V1', { scope: 'platform' });
  await expect(again).rejects.toMatchObject({ status: 409, code: 'policy_retired' });
  const unknown = client.get('/v1/policies/vp/{policy_id}', path('VP_NONE_V1'));
  await expect(unknown).rejects.toMatchObject({ status: 404, code: 'policy_not_found' });
  await expect(replayOf(`rpl_${'0'.repeat(32)}`)).rejects.toMatchObject({ status: 404, code: 'replay_not_found' });
  const { replay_id } = replay;
  const cancelled = await client.delete('/v1/replays/{replay_id}', { params: { path: { replay_id } } });
  expect(cancelled.data.status).toBe('completed');
});

test('a killed server continues replays and keeps the promoted lens', async () => {
  const { client } = server;
  await client.post('/v1/policies/vp/{policy_id}/promote', { ...path('VP_LEND_V1'), body: { scope: 'platform' } });
  const { lens } = await scoreOf(6);
  expect(lens.policy_id).toBe('VP_LEND_V1');
  const ids: string[] = [];
  for (let n = 0; n < 5; n++) {
    const { data } = await client.post('/v1/policies/vp/{policy_id}/replay', { ...path('VP_LEND_V1'), body: {} });
    ids.push(data.replay_id);
  }
  await server.kill();
  server = await Server.start({ data: server.data });
  for (const id of ids) expect(await finished(id)).toMatchObject({ status: 'completed', result: { count: PEOPLE } });
  expect((await scoreOf(6)).lens).toEqual(lens);
});
