import { QueryBus } from '@nestjs/cqrs';
import { GetStatus } from '../../src/features/operations/status.handlers.js';
import { type EventStore, StoreUnavailable } from '../../src/stores/ports/event-store.js';
import type { ReadModels } from '../../src/stores/ports/read-models.js';
import { eventually } from '../contracts/harness.js';
import { type Service, relay, seen, startService } from '../policies/service.fixture.js';

/** What operators do to the read models over HTTP, in one process. test/e2e/operations.test.ts runs on both profiles. */

let service: Service;
let own: Record<string, string>;
beforeEach(async () => {
  service = await startService();
  own = { 'x-api-key': service.key };
  const action = { category: 'financial', action_type: 'swap', criticality: 'High' };
  await relay(
    service,
    Array.from({ length: 50 }, (_, n) => ({ ...action, tris_id: `tris:ops-${n}` }) as never),
  );
  await service.get('/v1/disc/score/tris:ops-1', await seen(service));
});
afterEach(async () => {
  await service.close();
});

const status = async () => (await service.get('/v1/ops/status', own)).json as any;
const job = async (id: string) => (await service.get(`/v1/jobs/${id}`, own)).json as any;
const start = async (name: string, body?: object) => {
  const answer = await service.post(`/v1/ops/${name}`, body);
  expect({ name, status: answer.status, json: answer.json }).toMatchObject({ status: 202 });
  return answer.json.job_id as string;
};
const ended = async (id: string) => {
  await eventually(async () => (await job(id)).finished_at !== null);
  return job(id);
};
const servingIds = async () =>
  new Set((await status()).generations.flatMap((g: any) => (g.serves.length ? [g.id] : [])));

/** Holds every read of the log that a rebuild makes, until the function answered is called. */
function holdLog(): () => void {
  const store = service.stores.eventStore as { readAll: EventStore['readAll'] };
  const readAll = store.readAll.bind(store);
  let release!: () => void;
  const held = new Promise<void>((resolve) => (release = resolve));
  store.readAll = async function* (after, options) {
    if (options?.sliceSize !== 1) {
      const gone = new Promise<void>((resolve) => options?.signal?.addEventListener('abort', () => resolve()));
      await Promise.race([held, gone]);
    }
    yield* readAll(after, options);
  };
  return () => {
    release();
    store.readAll = readAll;
  };
}

test('the status is that of the command line, and asking for it changes nothing', async () => {
  const before = await status();
  expect(before).toMatchObject({
    head: expect.stringMatching(/\.\d+$/),
    events: expect.any(Number),
    generations: [{ id: 'g1', status: 'ready', of_this_log: true, lag_events: 0, lag_seconds: 0 }],
    previous_views: null,
    dead_letters: { open: 0, acknowledged: 0, oldest_open: [] },
    failed_jobs: { count: 0, newest: [] },
  });
  const withoutLease = ({ generations, ...rest }: any) => ({
    ...rest,
    generations: generations.map((generation: any) => ({ ...generation, lease: null })),
  });
  const complete = await service.app.get(QueryBus, { strict: false }).execute(new GetStatus({ complete: true }));
  expect(withoutLease(before)).toEqual(JSON.parse(JSON.stringify(withoutLease(complete))));
  expect(withoutLease(await status())).toEqual(withoutLease(before));
});

test('a generation is built, served, rolled back and dropped, and the rows stay right', async () => {
  const first = [...(await servingIds())][0] as string;
  const built = await ended(await start('rebuild', {}));
  const { events } = await status();
  expect(built).toMatchObject({
    kind: 'rebuild',
    status: 'completed',
    progress: { done: events, total: events },
    result: { events, swapped: false },
  });
  const { generation } = built.result;
  expect([...(await servingIds())]).toEqual([first]);

  expect(await ended(await start('swap', { generation }))).toMatchObject({ status: 'completed' });
  expect([...(await servingIds())]).toEqual([generation]);
  expect((await status()).previous_views.identities).toBe(first);
  expect(await ended(await start('verify'))).toMatchObject({
    status: 'completed',
    result: { identical: true, difference: null, damaged_events: 0 },
  });
  expect((await service.delete(`/v1/ops/generations/${generation}`)).json.code).toBe('generation_conflict');

  expect(await ended(await start('rollback'))).toMatchObject({ status: 'completed' });
  expect([...(await servingIds())]).toEqual([first]);
  const dropped = await service.delete(`/v1/ops/generations/${generation}`);
  expect([dropped.status, dropped.json]).toEqual([200, { generation }]);
  expect((await status()).generations.map(({ id }: any) => id)).toEqual([first]);
  expect((await service.delete(`/v1/ops/generations/${generation}`)).json.code).toBe('generation_not_found');
});

