import { createHash } from 'node:crypto';
import {
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ConfigError, loadConfig } from '../../src/kernel/config.js';
import { ApiKeys, createKey, listKeys, revokeKey } from '../../src/credentials/api-keys.js';
import { SCOPES } from '../../src/credentials/caller.js';
import { Logger } from '../../src/kernel/logger.js';
import { serve, type Served } from './app.fixture.js';
import { send } from './client.js';

let folder: string;
beforeEach(() => void (folder = mkdtempSync(join(tmpdir(), 'credence-keys-'))));
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const quiet = () => {
  const lines: string[] = [];
  return { lines, log: new Logger('debug', (line) => void lines.push(line)) };
};
const sha256 = (key: string) => createHash('sha256').update(key).digest('hex');

describe('over HTTP', () => {
  let served: Served;
  const file = () => join(folder, 'keys.json');
  const start = async (keys: object[]) => {
    writeFileSync(file(), JSON.stringify(keys));
    served = await serve({ CREDENCE_API_KEYS: file() });
  };
  const call = (method: string, path: string, key?: string | string[]) =>
    send(served.port, method, path, { headers: key === undefined ? {} : { 'x-api-key': key } });
  afterEach(() => served.close());

  test('a key permits the routes of its scopes and no others, and binds the caller to its organization', async () => {
    await start([{ id: 'lender', sha256: sha256('k1'), scopes: ['relay:write'], organization: 'tris@bank' }]);
    const refused = await call('GET', '/v1/keyed', 'k1');
    expect([refused.status, refused.json.code]).toEqual([403, 'forbidden']);
    expect(refused.json.detail).toBe('The key "lender" lacks the scope "ops", which no key of an organization has.');
    expect((await call('DELETE', '/v1/things/tris@a', 'k1')).json).toEqual({
      tris_id: 'tris@a',
      organization: 'tris@bank',
    });
    expect((await call('GET', '/v1/things/tris@a', 'k1')).json.key).toBe('lender');
  });

  test('a key sent as a token is refused with the header that it belongs in', async () => {
    await start([{ id: 'ops', sha256: sha256('k1'), scopes: ['ops'] }]);
    const refused = await send(served.port, 'GET', '/v1/keyed', { headers: { authorization: 'Bearer k1' } });
    expect([refused.status, refused.json.code]).toEqual([401, 'unauthorized']);
    expect(refused.json.detail).toMatch(/X-API-Key/);
  });

  test.each([[undefined], ['wrong'], [''], [['k1', 'k1']]])(
    'the key %j is refused with 401 and a challenge',
    async (key) => {
      await start([{ id: 'ops', sha256: sha256('k1'), scopes: ['ops'] }]);
      const answer = await call('GET', '/v1/keyed', key);
      expect([answer.status, answer.json.code]).toEqual([401, 'unauthorized']);
      expect(answer.headers['www-authenticate']).toMatch(/^ApiKey realm="credence"/);
    },
  );

  test('an invalid key is refused on a public route too, and before the body is read', async () => {
    await start([]);
    expect((await call('GET', '/v1/things/tris@a', 'wrong')).status).toBe(401);
    const broken = await send(served.port, 'POST', '/v1/things', {
      body: '{',
      headers: { 'content-type': 'text/plain' },
    });
    expect(broken.status).toBe(401);
  });

  test('the digest of a key is not a key', async () => {
    await start([{ id: 'ops', sha256: sha256('k1'), scopes: ['ops'] }]);
    expect((await call('GET', '/v1/keyed', sha256('k1'))).status).toBe(401);
  });

  test('no key ever reaches the log', async () => {
    await start([{ id: 'ops', sha256: sha256('k1-secret'), scopes: ['ops'] }]);
    await call('GET', '/v1/keyed', 'k1-secret');
    await call('GET', '/v1/keyed', 'wrong-secret');
    expect(served.logs.length).toBeGreaterThan(1);
    expect(JSON.stringify(served.logs)).not.toMatch(/-secret|[0-9a-f]{64}/);
  });
});

describe('the development key', () => {
  const config = () => loadConfig({ CREDENCE_DATA: folder });

  test('is created once with every scope, is the whole content of its file, and only the owner can read it', () => {
    const first = new ApiKeys(config(), quiet().log);
    const file = join(folder, 'dev-api-key');
    expect(readFileSync(file, 'utf8')).toBe(first.createdDevelopmentKey);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(readdirSync(folder)).toEqual(['dev-api-key']);
    const again = new ApiKeys(config(), quiet().log);
    expect(again.createdDevelopmentKey).toBeUndefined();
    expect([...again.find(first.createdDevelopmentKey!)!.scopes]).toEqual([...SCOPES]);
  });

  test('does not count when a keys file is configured', () => {
    const key = new ApiKeys(config(), quiet().log).createdDevelopmentKey!;
    writeFileSync(join(folder, 'keys.json'), '[]');
    const keys = new ApiKeys(
      loadConfig({ CREDENCE_DATA: folder, CREDENCE_API_KEYS: join(folder, 'keys.json') }),
      quiet().log,
    );
    expect(keys.find(key)).toBeUndefined();
  });
});

