import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { CredenceClient } from '../../clients/typescript/src/client.js';
import { type ApiKeyRecord, ApiKeys, createKey, keysFile } from '../../src/credentials/api-keys.js';
import { SCOPES } from '../../src/credentials/caller.js';
import { sha256Hex } from '../../src/kernel/hash.js';
import { loadConfig } from '../../src/kernel/config.js';
import { Logger } from '../../src/kernel/logger.js';
import { temporaryFolder } from '../embedded/temporary-folder.js';
import { type Service, as, startService, startServiceWithKeys } from '../policies/service.fixture.js';

/** API keys over HTTP: who gives which scopes, and when a key is accepted and refused. */

const KEYS = [
  { id: 'operator', scopes: SCOPES },
  { id: 'only-ops', scopes: ['ops'] },
  { id: 'lendco', scopes: SCOPES, organization: 'tris:lendco' },
];

let service: Service;
beforeAll(async () => void (service = await startServiceWithKeys(KEYS)));
afterAll(() => service.close());

const create = (body: object, key = 'operator') => service.post('/v1/ops/keys', body, as(key));
const remove = (id: string, key = 'operator') => service.delete(`/v1/ops/keys/${id}`, as(key));
const outcome = ({ status, json }: { status: number; json: any }) => [status, json.code];
/** Changes the file as an operator does who keeps it elsewhere. */
function change(work: (keys: ApiKeyRecord[]) => ApiKeyRecord[]): void {
  const file = keysFile(service.config);
  const changed = work(JSON.parse(readFileSync(file, 'utf8')) as ApiKeyRecord[]);
  writeFileSync(`${file}.new`, JSON.stringify(changed));
  renameSync(`${file}.new`, file);
}
type Live = ReturnType<CredenceClient['live']>;
const RELAYED = {
  tris_id: 'tris:watched',
  action_type: 'loan_repayment',
  category: 'financial',
  criticality: 'high',
  platform_id: 'lender',
};
const accepted = async (key: string) => (await service.get('/v1/me', as(key))).status === 200;

test('the id of the development key is taken, also where there is none', async () => {
  expect(outcome(await create({ key_id: 'dev', scopes: ['relay:write'] }))).toEqual([409, 'key_conflict']);
});

test.each(['.', '..'])('a key cannot be named %s, which a browser takes for a folder', async (key_id) => {
  expect(outcome(await create({ key_id, scopes: ['relay:write'] }))).toEqual([400, 'validation_failed']);
  expect(() => createKey(service.config, { id: key_id, scopes: ['relay:write'] })).toThrow('and not only dots');
});

test('a key learns what it may do', async () => {
  const { json } = await service.get('/v1/me', as('lendco'));
  const scopes = SCOPES.filter((scope) => scope !== 'ops');
  expect(json).toEqual({ key_id: 'lendco', scopes, organization: 'tris:lendco' });
  expect((await service.get('/v1/me')).status).toBe(401);
});

test.each<[string, (id: string) => unknown]>([
  ['is deleted over HTTP', (id) => remove(id)],
  ['is taken out of the file', (id) => change((keys) => keys.filter((key) => key.id !== id))],
  [
    'gets another secret',
    (id) => change((keys) => keys.map((key) => (key.id === id ? { ...key, sha256: sha256Hex('other') } : key))),
  ],
  [
    'is bound to an organization',
    (id) => change((keys) => keys.map((key) => (key.id === id ? { ...key, organization: 'tris:o' } : key))),
  ],
])('an open stream ends when its key %s, and others go on', async (_, end) => {
  const { key } = (await create({ key_id: 'watcher', scopes: ['access:check'] })).json;
  const client = (apiKey: string) => new CredenceClient({ baseUrl: `http://127.0.0.1:${service.port}`, apiKey });
  const [ended, other] = [key, 'only-ops'].map((apiKey) => client(apiKey).live({ reconnects: false })) as [Live, Live];
  expect(await Promise.all([ended.next(), other.next()])).toMatchObject([
    { value: { type: 'heartbeat' } },
    { value: { type: 'heartbeat' } },
  ]);
  const next = ended.next();
  await end('watcher');
  expect(await next).toMatchObject({ done: true });
  await service.post('/api/decision-relay', RELAYED, as('operator'));
  expect(await other.next()).toMatchObject({ value: { type: 'change', data: { tris_id: RELAYED.tris_id } } });
  await other.return();
  await remove('watcher');
});

