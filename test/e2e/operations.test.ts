import type { Answer } from '../../clients/typescript/src/client.js';
import { becomes } from '../contracts/harness.js';
import { ACTION, Server } from './server.js';

/** Operations of the read models on the built service. Every answer is held against the OpenAPI document. */

const ACTIONS = 3_000;

let server: Server;
beforeAll(async () => {
  server = await Server.start({});
  for (let from = 0; from < ACTIONS; from += 1_000) {
    const actions = Array.from({ length: 1_000 }, (_, n) => ({ ...ACTION, tris_id: `tris:built-${(from + n) % 500}` }));
    await server.client.post('/v1/decision-relay/batch', { body: { actions } });
  }
});
afterAll(() => server.end());

const status = async () => (await server.client.get('/v1/ops/status')).data;
const ended = (job_id: string) =>
  becomes(
    async () => (await server.client.get('/v1/jobs/{job_id}', { params: { path: { job_id } } })).data,
    ({ finished_at }) => finished_at !== null,
  );
/** The job that a request has started, once it has ended. */
const run = async (started: Promise<Answer<{ job_id: string }>>) => {
  const { data, response } = await started;
  expect(response.status).toBe(202);
  return ended(data.job_id);
};
/** What a build has made. */
const resultOf = ({ result }: Awaited<ReturnType<typeof ended>>) => result as { generation: string; events: number };
/** The generations that serve. */
const serving = async () => (await status()).generations.filter(({ serves }) => serves.length > 0).map(({ id }) => id);

test('a generation is built, served, verified, rolled back and dropped', async () => {
  const { client } = server;
  const [first] = await serving();
  const built = await run(client.post('/v1/ops/rebuild', { body: {} }));
  expect(built).toMatchObject({ status: 'completed', result: { swapped: false } });
  const { generation, events } = resultOf(built);
  expect(events).toBeGreaterThanOrEqual(ACTIONS);
  expect(built.progress).toEqual({ done: events, total: events });
  const swapped = await run(client.post('/v1/ops/swap', { body: { generation } }));
  expect(swapped).toMatchObject({ status: 'completed' });
  expect(await serving()).toEqual([generation]);
  const verified = await run(client.post('/v1/ops/verify'));
  expect(verified).toMatchObject({ status: 'completed', result: { identical: true } });
  expect(await run(client.post('/v1/ops/rollback'))).toMatchObject({ status: 'completed' });
  expect(await serving()).toEqual([first]);
  await client.delete('/v1/ops/generations/{generation}', { params: { path: { generation } } });
  const { data } = await client.get('/v1/jobs');
  expect(data.jobs.map(({ kind }) => kind)).toEqual(['rollback', 'verify', 'swap', 'rebuild']);
});

test('a build that a killed process did not finish is taken up again', async () => {
  const { data } = await server.client.post('/v1/ops/rebuild', { body: {} });
  await server.kill();
  server = await Server.start({ data: server.data });
  const built = await ended(data.job_id);
  expect(built).toMatchObject({ status: 'completed', problem: null });
  expect((await status()).generations.map(({ id }) => id)).toContain(resultOf(built).generation);
});
