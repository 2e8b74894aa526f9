import { setTimeout as sleep } from 'node:timers/promises';
import { jest } from '@jest/globals';
import { Registry } from 'prom-client';
import { StoreUnavailable } from '../../src/stores/ports/event-store.js';
import { internalActor } from '../../src/commands/context.js';
import { Writer } from '../../src/commands/writer.js';
import { Health, type Purpose } from '../../src/app/health.js';
import { StoreMetrics } from '../../src/app/store-metrics.js';

afterEach(() => void jest.restoreAllMocks());

const CONTEXT = { actor: internalActor('test'), correlation_id: 'c', idempotency: null, body_hash: 'b' };

/** Readiness of the log and the read models, with stores that behave as told. */
function serviceWith(
  generation: { status: string; position: number; log?: string; id?: string; lease?: object },
  halted: string | null = null,
) {
  let failure: Error | null = null;
  const { status, position, log = 'a', id = 'g1', lease = null } = generation;
  let counts = 0;
  const eventStore = {
    logId: 'a',
    head: async () => 7,
    countAfter: async (after: number) => (counts++, 7 - after),
    async *readAll(after: number) {
      if (after < 7) yield [{ metadata: { recorded_at: new Date().toISOString() } }];
    },
    readAt: async () => ({}),
    append: async () => {
      if (failure) throw failure;
      return { position: 8, revision: 0 };
    },
  };
  const readModels = {
    manifest: async () => ({ views: { identities: 'g1' } }),
    read: async () => undefined,
    generations: async () => [{ id, views: { identities: 1 }, status, checkpoint: { log, position }, lease }],
  };
  const jobs = { waiting: async () => ({ replay: 2 }) };
  const health = new Health();
  const registry = new Registry();
  const writer = new Writer(eventStore as never, Date.now);
  const parts = new Map<unknown, unknown>([
    [Health, health],
    [Registry, registry],
    [Writer, writer],
  ]);
  const app = { get: (token: unknown) => parts.get(token) };
  const metrics = new StoreMetrics();
  metrics.register(app as never, { eventStore, readModels, jobs } as never, { halted } as never);
  const append = (outcome: Error | null) => {
    failure = outcome;
    return writer.create(
      'stream-1',
      [{ type: 'Tested', schema: 1, data: {}, occurredAt: undefined, decided: undefined }],
      CONTEXT,
    );
  };
  const check = async (name: string, purpose?: Purpose) =>
    (await health.ready(purpose)).checks.find((found) => found.name === name);
  let now = 0;
  const wait = (ms: number) => void jest.spyOn(performance, 'now').mockReturnValue((now += ms));
  return {
    append,
    check,
    wait,
    scrape: () => registry.metrics(),
    eventStore,
    readModels,
    health,
    counts: () => counts,
  };
}

test('an append without an outcome makes the event store not ready, until one succeeds', async () => {
  const { append, check } = serviceWith({ status: 'ready', position: 7 });
  expect(await check('event_store')).toMatchObject({ status: 'ok', detail: 'at position 7' });
  await expect(append(new StoreUnavailable('a write to data/log failed'))).rejects.toThrow(StoreUnavailable);
  expect(await check('event_store')).toMatchObject({
    status: 'failed',
    detail: 'at position 7; the last append failed: a write to data/log failed',
  });
  await expect(append(new Error('a conflict'))).rejects.toThrow('a conflict');
  expect(await check('event_store')).toMatchObject({ status: 'failed' });
  await append(null);
  expect(await check('event_store')).toMatchObject({ status: 'ok' });
});

test('ten seconds after the last failed append the service is ready again', async () => {
  const { append, check, wait } = serviceWith({ status: 'ready', position: 7 });
  wait(0);
  await expect(append(new StoreUnavailable('no space left'))).rejects.toThrow('no space left');
  // Whatever becomes of the clock meanwhile.
  jest.spyOn(Date, 'now').mockReturnValue(Date.now() - 86_400_000);
  wait(9_999);
  expect(await check('event_store')).toMatchObject({ status: 'failed' });
  wait(1);
  expect(await check('event_store')).toMatchObject({
    status: 'ok',
    detail: 'at position 7; the last append failed: no space left',
  });
  await expect(append(new StoreUnavailable('no space left'))).rejects.toThrow('no space left');
  expect(await check('event_store')).toMatchObject({ status: 'failed' });
});

test('counts once per scrape, and never for readiness, which reports the age of the lag', async () => {
  const { check, scrape, counts } = serviceWith({ status: 'ready', position: 5 });
  expect(await check('projections')).toEqual({
    name: 'projections',
    status: 'ok',
    detail: expect.stringMatching(/^g1 ready, \d\.\d s behind$/),
  });
  expect(counts()).toBe(0);
  await scrape();
  expect(counts()).toBe(2); // all events, and those not applied
  const upToDate = serviceWith({ status: 'ready', position: 7 });
  expect(await upToDate.check('projections')).toMatchObject({ detail: 'g1 ready, at the head' });
});

