import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { AppModule } from '../../src/app/app.module.js';
import { createApp } from '../../src/app/application.js';
import { CredenceClient } from '../../clients/typescript/src/client.js';
import { type ApiKeyRecord, ApiKeys, createKey, keysFile } from '../../src/credentials/api-keys.js';
import { type Scope, SCOPES } from '../../src/credentials/caller.js';
import { sha256Hex } from '../../src/kernel/hash.js';
import { loadConfig } from '../../src/kernel/config.js';
import { Logger } from '../../src/kernel/logger.js';
import { eventually } from '../contracts/harness.js';
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
  const created = createKey(service.config, { id: key_id, scopes: ['relay:write'] });
  await expect(created).rejects.toThrow('and not only dots');
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
])('an open stream ends when its key %s, and others go on', async (how, end) => {
  const key_id = how.replaceAll(' ', '-');
  const { key } = (await create({ key_id, scopes: ['access:check'] })).json;
  const client = (apiKey: string) => new CredenceClient({ baseUrl: `http://127.0.0.1:${service.port}`, apiKey });
  const [ended, other] = [key, 'only-ops'].map((apiKey) => client(apiKey).live({ reconnects: false })) as [Live, Live];
  expect(await Promise.all([ended.next(), other.next()])).toMatchObject([
    { value: { type: 'heartbeat' } },
    { value: { type: 'heartbeat' } },
  ]);
  const next = ended.next();
  await end(key_id);
  expect(await next).toMatchObject({ done: true });
  await service.post('/api/decision-relay', RELAYED, as('operator'));
  expect(await other.next()).toMatchObject({ value: { type: 'change', data: { tris_id: RELAYED.tris_id } } });
  await other.return();
  await remove(key_id);
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
    await expect(own.app.get(ApiKeys).delete(left, all, 'test', () => undefined)).rejects.toMatchObject({
      code: 'key_in_use',
    });
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

describe('the keys in the log', () => {
  const eventsOf = async (id: string) =>
    (await service.stores.eventStore.readStream(`key-${id}`)).map(({ type, data, metadata: { actor } }) => {
      return { type, actor, ...data };
    });
  const entryOf = (id: string, secret: string, scopes: Scope[] = ['relay:write']): ApiKeyRecord => {
    return { id, sha256: sha256Hex(secret), scopes };
  };
  const has = (id: string, events: number) =>
    eventually(async () => (await eventsOf(id)).length === events, `${events} events of ${id}`);
  const seen = { type: 'KeySeen', actor: 'key-file', key_id: 'moved', organization: null };

  test('a key is recorded once by whatever loads it, and again with other scopes; and that it is gone', async () => {
    change((keys) => [...keys, entryOf('moved', 'm')]);
    // Before any request.
    await has('moved', 1);
    // The process learns from its append that it may accept the key.
    await eventually(() => accepted('m'), 'the key is accepted');
    const digest_prefix = sha256Hex('m').slice(0, 16);
    expect(await eventsOf('moved')).toEqual([{ ...seen, digest_prefix, scopes: ['relay:write'] }]);
    // Another process that loads the same file.
    const app = await createApp(
      AppModule.register(service.config, service.stores, Date.now),
      service.config,
      new Logger('error'),
    );
    await app.close();
    expect(await eventsOf('moved')).toHaveLength(1);
    change((keys) => [...keys.filter(({ id }) => id !== 'moved'), entryOf('moved', 'm', ['reads'])]);
    await has('moved', 2);
    change((keys) => keys.filter(({ id }) => id !== 'moved'));
    await has('moved', 3);
    expect((await eventsOf('moved')).slice(1)).toEqual([
      { ...seen, digest_prefix, scopes: ['reads'] },
      { type: 'KeyGone', actor: 'key-file', key_id: 'moved' },
    ]);
    // The same key again.
    change((keys) => [...keys, entryOf('moved', 'm')]);
    await eventually(() => accepted('m'), 'the key is accepted again');
    expect(await eventsOf('moved')).toHaveLength(4);
  });

  test('administration over HTTP is recorded in the name of its key, and no id is used twice', async () => {
    expect((await create({ key_id: 'logged', scopes: ['relay:write'] })).status).toBe(201);
    expect(await eventsOf('logged')).toMatchObject([
      { type: 'KeySeen', actor: 'key:operator', scopes: ['relay:write'] },
    ]);
    await remove('logged');
    await has('logged', 2);
    expect((await eventsOf('logged'))[1]).toMatchObject({ type: 'KeyGone', actor: 'key:operator' });
    expect(outcome(await create({ key_id: 'logged', scopes: ['relay:write'] }))).toEqual([409, 'key_conflict']);
  });

  test('a key in the file with the id of another is not accepted, neither at a start nor later; the others are', async () => {
    change((keys) => [...keys, entryOf('taken', 'first')]);
    await eventually(() => accepted('first'), 'the first is accepted');
    change((keys) => [...keys.filter(({ id }) => id !== 'taken'), entryOf('taken', 'second'), entryOf('next', 'n')]);
    await eventually(() => accepted('n'), 'the next is accepted');
    expect([await accepted('first'), await accepted('second')]).toEqual([false, false]);
    const said: string[] = [];
    const logger = new Logger('error', (line) => said.push(line));
    const app = await createApp(AppModule.register(service.config, service.stores, Date.now), service.config, logger);
    expect([app.get(ApiKeys).find('second'), app.get(ApiKeys).find('n')?.keyId]).toEqual([undefined, 'next']);
    await app.close();
    expect(said.join()).toContain('The id \\"taken\\" was that of another key: choose an id that no key has had.');
    expect((await eventsOf('taken')).map(({ type }) => type)).toEqual(['KeySeen', 'KeyGone']);
  });
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
    await expect(keys.create({ id: 'b', scopes: ['ops'] }, 'test', () => undefined)).rejects.toMatchObject({
      code: 'keys_read_only',
    });
    await expect(keys.delete('a', new Set(SCOPES), 'test', () => undefined)).rejects.toMatchObject({
      code: 'keys_read_only',
    });
    expect(keys.list()).toHaveLength(1);
    await folder.remove();
  });

  test('because the file is not as described; those of before are listed and accepted', async () => {
    const file = keysFile(service.config);
    const before = readFileSync(file, 'utf8');
    writeFileSync(file, '[{"id":"operator"');
    try {
      for (const answer of [await create({ key_id: 'late', scopes: ['ops'] }), await remove('only-ops')]) {
        expect(outcome(answer)).toEqual([409, 'keys_read_only']);
        expect(answer.json.detail).toContain('cannot be read as JSON');
      }
      const { status, json } = await service.get('/v1/ops/keys', as('operator'));
      expect([status, json.keys.length]).toEqual([200, JSON.parse(before).length]);
    } finally {
      writeFileSync(file, before);
    }
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
