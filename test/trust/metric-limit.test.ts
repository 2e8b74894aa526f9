import { randomUUID } from 'node:crypto';
import { AppModule } from '../../src/app/app.module.js';
import { createApp } from '../../src/app/application.js';
import { internalActor } from '../../src/commands/context.js';
import { Writer } from '../../src/commands/writer.js';
import { METRICS_PER_ORGANIZATION, decide } from '../../src/features/relay/domain/relay.js';
import { Logger } from '../../src/kernel/logger.js';
import { type Answer, send } from '../http/client.js';
import { type Service, seen, startService } from '../policies/service.fixture.js';

/** Nobody can give an identity metrics without end, nor use up what another organization may give it. */

const WIDE = 'tris:wide';
const [BANK, SHOP] = ['tris:bank', 'tris:shop'];
/** Events of an identity that are kept in one row, whose metrics are not counted. */
const UNCOUNTED = 64;
const LEFT = 5;
let service: Service;

beforeAll(async () => {
  service = await startService();
  for (const tris_org of [BANK, SHOP]) {
    const platform_ids = [`${tris_org}:1`, `${tris_org}:2`];
    expect((await service.post('/v1/organizations', { tris_org, platform_ids })).status).toBe(201);
  }
  const { eventStore } = service.stores;
  const writer = new Writer(eventStore, Date.now);
  const metrics = METRICS_PER_ORGANIZATION - LEFT;
  for (let n = 0; n < UNCOUNTED + metrics; n += 5_000) {
    const slice = Array.from({ length: Math.min(5_000, UNCOUNTED + metrics - n) }, (_, i) => n + i);
    await Promise.all(
      slice.map((n) => {
        const action = {
          tris_id: WIDE,
          action_type: n < UNCOUNTED ? 'first' : `m${n - UNCOUNTED}`,
          category: 'social' as const,
          criticality: 'Low' as const,
          platform_id: `${BANK}:${1 + (n % 2)}`,
          occurred_at: null,
          external_id: null,
          evidence_uri: null,
        };
        const context = { actor: internalActor('cli'), correlation_id: 'test', idempotency: null, body_hash: `${n}` };
        return writer.create(`action-${randomUUID()}`, decide(action, BANK, 'vouched'), context);
      }),
    );
  }
  await applied();
});
afterAll(() => service.close());

/** Waits until the read models contain all events. */
async function applied(): Promise<void> {
  let status = 503;
  while (status === 503) ({ status } = await service.get(`/v1/disc/score/${WIDE}`, await seen(service)));
  expect(status).toBe(200);
}

const body = (action_type: string, platform_id: string, external_id: string) => ({
  tris_id: WIDE,
  action_type,
  category: 'social',
  criticality: 'low',
  platform_id,
  external_id,
});
const relay = (action_type: string, platform_id = `${BANK}:1`, external_id = action_type): Promise<Answer> =>
  service.post('/api/decision-relay', body(action_type, platform_id, external_id));

test('an organization relays 20,000 metrics of an identity and no more, however many requests it sends at once', async () => {
  // Whether the read models have caught up makes no difference.
  const release = await service.holdReadModels();
  const names = Array.from({ length: LEFT + 3 }, (_, n) => `new${n}`);
  const answers = await Promise.all(names.map((name, n) => relay(name, `${BANK}:${1 + (n % 2)}`)));
  const statuses = answers.map(({ status }) => status);
  expect(statuses.sort()).toEqual([...Array(LEFT).fill(202), 422, 422, 422]);
  const problem = answers.find(({ status }) => status === 422)!.json as Record<string, unknown>;
  expect(problem).toMatchObject({
    code: 'too_many_metrics',
    metrics: METRICS_PER_ORGANIZATION,
    limit: METRICS_PER_ORGANIZATION,
    errors: [{ pointer: '/action_type', code: 'too_many_metrics' }],
  });
  expect(problem['detail']).toMatch(
    /^tris:bank has relayed 20000 metrics of tris:wide first, and the limit is 20000: /,
  );
  const accepted = names.find((_, n) => answers[n]!.status === 202)!;
  expect((await relay(accepted, `${BANK}:1`, 'again')).status).toBe(202);
  await release();
  await applied();
});

test('once the limit is reached, recorded metrics, retries, other organizations and other identities go on', async () => {
  expect((await relay('another')).json).toMatchObject({ code: 'too_many_metrics' });
  expect((await relay('m17', `${BANK}:2`)).status).toBe(202);
  expect((await relay('first')).status).toBe(202);
  expect((await relay('of_shop', `${SHOP}:1`)).status).toBe(202);
  expect((await relay('of_nobody', 'unregistered')).status).toBe(202);
  const other = { ...body('another', `${BANK}:1`, 'other'), tris_id: 'tris:narrow' };
  expect((await service.post('/api/decision-relay', other)).status).toBe(202);
  await applied();
  // What another organization has recorded is no further metric.
  expect((await relay('of_shop', `${BANK}:1`)).status).toBe(202);
});

test('another process, or this one after a restart, knows the limit is reached', async () => {
  const app = await createApp(
    AppModule.register(service.config, service.stores, Date.now),
    service.config,
    new Logger('error'),
  );
  await app.listen(0, '127.0.0.1');
  const { port } = app.getHttpServer().address() as { port: number };
  const headers = { 'content-type': 'application/json', 'x-api-key': service.key };
  const answer = await send(port, 'POST', '/api/decision-relay', {
    headers,
    body: JSON.stringify(body('another', `${BANK}:1`, 'another')),
  });
  expect(answer.json).toMatchObject({ code: 'too_many_metrics' });
  const retry = await send(port, 'POST', '/api/decision-relay', {
    headers,
    body: JSON.stringify(body('m17', `${BANK}:2`, 'm17')),
  });
  expect(retry.status).toBe(202);
  await app.close();
});

test('operators see how many metrics an organization relays of one identity', async () => {
  const { text } = await service.get('/metrics', { 'x-api-key': service.key });
  expect(text).toMatch(/^credence_problems_total\{code="too_many_metrics"\} 4$/m);
  expect(text).toMatch(/^credence_identity_metrics_most 20000$/m);
});

test('a batch is limited as its actions would be alone', async () => {
  const actions = [
    body('another', `${BANK}:1`, 'another'),
    body('m17', `${BANK}:1`, 'of-a-batch'),
    body('m17', `${BANK}:2`, 'm17'),
    { ...body('another', `${BANK}:1`, 'narrow'), tris_id: 'tris:narrow' },
  ];
  const { json } = await service.post('/v1/decision-relay/batch', { actions });
  const results = (json as { results: { status: number; problem?: { code: string } }[] }).results;
  expect(results.map(({ status }) => status)).toEqual([422, 202, 202, 202]);
  expect(results[0]!.problem!.code).toBe('too_many_metrics');
});