test('a created key works at once, its secret is shown once and stored nowhere, and a deleted one is refused at once', async () => {
  const body = { key_id: 'shop', scopes: ['relay:write', 'access:check'], organization: 'tris:shop' };
  const created = await create(body);
  expect([created.status, created.headers.location, created.headers['cache-control']]).toEqual([
    201,
    '/v1/ops/keys/shop',
    'no-store',
  ]);
  const { key } = created.json;
  expect(created.json).toEqual({ ...body, key: expect.stringMatching(/^credence_/), is_development: false });
  expect((await service.get('/v1/me', as(key))).json).toEqual(body);
  const read = await service.get('/v1/ops/keys/shop', as('operator'));
  expect(read.json).toEqual({ ...body, is_development: false });
  const { json: list } = await service.get('/v1/ops/keys', as('operator'));
  expect([list.keys.map(({ key_id }: any) => key_id), list.read_only]).toEqual([
    ['operator', 'only-ops', 'lendco', 'shop'],
    null,
  ]);
  expect(readFileSync(keysFile(service.config), 'utf8')).toContain(sha256Hex(key));
  expect(readFileSync(keysFile(service.config), 'utf8') + list).not.toContain(key);
  expect(outcome(await create(body))).toEqual([409, 'key_conflict']);

  expect((await remove('shop')).json).toEqual({ key_id: 'shop' });
  expect(await accepted(key)).toBe(false);
  expect(outcome(await remove('shop'))).toEqual([404, 'key_not_found']);
});

test.each([
  ['a scope that the caller lacks', { scopes: ['ops', 'relay:write'] }, 'only-ops', 403, 'forbidden'],
  ['ops for an organization', { scopes: ['ops'], organization: 'tris:x' }, 'operator', 400, 'validation_failed'],
  ['an unknown scope', { scopes: ['everything'] }, 'operator', 400, 'validation_failed'],
  ['no scope', { scopes: [] }, 'operator', 400, 'validation_failed'],
  ['an id that is none', { key_id: '../x', scopes: ['ops'] }, 'operator', 400, 'validation_failed'],
  ['as an organization', { scopes: ['relay:write'] }, 'lendco', 403, 'forbidden'],
])('no key is created with %s', async (_what, body, key, status, code) => {
  const before = readFileSync(keysFile(service.config), 'utf8');
  expect(outcome(await create({ key_id: 'wish', ...body }, key))).toEqual([status, code]);
  expect(readFileSync(keysFile(service.config), 'utf8')).toBe(before);
});

test('a list of more scopes than there are is refused before its items are compared', async () => {
  const scopes = Array.from({ length: 100 }, (_, n) => `scope-${n}`);
  expect((await create({ key_id: 'wish', scopes })).json.errors).toMatchObject([{ code: 'array_max_size' }]);
});

test('an operator gives only what it has, and the scope to read', async () => {
  const { json } = await create({ key_id: 'second', scopes: ['ops', 'reads'] }, 'only-ops');
  expect((await service.get('/v1/me', as(json.key))).json.scopes).toEqual(['ops', 'reads']);
  expect((await remove('second', 'only-ops')).status).toBe(200);
});

test('no key deletes itself, and of two that delete each other one is left', async () => {
  const own = await startServiceWithKeys([...KEYS, { id: 'second', scopes: SCOPES }]);
  try {
    const removeThere = (id: string, key: string) => own.delete(`/v1/ops/keys/${id}`, as(key));
    const isAccepted = async (key: string) => (await own.get('/v1/me', as(key))).status === 200;
    expect(outcome(await removeThere('second', 'second'))).toEqual([409, 'key_in_use']);
    const answers = await Promise.all([removeThere('operator', 'second'), removeThere('second', 'operator')]);
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
    expect([await isAccepted('operator'), await isAccepted('second')].sort()).toEqual([false, true]);
    const left = (await isAccepted('operator')) ? 'operator' : 'second';
    expect((await removeThere('only-ops', left)).status).toBe(200);
    const all = new Set(SCOPES);
    await expect(own.app.get(ApiKeys).delete(left, all, () => undefined)).rejects.toMatchObject({ code: 'key_in_use' });
  } finally {
    await own.close();
  }
});

