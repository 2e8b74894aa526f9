import { once } from 'node:events';
import { type Socket, connect } from 'node:net';
import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { type ApiKeyRecord, ApiKeys, keysFile } from '../../src/credentials/api-keys.js';
import { SCOPES } from '../../src/credentials/caller.js';
import { type JobKind, JobKinds } from '../../src/features/jobs/job-kinds.js';
import type { Job } from '../../src/stores/ports/jobs.js';
import { becomes } from '../contracts/harness.js';
import { type Service, as, startServiceWithKeys } from '../policies/service.fixture.js';

/** What somebody can still do with a key that is deleted while a request of it waits. */

const KEYS = [
  { id: 'operator', scopes: SCOPES },
  { id: 'leaked', scopes: SCOPES },
  { id: 'leaked-org', scopes: ['reads', 'relay:write', 'access:check'], organization: 'tris:lendco' },
];

let service: Service;
beforeEach(async () => void (service = await startServiceWithKeys(KEYS)));
afterEach(() => service.close());

const remove = (id: string) => service.delete(`/v1/ops/keys/${id}`, as('operator'));
const flags = (from: number, count: number) => ({
  actions: Array.from({ length: count }, (_, n) => ({
    tris_id: `tris:victim-${n}`,
    action_type: 'fraud_flags',
    category: 'compliance',
    criticality: 'critical',
    platform_id: 'lender',
    external_id: `flag-${from + n}`,
  })),
});

/** Sends all of a request but its last byte. @returns sends that, and reads the status and the body of the answer */
async function heldBack(method: string, path: string, key: string, body: object) {
  const text = JSON.stringify(body);
  const socket: Socket = connect(service.port, '127.0.0.1');
  const head = [
    `${method} ${path} HTTP/1.1`,
    'Host: localhost',
    `X-API-Key: ${key}`,
    'Content-Type: application/json',
    `Content-Length: ${text.length}`,
    'Connection: close',
    'Expect: 100-continue',
  ];
  socket.write(`${head.join('\r\n')}\r\n\r\n${text.slice(0, -1)}`);
  // The server has read the headers.
  await once(socket, 'data');
  return async () => {
    let answer = '';
    socket.on('data', (chunk) => (answer += chunk.toString()));
    socket.write(text.slice(-1));
    await once(socket, 'close');
    return { status: Number(answer.split(' ')[1]), code: /"code":"(\w+)"/.exec(answer)?.[1] };
  };
}

const isGone = (id: string) =>
  becomes(
    () => service.stores.eventStore.readStream(`key-${id}`),
    (events) => events.at(-1)?.type === 'KeyGone',
  );

test('batches that hold back their last byte until their key is deleted record nothing', async () => {
  const rest = await Promise.all(
    Array.from({ length: 20 }, (_, n) =>
      heldBack('POST', '/v1/decision-relay/batch', 'leaked-org', flags(n * 500, 500)),
    ),
  );
  expect((await remove('leaked-org')).status).toBe(200);
  await isGone('leaked-org');
  const before = await service.stores.eventStore.head();
  const answers = await Promise.all(rest.map((send) => send()));
  expect(answers).toEqual(answers.map(() => ({ status: 401, code: 'unauthorized' })));
  expect(await service.stores.eventStore.head()).toBe(before);
});

test('a request is judged by the scopes that its key has when its body is complete', async () => {
  const send = await heldBack('POST', '/api/decision-relay', 'leaked', flags(0, 1).actions[0]!);
  const file = keysFile(service.config);
  const keys = JSON.parse(readFileSync(file, 'utf8')) as ApiKeyRecord[];
  writeFileSync(
    `${file}.new`,
    JSON.stringify(keys.map((key) => (key.id === 'leaked' ? { ...key, scopes: ['reads'] } : key))),
  );
  renameSync(`${file}.new`, file);
  const scopes = async () => (await service.get('/v1/me', as('leaked'))).json.scopes;
  await becomes(scopes, ({ length }) => length === 1);
  expect(await send()).toEqual({ status: 403, code: 'forbidden' });
});

test('a running batch stops when its key is deleted: what is recorded stands, and each of the rest is refused', async () => {
  const { eventStore } = service.stores;
  const before = await eventStore.head();
  const append = eventStore.append.bind(eventStore);
  let appends = 0;
  let deleted: Promise<void> | undefined;
  eventStore.append = async (...args) => {
    if (++appends === 100)
      deleted = service.app.get(ApiKeys).delete('leaked', new Set(SCOPES), 'test', () => undefined);
    await deleted;
    return append(...args);
  };
  const { status, json } = await service.post('/v1/decision-relay/batch', flags(0, 1_000), as('leaked'));
  expect(status).toBe(200);
  const statuses = json.results.map((result: { status: number }) => result.status);
  const recorded = statuses.filter((each: number) => each === 202).length;
  expect(statuses.filter((each: number) => each === 401)).toHaveLength(1_000 - recorded);
  expect(recorded).toBeGreaterThanOrEqual(99);
  expect(recorded).toBeLessThan(300);
  await isGone('leaked');
  expect((await eventStore.head()) - before).toBe(recorded + 1);
});

test('a key that is deleted while it creates another one leaves none behind', async () => {
  const send = await heldBack('POST', '/v1/ops/keys', 'leaked', { key_id: 'back-door', scopes: ['ops'] });
  await remove('leaked');
  expect(await send()).toEqual({ status: 401, code: 'unauthorized' });
  // The same, where the key is deleted while its request waits for the file.
  const made = await service.post('/v1/ops/keys', { key_id: 'next', scopes: ['ops'] }, as('operator'));
  const both = await Promise.all([
    service.delete('/v1/ops/keys/next', as('operator')),
    service.post('/v1/ops/keys', { key_id: 'back-door', scopes: ['ops'] }, as(made.json.key)),
  ]);
  expect(both.map(({ status }) => status)).toEqual([200, 401]);
});

test('the result of a job is not sent on once the key is deleted', async () => {
  let release = (): void => undefined;
  const released = new Promise<void>((resolve) => (release = resolve));
  async function* parts() {
    yield '{"part":1}\n';
    await released;
    yield '{"part":2}\n';
  }
  const result = { type: 'string', description: '' } as const;
  const kind: JobKind = {
    kind: 'long',
    prefix: 'long',
    scope: 'ops',
    isOf: () => true,
    result,
    lines: async () => parts(),
  };
  service.app.get(JobKinds).find = async () => ({ kind, job: { id: 'long_1', status: 'completed' } as Job });
  const answer = await fetch(`http://127.0.0.1:${service.port}/v1/jobs/long_1/result`, { headers: as('leaked') });
  const reader = answer.body!.getReader();
  expect(Buffer.from((await reader.read()).value!).toString()).toBe('{"part":1}\n');
  await remove('leaked');
  release();
  await expect(reader.read()).rejects.toThrow();
});
