import { SCOPES } from '../../src/credentials/caller.js';
import { eventually } from '../contracts/harness.js';
import { type Service, as, policyBody, startServiceWithKeys } from '../policies/service.fixture.js';

/** Every kind of job at one address: who may read and cancel it, and what it says. */

const KEYS = [
  { id: 'operator', scopes: SCOPES },
  { id: 'only-ops', scopes: ['ops'] },
  { id: 'relayer', scopes: ['relay:write'] },
  { id: 'lender', scopes: SCOPES, organization: 'tris:lender' },
  { id: 'other', scopes: SCOPES, organization: 'tris:other' },
];

let service: Service;
/** The id of a replay that was not held. */
let completed: string;
/** Ends the replay that waits, with this error if there is one. */
let release: (error?: Error) => void;
beforeAll(async () => {
  service = await startServiceWithKeys(KEYS);
  const policy = policyBody('VP_JOBS_V1', { financial_loan: 'Low' });
  expect((await service.post('/v1/policies/vp', policy, as('operator'))).status).toBe(201);
  completed = await replay();
  await eventually(async () => (await job(completed)).json.status === 'completed');
});
afterAll(() => service.close());

const job = (id: string, key = 'operator') => service.get(`/v1/jobs/${id}`, as(key));
const replay = async (key = 'lender') =>
  (await service.post('/v1/policies/vp/VP_JOBS_V1/replay', { scope: 'organization' }, as(key))).json.replay_id;
/** A replay whose run waits for `release`. */
const heldReplay = async () => {
  const ended = new Promise<void>((resolve, reject) => {
    release = (error) => (error ? reject(error) : resolve());
  });
  const { jobs } = service.stores;
  jobs.handle(
    'vp_replay',
    async ({ signal, progress }) => {
      progress(1, 2);
      const aborted = new Promise<never>((_, fail) => signal.addEventListener('abort', () => fail(signal.reason)));
      await Promise.race([ended, aborted]);
      return { count: 1 };
    },
    { attempts: 1 },
  );
  const id = await replay();
  await eventually(async () => (await job(id)).json.progress?.done === 1);
  return id;
};

test('a job says its kind, its status, its progress and its result', async () => {
  const { json } = await job(completed);
  expect(json).toEqual({
    job_id: completed,
    kind: 'vp_replay',
    status: 'completed',
    progress: { done: 0, total: 0 },
    result: (await service.get(`/v1/replays/${completed}`, as('lender'))).json.result,
    problem: null,
    started_at: expect.stringMatching(/Z$/),
    finished_at: expect.stringMatching(/Z$/),
  });
  expect(json.result.count).toBe(0);
});

test.each([
  ['the organization that started it', 'lender', 200],
  ['operators', 'operator', 200],
  ['a key with ops alone', 'only-ops', 200],
  ['another organization', 'other', 404],
  ['a key without the scope', 'relayer', 404],
])('%s: a job is read and cancelled, or is unknown', async (_who, key, status) => {
  const id = await heldReplay();
  const read = await job(id, key);
  expect([read.status, read.json.code]).toEqual([status, status === 404 ? 'job_not_found' : undefined]);
  const cancelled = await service.delete(`/v1/jobs/${id}`, as(key));
  expect(cancelled.status).toBe(status);
  if (status === 200) expect(cancelled.json).toMatchObject({ job_id: id, status: 'cancelled', problem: null });
  else expect((await job(id)).json).toMatchObject({ status: 'running', progress: { done: 1, total: 2 } });
  release();
  await eventually(async () => (await job(id)).json.finished_at !== null);
  // A finished job stays as it is.
  const { json } = await job(id);
  expect((await service.delete(`/v1/jobs/${id}`, as('operator'))).json).toEqual(json);
});

test('a failed job says why, as a problem', async () => {
  const id = await heldReplay();
  release(new Error('the disk is on fire'));
  await eventually(async () => (await job(id)).json.status === 'failed');
  expect((await job(id)).json).toMatchObject({
    result: null,
    problem: { code: 'job_failed', status: 500, detail: 'the disk is on fire', type: '/docs/problems#job_failed' },
  });
});

test('operators list the newest jobs of all callers, without results and without what is no job to a client', async () => {
  const ids = [await heldReplay()];
  release();
  await eventually(async () => (await job(ids[0]!)).json.finished_at !== null);
  await service.stores.jobs.enqueue('webhooks', 'internal', {});
  ids.push(await replay('operator'));
  const { json } = await service.get('/v1/jobs?limit=2', as('only-ops'));
  expect(json.jobs.map(({ job_id }: any) => job_id)).toEqual(ids.reverse());
  expect(json.jobs[0].result).toBeUndefined();
  expect((await service.get('/v1/jobs?limit=101', as('only-ops'))).status).toBe(400);
  expect((await service.get('/v1/jobs', as('lender'))).json.code).toBe('forbidden');
});

test('operators list as many jobs as they ask for, however many newer ones are no job to a client', async () => {
  const id = await heldReplay();
  release();
  await eventually(async () => (await job(id)).json.finished_at !== null);
  for (let n = 0; n < 30; n++) await service.stores.jobs.enqueue('webhooks', `internal-${n}`, {});
  const { json } = await service.get('/v1/jobs?limit=1', as('only-ops'));
  expect(json.jobs.map(({ job_id }: any) => job_id)).toEqual([id]);
});

test.each(['rpl_unknown', 'xyz_unknown'])('an unknown job, %s, is not found', async (id) => {
  expect((await job(id)).json.code).toBe('job_not_found');
  expect((await service.delete(`/v1/jobs/${id}`, as('operator'))).json.code).toBe('job_not_found');
});