describe('the keys file', () => {
  const config = () => loadConfig({ CREDENCE_DATA: folder });
  const hex = 'a'.repeat(64);
  const entry = { id: 'a', sha256: hex, scopes: ['ops'] };

  test.each([
    ['{', /cannot be read as JSON/],
    ['{}', /must contain a JSON array/],
    ['[7]', /entry 1 must be an object/],
    [JSON.stringify([entry, { ...entry, sha256: 'b'.repeat(64) }]), /entry 2 has the same id "a" as another entry/],
    [JSON.stringify([entry, { ...entry, id: 'b' }]), /entry 2 has the same sha256 as another entry/],
    [JSON.stringify([{ ...entry, sha256: hex.toUpperCase() }]), /entry 1 must have sha256/],
    [JSON.stringify([{ ...entry, scopes: ['relay'] }]), /entry 1 must have scopes, a list of reads, relay:write, /],
    [JSON.stringify([{ ...entry, scopes: [] }]), /entry 1 must have scopes/],
    [JSON.stringify([{ ...entry, organization: 'bank' }]), /entry 1 has an organization that is not a TRIS id/],
    [JSON.stringify([{ ...entry, key: 'x' }]), /entry 1 has the unknown member "key"/],
  ])('%s stops the boot with a sentence', (text, message) => {
    writeFileSync(join(folder, 'api-keys.json'), text);
    expect(() => new ApiKeys(config(), quiet().log)).toThrow(ConfigError);
    expect(() => new ApiKeys(config(), quiet().log)).toThrow(message);
  });

  test('must exist when it is configured', () => {
    const missing = loadConfig({ CREDENCE_DATA: folder, CREDENCE_API_KEYS: join(folder, 'none.json') });
    expect(() => new ApiKeys(missing, quiet().log)).toThrow(/names .*none\.json, which does not exist/);
  });

  test('is reread within a second of a change; a broken one leaves the keys as they were', async () => {
    let now = 0;
    const { log: logger, lines } = quiet();
    const keys = new ApiKeys(config(), logger, () => now);
    keys.find('x');
    const key = await createKey(config(), { id: 'shop', scopes: ['relay:write'], organization: 'tris@shop' });
    now += 999;
    expect(keys.find(key)).toBeUndefined();
    now += 1;
    expect(keys.find(key)).toMatchObject({ keyId: 'shop', organization: 'tris@shop' });
    writeFileSync(join(folder, 'api-keys.json'), '[{');
    now += 1000;
    expect(keys.find(key)).toBeDefined();
    expect(lines.at(-1)).toMatch(/cannot be used/);
    expect(lines.filter((line) => line.includes('cannot be used'))).toHaveLength(1);
    rmSync(join(folder, 'api-keys.json'));
    now += 1000;
    expect(keys.find(key)).toBeUndefined();
  });

  test('leaves the keys as they were while it cannot be looked at', async () => {
    let now = 0;
    const file = join(folder, 'api-keys.json');
    const key = await createKey(config(), { id: 'shop', scopes: ['relay:write'] });
    const { log: logger, lines } = quiet();
    const keys = new ApiKeys(config(), logger, () => now);
    renameSync(file, `${file}.away`);
    // As root, a test cannot lack a right.
    symlinkSync(file, file);
    now += 1000;
    expect(keys.find(key)).toBeDefined();
    expect(lines.at(-1)).toMatch(/cannot be used.*ELOOP/);
    renameSync(`${file}.away`, file);
    await revokeKey(config(), 'shop');
    now += 1000;
    expect(keys.find(key)).toBeUndefined();
  });

  test('an organization that names a person is refused: the log records the keys', async () => {
    const record = { id: 'shop', scopes: ['relay:write' as const], organization: 'tris:john@example.org' };
    await expect(createKey(config(), record)).rejects.toThrow('"tris:john@example.org" contains an e-mail address');
  });

  test('a revoked key is refused also when the clock is set back', async () => {
    let now = Date.parse('2026-01-02T00:00:00Z');
    const key = await createKey(config(), { id: 'shop', scopes: ['relay:write'] });
    const keys = new ApiKeys(config(), quiet().log, () => now);
    expect(keys.find(key)).toBeDefined();
    await revokeKey(config(), 'shop');
    now -= 86_400_000;
    expect(keys.find(key)).toBeUndefined();
  });

  test('keys are created, listed and revoked; the key itself is nowhere in the file', async () => {
    const file = join(folder, 'api-keys.json');
    const key = await createKey(config(), { id: 'a', scopes: ['ops'] });
    await createKey(config(), { id: 'b', scopes: ['relay:write', 'access:check'] });
    expect(listKeys(config()).map(({ id, scopes }) => [id, scopes])).toEqual([
      ['a', ['ops']],
      ['b', ['relay:write', 'access:check']],
    ]);
    expect(readFileSync(file, 'utf8')).not.toContain(key);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect([await revokeKey(config(), 'a'), await revokeKey(config(), 'a')]).toEqual([true, false]);
    expect(listKeys(config()).map(({ id }) => id)).toEqual(['b']);
    expect(readdirSync(folder)).toEqual(['api-keys.json']);
    expect(existsSync(join(folder, 'dev-api-key'))).toBe(false);
  });

  test.each([
    [{ id: 'a', scopes: ['ops'] }, /already/],
    [{ id: 'dev', scopes: ['ops'] }, /already/],
    [{ id: 'x y', scopes: ['ops'] }, /The id must be/],
    [{ id: 'x', scopes: [] }, /scopes must be/],
    [{ id: 'x', scopes: ['ops'], organization: 'bank' }, /not a TRIS id/],
  ])('creating %j is refused', async (record, message) => {
    await createKey(config(), { id: 'a', scopes: ['ops'] });
    await expect(createKey(config(), record as never)).rejects.toThrow(message);
  });
});
