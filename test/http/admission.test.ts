import { StoreUnavailable } from '../../src/stores/ports/event-store.js';
import { serve, type Served, setSlow } from './app.fixture.js';
import { send } from './client.js';

/** What the HTTP layer does while the log is overloaded. */

/** Admits nobody while it is closed. */
const admission = {
  isFull: false,
  isOpen: true,
  inside: 0,
  entered: 0,
  waiting: [] as (() => void)[],
  refuseIfFull() {
    if (admission.isFull) throw new StoreUnavailable('full', { code: 'store_busy' });
  },
  enter() {
    admission.entered++;
    if (admission.isOpen) return void admission.inside++;
    return new Promise<void>((resolve) => admission.waiting.push(resolve)).then(() => {
      if (!admission.isOpen) throw new StoreUnavailable('busy', { code: 'store_busy' });
      admission.inside++;
    });
  },
  leave: () => void admission.inside--,
};

let served: Served;
beforeAll(async () => void (served = await serve({}, admission)));
afterAll(() => served.close());
beforeEach(() => void Object.assign(admission, { isFull: false, isOpen: true, inside: 0, entered: 0, waiting: [] }));

const post = (path: string, body: string) =>
  send(served.port, 'POST', path, {
    headers: { 'x-api-key': served.key, 'content-type': 'application/json' },
    body,
  });
const THING = JSON.stringify({ tris_id: 'tris:a', action_type: 'loan' });
const untilOneWaits = async () => {
  while (admission.waiting.length === 0) await new Promise(setImmediate);
};

test('a write is refused with 503 store_busy before its body is parsed', async () => {
  for (const close of [() => (admission.isFull = true), () => (admission.isOpen = false)]) {
    Object.assign(admission, { isFull: false, isOpen: true });
    close();
    const refused = post('/v1/things', 'not JSON');
    if (!admission.isFull) {
      await untilOneWaits();
      admission.waiting.shift()!();
    }
    const { status, json, headers } = await refused;
    expect([status, json.code]).toEqual([503, 'store_busy']);
    expect(Number(headers['retry-after'])).toBeGreaterThan(0);
  }
  expect(admission.inside).toBe(0);
});

test('a write that waits is done once it is admitted', async () => {
  admission.isOpen = false;
  const waiting = post('/v1/things', THING);
  await untilOneWaits();
  admission.isOpen = true;
  admission.waiting.shift()!();
  expect((await waiting).status).toBe(202);
  expect(admission).toMatchObject({ entered: 1, inside: 0 });
});

test('every write is counted once, with or without a body, also one that is refused for another reason', async () => {
  const statuses = [
    (await post('/v1/things', THING)).status,
    (await post('/v1/things', 'not JSON')).status,
    (await post('/v1/things', '{}')).status,
    (await post('/v1/things/tris:a/vet', '')).status,
  ];
  expect(statuses).toEqual([202, 400, 400, 201]);
  expect(admission).toMatchObject({ entered: 4, inside: 0 });
});

test('reads, and writes without a valid key, are not counted', async () => {
  admission.isFull = true;
  expect((await send(served.port, 'GET', '/v1/things/tris:a')).status).toBe(200);
  expect((await send(served.port, 'POST', '/v1/things', { body: THING })).status).toBe(401);
  expect(admission.entered).toBe(0);
});

test('a list gives up its place when its body is read, since its items are admitted one by one', async () => {
  let release = () => {};
  const started = new Promise<void>((resolve) =>
    setSlow({ started: resolve, release: new Promise((done) => (release = done)) }),
  );
  const answer = post('/v1/things/batch', '{"things":[1]}');
  await started;
  expect(admission).toMatchObject({ entered: 1, inside: 0 });
  release();
  expect((await answer).status).toBe(200);
  expect((await post('/v1/things/batch', 'not JSON')).status).toBe(400);
  expect(admission).toMatchObject({ entered: 2, inside: 0 });
});