test('a key with fewer scopes deletes none with more, but for the scope to read', async () => {
  const refused = await remove('operator', 'only-ops');
  expect(outcome(refused)).toEqual([403, 'forbidden']);
  expect(refused.json.detail).toMatch(/^The key of this request lacks relay:write, .* and cannot delete operator/);
  expect(await accepted('operator')).toBe(true);
});

test('a key with the id of an earlier one gets no answer of that one by its Idempotency-Key', async () => {
  const answers = [];
  for (let n = 0; n < 2; n++) {
    const { key } = (await create({ key_id: 'reused', scopes: ['relay:write'] })).json;
    const headers = { ...as(key), 'idempotency-key': 'first' };
    answers.push(await service.post('/api/decision-relay', RELAYED, headers));
    expect((await service.post('/api/decision-relay', RELAYED, headers)).json).toEqual(answers[n]!.json);
    await remove('reused');
  }
  expect(answers.map(({ status }) => status)).toEqual([202, 202]);
  expect(answers[0]!.json.action_id).not.toBe(answers[1]!.json.action_id);
});

test('keys created at the same time are all kept', async () => {
  const ids = Array.from({ length: 8 }, (_, n) => `together-${n}`);
  const answers = await Promise.all(ids.map((key_id) => create({ key_id, scopes: ['ops'] })));
  expect(answers.map(({ status }) => status)).toEqual(ids.map(() => 201));
  expect((await Promise.all(answers.map(({ json }) => accepted(json.key)))).every(Boolean)).toBe(true);
  for (const id of ids) await remove(id);
});

test('with the development key the first key is created, and the development key is not deleted', async () => {
  const plain = await startService();
  const created = await plain.post('/v1/ops/keys', { key_id: 'first', scopes: ['ops'] });
  expect(created.status).toBe(201);
  const { json } = await plain.get('/v1/ops/keys', as(created.json.key));
  expect(json.keys.map(({ key_id, is_development }: any) => [key_id, is_development])).toEqual([
    ['dev', true],
    ['first', false],
  ]);
  expect(outcome(await plain.delete('/v1/ops/keys/dev', as(created.json.key)))).toEqual([409, 'key_in_use']);
  await plain.close();
});

describe('keys that this process must not change', () => {
  test('because a cluster shares them', async () => {
    const folder = await temporaryFolder();
    const file = join(folder.path, 'keys.json');
    writeFileSync(file, JSON.stringify([{ id: 'a', sha256: sha256Hex('a'), scopes: ['ops'] }]));
    const config = loadConfig({
      CREDENCE_PROFILE: 'cluster',
      CREDENCE_API_KEYS: file,
      CREDENCE_SIGNING_KEYS: join(folder.path, 'signing.json'),
      EVENTSTORE_URL: 'esdb://127.0.0.1:2113?tls=false',
      REDIS_URL: 'redis://127.0.0.1:6379',
      CREDENCE_DATABASE_URL: 'postgres://credence@127.0.0.1:5432/credence',
    });
    const keys = new ApiKeys(config, new Logger('error'));
    expect(keys.readOnly()).toContain('All processes share');
    await expect(keys.create({ id: 'b', scopes: ['ops'] }, () => undefined)).rejects.toMatchObject({
      code: 'keys_read_only',
    });
    await expect(keys.delete('a', new Set(SCOPES), () => undefined)).rejects.toMatchObject({ code: 'keys_read_only' });
    expect(keys.list()).toHaveLength(1);
    await folder.remove();
  });

  test('because their folder cannot be written', async () => {
    const folder = dirname(keysFile(service.config));
    const key = (await accepted('operator')) ? 'operator' : 'only-ops';
    renameSync(folder, `${folder}.away`);
    writeFileSync(folder, 'not a folder');
    try {
      const answer = await create({ key_id: 'late', scopes: ['ops'] }, key);
      expect(outcome(answer)).toEqual([409, 'keys_read_only']);
    } finally {
      rmSync(folder);
      renameSync(`${folder}.away`, folder);
    }
  });
});