test('is ready while the log is still being counted, and returns the metrics that need no count', async () => {
  const { check, scrape, eventStore } = serviceWith({ status: 'ready', position: 5 });
  eventStore.countAfter = () => new Promise(() => undefined);
  expect(await check('projections')).toMatchObject({ status: 'ok' });
  const text = await scrape();
  expect(text).toMatch(/^credence_projection_lag_seconds\{generation="g1"\} \d/m);
  expect(text).not.toMatch(/^credence_projection_(?:lag|applied)_events\{/m);
});

test('is not ready while the serving read models belong to another log', async () => {
  const { check } = serviceWith({ status: 'ready', position: 5, log: 'b' });
  expect(await check('projections')).toMatchObject({
    status: 'failed',
    detail: 'read_models_foreign: g1 belongs to another log, b',
  });
});

test('leaves generations out that neither serve nor are followed: their lag grows by intention', async () => {
  const serving = serviceWith({ status: 'ready', position: 5 });
  expect(await serving.scrape()).toMatch(/^credence_projection_lag_events\{generation="g1"\} 2/m);
  const spare = serviceWith({ status: 'ready', position: 5, id: 'g2' });
  expect(await spare.scrape()).not.toMatch(/^credence_projection_\w+\{/m);
  const led = serviceWith({ status: 'building', position: 5, id: 'g2', lease: { holder: 'h', expires_at: 0 } });
  expect(await led.scrape()).toMatch(/^credence_projection_lag_events\{generation="g2"\} 2/m);
});

test('reports how many events each generation has applied, the age of readers, and the jobs that wait', async () => {
  const text = await serviceWith({ status: 'building', position: 5 }).scrape();
  expect(text).toContain('credence_jobs_waiting{kind="replay"} 2');
  expect(text).toContain('credence_projection_applied_events{generation="g1"} 5');
});

test('a halted projector leaves the service ready, unless a serving generation is not built yet', async () => {
  const ready = serviceWith({ status: 'ready', position: 5 }, 'event 6 is newer');
  expect(await ready.check('projections')).toMatchObject({
    status: 'ok',
    detail: expect.stringContaining('halted: event 6 is newer; g1 ready'),
  });
  const building = serviceWith({ status: 'building', position: 5 }, 'event 6 is newer');
  expect(await building.check('projections')).toMatchObject({ status: 'failed' });
});

test('the lag in seconds is that of what serves: a build beside it is behind by intention', async () => {
  const led = serviceWith({ status: 'building', position: 5, id: 'g2', lease: { holder: 'h', expires_at: 0 } });
  expect(await led.scrape()).not.toMatch(/^credence_projection_lag_seconds\{/m);
  const serving = serviceWith({ status: 'ready', position: 5 });
  expect(await serving.scrape()).toMatch(/^credence_projection_lag_seconds\{generation="g1"\} \d/m);
});

test.each([
  ['slow', () => new Promise<never>(() => undefined)],
  ['away', () => Promise.reject(new StoreUnavailable('PostgreSQL is unavailable'))],
])('a store that is %s does not hide the lag: it is what it was, and grows', async (_, answer) => {
  const { scrape, readModels, wait } = serviceWith({ status: 'ready', position: 7 });
  const lag = async () =>
    Number(/^credence_projection_lag_seconds\{generation="g1"\} (\S+)/m.exec(await scrape())?.[1]);
  wait(0);
  expect(await lag()).toBe(0);
  readModels.generations = answer;
  wait(20_000);
  expect(await lag()).toBe(20);
  wait(25_000);
  expect(await lag()).toBe(45);
});

test('readiness asks its questions at once', async () => {
  const { check, eventStore, readModels } = serviceWith({ status: 'ready', position: 5 });
  const waiting: (() => void)[] = [];
  const asked = () => new Promise<void>((resolve) => waiting.push(resolve));
  const once =
    <A extends unknown[], T>(answer: (...args: A) => Promise<T>) =>
    async (...args: A) => {
      await asked();
      return answer(...args);
    };
  const { readAll } = eventStore;
  eventStore.readAll = async function* (after) {
    await asked();
    yield* readAll(after);
  };
  eventStore.readAt = once(eventStore.readAt);
  readModels.manifest = once(readModels.manifest);
  readModels.generations = once(readModels.generations);
  const answer = check('projections');
  // What is compared with the log must be known first.
  for (let rounds = 0; rounds < 2; rounds++) {
    await sleep(20);
    expect(waiting.length).toBeGreaterThan(0);
    for (const resolve of waiting.splice(0)) resolve();
  }
  expect(await answer).toMatchObject({ status: 'ok' });
});

test('reads are ready while the log gives no answer, and writes while the read models give none or are being built', async () => {
  const { check, health, eventStore, readModels } = serviceWith({ status: 'ready', position: 5 });
  const away = () => Promise.reject(new StoreUnavailable('away'));
  const statuses = async () =>
    Promise.all(
      [undefined, 'reads' as const, 'writes' as const].map(async (each) => (await health.ready(each)).status),
    );
  const { head, readAt } = eventStore;
  Object.assign(eventStore, { head: away, readAt: away });
  expect(await statuses()).toEqual(['unavailable', 'ok', 'unavailable']);
  expect(await check('projections')).toMatchObject({ detail: 'g1 ready, and the log gives no answer' });
  eventStore.readAt = () => Promise.reject(new StoreUnavailable('it has another log', { code: 'log_replaced' }));
  expect(await statuses()).toEqual(['unavailable', 'unavailable', 'unavailable']);
  Object.assign(eventStore, { head, readAt });
  const silent = () => new Promise<never>(() => undefined);
  for (const each of [away, silent]) {
    readModels.generations = each;
    expect(await statuses()).toEqual(['unavailable', 'unavailable', 'ok']);
  }
  const building = serviceWith({ status: 'building', position: 5 });
  expect([await building.check('projections', 'reads'), await building.check('projections', 'writes')]).toMatchObject([
    { status: 'failed' },
    { status: 'ok' },
  ]);
  const foreign = serviceWith({ status: 'ready', position: 5, log: 'b' });
  expect(await foreign.check('projections', 'writes')).toMatchObject({
    status: 'failed',
    detail: 'read_models_foreign: g1 belongs to another log, b',
  });
});