test('while views are built, requests are answered, progress is told, and a second build is refused', async () => {
  const release = holdLog();
  try {
    const id = await start('rebuild', { views: ['timeline'] });
    await eventually(async () => (await job(id)).status === 'running');
    expect((await service.get('/v1/disc/score/tris:ops-1')).status).toBe(200);
    const refused = await service.post('/v1/ops/rebuild', {});
    expect([refused.status, refused.json.code]).toEqual([409, 'operation_open']);
    const cancelled = await service.delete(`/v1/jobs/${id}`);
    expect(cancelled.json.status).toBe('cancelled');
  } finally {
    release();
  }
  const next = await ended(await start('rebuild', { views: ['timeline'], swap: true }));
  expect(next).toMatchObject({ status: 'completed', result: { swapped: true } });
  const { generations } = await status();
  const serves = (id: string) => generations.find((generation: any) => generation.id === id).serves;
  expect(serves(next.result.generation)).toEqual(['timeline']);
  expect((await servingIds()).size).toBe(2);
});

test('two builds at the same time: one starts; a retry with the same Idempotency-Key gets its job', async () => {
  const release = holdLog();
  const keys = ['a', 'b', 'c', 'd'].map((key) => ({ 'idempotency-key': key }));
  const answers = await Promise.all(keys.map((key) => service.post('/v1/ops/rebuild', { views: ['trove'] }, key)));
  expect(answers.map((answer) => answer.status).sort()).toEqual([202, 409, 409, 409]);
  const first = answers.findIndex((answer) => answer.status === 202);
  const { job_id } = answers[first]!.json;
  const again = await service.post('/v1/ops/rebuild', { views: ['trove'] }, keys[first]);
  expect([again.status, again.json]).toEqual([202, { job_id }]);
  expect((await service.post('/v1/ops/rebuild', {}, keys[first])).json.code).toBe('idempotency_key_reused');
  release();
  expect((await ended(job_id)).status).toBe('completed');
});

test('what cannot be done is refused, or fails with the reason', async () => {
  const swap = await ended(await start('swap', { generation: 'g99' }));
  expect(swap).toMatchObject({
    status: 'failed',
    problem: { code: 'job_failed', detail: expect.stringContaining('no generation g99') },
  });
  expect((await status()).failed_jobs).toMatchObject({ count: 1, newest: [{ id: swap.job_id, attempts: 1 }] });
  for (const body of [{ views: ['nothing'] }, { views: [] }, { view: 'timeline' }]) {
    expect((await service.post('/v1/ops/rebuild', body)).json.code).toBe('validation_failed');
  }
  expect((await service.post('/v1/ops/swap', { generation: '../g1' })).json.code).toBe('validation_failed');
});

test('a rollback that was interrupted after it took effect is not undone by its next attempt', async () => {
  await ended(await start('rebuild', { swap: true }));
  const before = await service.stores.readModels.manifest();
  // As a crash leaves it: the job is queued again, and the generations it should return to serve already.
  await service.stores.jobs.enqueue('rollback', 'rbk_again', { from: before!.previous_views!, to: before!.views });
  expect(await ended('rbk_again')).toMatchObject({ status: 'completed', result: { views: before!.views } });
  expect((await service.stores.readModels.manifest())!.revision).toBe(before!.revision);
});

/** The next swap takes effect, but its answer is lost, and with it the attempt of the job. */
function loseNextSwap(): void {
  const readModels = service.stores.readModels as { swapManifest: ReadModels['swapManifest'] };
  const { swapManifest } = readModels;
  readModels.swapManifest = async (next) => {
    readModels.swapManifest = swapManifest;
    await swapManifest.call(readModels, next);
    throw new StoreUnavailable('the answer was lost');
  };
}

test('a swap that took effect in an attempt that was interrupted is done once', async () => {
  const before = await service.stores.readModels.manifest();
  loseNextSwap();
  const rebuilt = await ended(await start('rebuild', { swap: true }));
  expect(rebuilt).toMatchObject({ status: 'completed', result: { swapped: true } });
  const after = await service.stores.readModels.manifest();
  expect(new Set(Object.values(after!.views))).toEqual(new Set([rebuilt.result.generation]));
  expect(after).toMatchObject({ revision: before!.revision + 1, previous_views: before!.views });

  const { generation } = (await ended(await start('rebuild', {}))).result;
  loseNextSwap();
  expect(await ended(await start('swap', { generation }))).toMatchObject({ status: 'completed' });
  expect(await service.stores.readModels.manifest()).toMatchObject({
    revision: after!.revision + 1,
    previous_views: after!.views,
  });
  expect((await ended(await start('swap', { generation }))).problem.detail).toContain('already serves');
});

test('an operation whose job was removed as an old one is not done again by the next', async () => {
  const [first] = [...(await servingIds())];
  const { generation } = (await ended(await start('rebuild', { swap: true }))).result;
  await ended(await start('rollback'));
  await ended(await start('swap', { generation }));
  await ended(await start('rollback'));
  expect([...(await servingIds())]).toEqual([first]);
  // As 30 days later.
  await (service.stores.jobs as any).sweep('9999');
  const asked = await ended(await start('swap', { generation: 'g99' }));
  expect(asked.problem.detail).toContain('no generation g99');
  expect(await ended(await start('rebuild', { views: ['timeline'] }))).toMatchObject({ result: { swapped: false } });
  expect([...(await servingIds())]).toEqual([first]);
});

test('without a swap nothing is rolled back', async () => {
  expect((await service.post('/v1/ops/rollback')).json.code).toBe('generation_conflict');
});
