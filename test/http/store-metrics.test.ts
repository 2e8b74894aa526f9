import { Registry } from 'prom-client';
import { StoreUnavailable } from '../../src/event-store/event-store.js';
import { Health } from '../../src/ops/health.js';
import { StoreMetrics } from '../../src/ops/store-metrics.js';

/** Readiness of the log and the read models, with stores that behave as told. */
function serviceWith(generation: { status: string; position: number }, halted: string | null = null) {
  let failure: Error | null = null;
  const { status, position } = generation;
  const eventStore = {
    head: async () => 7,
    countAfter: async (after: number) => 7 - after,
    async *readAll() {},
    append: async () => {
      if (failure) throw failure;
      return { position: 8, revision: 0 };
    },
  };
  const readModels = {
    manifest: async () => ({ views: { identities: 'g1' } }),
    generations: async () => [{ id: 'g1', views: { identities: 1 }, status, checkpoint: { position }, lease: null }],
  };
  const health = new Health();
  const registry = new Registry();
  const app = { get: (token: unknown) => (token === Health ? health : registry) };
  const metrics = new StoreMetrics();
  metrics.watch(eventStore as never);
  metrics.register(app as never, { eventStore, readModels } as never, { halted } as never);
  const append = (outcome: Error | null) => {
    failure = outcome;
    return eventStore.append();
  };
  const check = async (name: string) => (await health.ready()).checks.find((found) => found.name === name);
  return { append, check };
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

test('a halted projector leaves the service ready, unless what serves is not built yet', async () => {
  const ready = serviceWith({ status: 'ready', position: 5 }, 'event 6 is newer');
  expect(await ready.check('projections')).toMatchObject({
    status: 'ok',
    detail: expect.stringContaining('halted: event 6 is newer; g1 ready'),
  });
  const building = serviceWith({ status: 'building', position: 5 }, 'event 6 is newer');
  expect(await building.check('projections')).toMatchObject({ status: 'failed' });
});
