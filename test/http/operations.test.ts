import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { compactVerify, createLocalJWKSet } from 'jose';
import { ConfigError, MODULES, configurationTable, loadConfig } from '../../src/kernel/config.js';
import { canonicalJson } from '../../src/kernel/hash.js';
import { Health } from '../../src/app/health.js';
import { Logger } from '../../src/kernel/logger.js';
import { SigningKeys, thumbprint } from '../../src/credentials/signing-keys.js';
import { eventually } from '../contracts/harness.js';
import { serve, setSlow, type Served } from './app.fixture.js';
import { send } from './client.js';

describe('a running service', () => {
  let served: Served;
  const get = (path: string, headers: Record<string, string> = {}) => send(served.port, 'GET', path, { headers });
  beforeAll(async () => void (served = await serve()));
  afterAll(() => served.close());

  test('is live, and ready only while every check holds', async () => {
    expect((await get('/health/live')).json).toEqual({ status: 'ok' });
    expect((await get('/health/ready')).json).toEqual({ status: 'ok', checks: [] });
    const health = served.app.get(Health);
    health.add('store', () => ({ ok: true, detail: 'open' }));
    health.add('projector', async () => {
      throw new Error('halted at 17');
    });
    const answer = await get('/health/ready');
    expect([answer.status, answer.headers['cache-control']]).toEqual([503, 'no-store']);
    expect(answer.json).toEqual({
      status: 'unavailable',
      checks: [
        { name: 'store', status: 'ok', detail: 'open' },
        { name: 'projector', status: 'failed', detail: 'halted at 17' },
      ],
    });
    expect((await get('/health/live')).status).toBe(200);
  });

  test('is ready for reads or for writes while what these need works', async () => {
    const health = served.app.get(Health);
    const failing = () => ({ ok: false, detail: 'away' });
    health.add('store', failing, ['writes']);
    health.add('projector', () => ({ ok: true, detail: 'runs' }), ['reads']);
    health.add('jobs', failing, []);
    const [all, reads, writes] = await Promise.all(
      ['', '?for=reads', '?for=writes'].map((q) => get(`/health/ready${q}`)),
    );
    const names = (answer: typeof all) => answer!.json.checks.map(({ name }: any) => name);
    expect([all!.status, names(all)]).toEqual([503, ['store', 'projector', 'jobs']]);
    expect([reads!.status, names(reads)]).toEqual([200, ['projector']]);
    expect([writes!.status, names(writes)]).toEqual([503, ['store']]);
    for (const wrong of ['for=checks', 'for=', 'for=reads&for=writes', 'of=reads']) {
      const refused = await get(`/health/ready?${wrong}`);
      expect([wrong, refused.status]).toEqual([wrong, 400]);
      if (wrong === 'for=checks')
        expect(refused.json.detail).toBe('?for: for must be one of reads, writes; received "checks"');
    }
  });

  test('measures requests by method, route pattern and status', async () => {
    await get('/v1/things/tris@measured');
    await get('/v1/never-there');
    const { text, headers } = await get('/metrics');
    expect(headers['content-type']).toMatch(/^text\/plain/);
    expect(text).toMatch(/_count\{method="GET",route="\/v1\/things\/:tris_id",status="200"\} 1\n/);
    expect(text).toMatch(/_bucket\{le="\+Inf",method="GET",route="none",status="404"\} 1\n/);
    expect(text).toMatch(/process_cpu_seconds_total/);
    expect(text).not.toMatch(/measured|never-there/);
  });

  test('gives metrics to loopback and to ops keys, not through a proxy', async () => {
    const proxied = { 'x-forwarded-for': '203.0.113.9' };
    expect((await get('/metrics', proxied)).status).toBe(401);
    expect((await get('/metrics', { ...proxied, 'x-api-key': served.key })).status).toBe(200);
    // As the Prometheus Operator sends it; on other routes it is refused.
    const asToken = { ...proxied, authorization: `Bearer ${served.key}` };
    expect([(await get('/metrics', asToken)).status, (await get('/v1/keyed', asToken)).status]).toEqual([200, 401]);
    expect((await get('/metrics', { authorization: 'Bearer x' })).status).toBe(401);
  });

  test('publishes its public keys only', async () => {
    const { json } = await get('/.well-known/jwks.json');
    expect(json.keys).toHaveLength(1);
    expect(Object.keys(json.keys[0]).sort()).toEqual(['alg', 'crv', 'kid', 'kty', 'use', 'x']);
  });

  test('documents every route with its refusals', async () => {
    const { json } = await get('/openapi.json');
    expect(json.openapi).toBe('3.1.0');
    const paths = Object.keys(json.paths);
    expect(paths).toEqual(
      expect.arrayContaining(['/v1/things', '/v1/things/{tris_id}', '/health/ready', '/.well-known/jwks.json']),
    );
    for (const [path, item] of Object.entries<any>(json.paths)) {
      for (const [method, operation] of Object.entries<any>(item)) {
        const name = `${method} ${path}`;
        expect([name, operation.summary]).toEqual([name, expect.any(String)]);
        const ref = operation.responses['500']?.content['application/problem+json']?.schema.$ref;
        expect([name, ref]).toEqual([name, '#/components/schemas/ProblemDto']);
      }
    }
    const create = json.paths['/v1/things'].post;
    expect(Object.keys(create.responses)).toEqual([
      '202',
      '400',
      '401',
      '403',
      '405',
      '413',
      '415',
      '422',
      '429',
      '500',
      '503',
    ]);
    expect(create.security).toEqual([{ api_key: [] }]);
    expect(create['x-scope']).toBe('relay:write');
    expect(create.parameters).toEqual([
      expect.objectContaining({ name: 'Idempotency-Key', in: 'header', required: false }),
    ]);
    expect(Object.keys(json.paths['/v1/things'].get.responses)).toContain('401');
    expect(json.components.securitySchemes.api_key).toEqual({ type: 'apiKey', in: 'header', name: 'X-API-Key' });
  });

  test('serves a documentation page without external resources', async () => {
    const { text, headers } = await get('/docs');
    expect(headers['content-security-policy']).toContain("script-src 'self'");
    const links = [...text.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, link]) => link!);
    expect(links.length).toBeGreaterThan(3);
    for (const link of links) {
      expect(link).toMatch(/^\.\//);
      expect([link, (await get(`/${link.slice(2)}`)).status]).toEqual([link, 200]);
    }
    expect(text).not.toMatch(/<script>(?!\s*<\/script>)/);
    const { text: problems } = await get('/docs/problems');
    expect(problems).toContain('id="validation_failed"');
    expect(problems).toMatch(/<style>[^<]*border-collapse/);
    expect(problems).toContain('<td>the platform used this <code>external_id</code> for another action</td>');
    expect((await get('/docs/nothing')).json.code).toBe('not_found');
    // Not 403, which would say that the credential does not allow it.
    for (const path of [
      '/docs/..%2f..%2fpackage.json',
      '/docs/../package.json',
      '/docs/..%5cpackage.json',
      '/docs/%00',
    ]) {
      expect([path, (await get(path)).json.code]).toEqual([path, 'not_found']);
    }
  });

  test('finishes requests in progress when it closes, and drops idle connections', async () => {
    const { port, close } = await serve();
    const agent = new Agent({ keepAlive: true });
    const over = (path: string) =>
      new Promise<number>((resolve, reject) => {
        const outgoing = request({ port, host: '127.0.0.1', path, agent }, (incoming) => {
          incoming.resume().on('end', () => resolve(incoming.statusCode!));
        });
        outgoing.on('error', reject).end();
      });
    expect(await over('/health/live')).toBe(200);
    let release = () => {};
    const started = new Promise<void>((resolve) => {
      setSlow({ started: resolve, release: new Promise((free) => (release = free)) });
    });
    const inFlight = over('/v1/slow');
    await started;
    const begun = Date.now();
    const closing = close();
    const refuses = () =>
      send(port, 'GET', '/health/live').then(
        () => false,
        () => true,
      );
    await eventually(refuses, 'the end of new connections');
    release();
    expect(await inFlight).toBe(200);
    await closing;
    // The server would keep an idle connection for 72 s.
    expect(Date.now() - begun).toBeLessThan(60_000);
    agent.destroy();
  });
});

describe('signing keys', () => {
  let folder: string;
  beforeEach(() => void (folder = mkdtempSync(join(tmpdir(), 'credence-signing-'))));
  afterEach(() => rmSync(folder, { recursive: true, force: true }));
  const config = () => loadConfig({ CREDENCE_DATA: folder });
  const file = () => join(folder, 'signing-keys.json');

  test('are made once, private to the owner, named by their thumbprint', () => {
    const first = new SigningKeys(config());
    expect(statSync(file()).mode & 0o777).toBe(0o600);
    expect(first.current.kid).toBe(thumbprint(first.jwks.keys[0]!.x));
    expect(new SigningKeys(config()).current.kid).toBe(first.current.kid);
  });

  test('have the thumbprint of the example in RFC 8037, appendix A.3', () => {
    const x = '11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo';
    expect(thumbprint(x)).toBe('kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k');
  });

  test('sign canonical JSON so that any JOSE library verifies it, and always to the same bytes', async () => {
    const keys = new SigningKeys(config());
    const payload = { b: [1, 0.5], a: 'é', c: { z: null, y: true } };
    const jws = await keys.sign(payload, 'metrics+jws');
    const { payload: bytes, protectedHeader } = await compactVerify(jws, createLocalJWKSet(keys.jwks));
    expect(Buffer.from(bytes).toString('utf8')).toBe(canonicalJson(payload));
    expect(protectedHeader).toEqual({ alg: 'EdDSA', kid: keys.current.kid, typ: 'metrics+jws' });
    expect(await keys.sign({ c: { y: true, z: null }, a: 'é', b: [1, 0.5] }, 'metrics+jws')).toBe(jws);
    const [header, , signature] = jws.split('.');
    const forged = `${header}.${Buffer.from('{"a":1}').toString('base64url')}.${signature}`;
    await expect(compactVerify(forged, createLocalJWKSet(keys.jwks))).rejects.toThrow();
  });

  test('an announced key is published but does not sign yet', () => {
    const [mine] = JSON.parse((new SigningKeys(config()), readFileSync(file(), 'utf8'))).keys;
    const other = new SigningKeys(loadConfig({ CREDENCE_DATA: join(folder, 'other') })).jwks.keys[0]!;
    writeFileSync(file(), JSON.stringify({ keys: [other, mine] }));
    const keys = new SigningKeys(config());
    expect(keys.jwks.keys.map(({ kid }) => kid)).toEqual([other.kid, mine.kid]);
    expect(keys.current.kid).toBe(mine.kid);
  });

  test.each([
    ['{', /cannot be read as JSON/],
    ['{"keys":[]}', /must be a JWK set/],
    ['{"keys":[{"kty":"RSA"}]}', /key 1 is not an Ed25519 key/],
    ['{"keys":[{"kty":"OKP","crv":"Ed25519","x":"AA","kid":"mine"}]}', /key 1 has a kid that does not match the key/],
    ['{"keys":[{"kty":"OKP","crv":"Ed25519","x":"AA","d":"AA"}]}', /key 1 has a private part that cannot be read/],
    ['{"keys":[{"kty":"OKP","crv":"Ed25519","x":"AA"}]}', /no private key to sign with/],
  ])('%s stops the boot with a sentence', (text, message) => {
    writeFileSync(file(), text);
    expect(() => new SigningKeys(config())).toThrow(ConfigError);
    expect(() => new SigningKeys(config())).toThrow(message);
  });
});

describe('the configuration', () => {
  test('has a default for everything', () => {
    const config = loadConfig({});
    expect({ ...config }).toMatchObject({
      host: '127.0.0.1',
      port: 3000,
      profile: 'embedded',
      modules: [...MODULES],
      rateLimit: 600,
      trustProxy: false,
      logLevel: 'info',
    });
    expect(loadConfig({ CREDENCE_PORT: '', CREDENCE_MODULES: 'disc, relay' })).toMatchObject({
      port: 3000,
      modules: ['disc', 'relay'],
    });
  });

  test.each([
    ['CREDENCE_PORT', '65536', 'CREDENCE_PORT must be an integer from 0 to 65535, not "65536".'],
    ['CREDENCE_PORT', '3e3', /must be an integer/],
    ['CREDENCE_PORT', ' 80', /must be an integer/],
    ['CREDENCE_RATE_LIMIT', '-1', /must be an integer from 0/],
    ['CREDENCE_MAX_STALENESS_SECONDS', '0', /must be an integer from 1/],
    ['CREDENCE_PROFILE', 'clustered', 'CREDENCE_PROFILE must be one of embedded, cluster, not "clustered".'],
    ['CREDENCE_PROFILE', 'cluster', 'The cluster profile requires EVENTSTORE_URL.'],
    ['CREDENCE_ROLES', 'api,web', 'CREDENCE_ROLES must be a comma-separated list of api, worker, not "api,web".'],
    ['CREDENCE_ROLES', 'worker', /^CREDENCE_ROLES must be absent or name both roles in the embedded profile/],
    ['REDIS_URL', 'http://user:secret@host', /^REDIS_URL must have the form [^"]*\.$/],
    ['EVENTSTORE_URL', 'secret@host', /^EVENTSTORE_URL must be a connection string such as [^"]*\.$/],
    ['CREDENCE_MODULES', 'disc,polices', /comma-separated list of relay, withdrawals, disc, .* not "disc,polices"/],
    ['CREDENCE_LOG_LEVEL', 'verbose', /one of error, warn, info, debug/],
    ['CREDENCE_PUBLIC_URL', 'ftp://x', /http or https URL/],
    ['CREDENCE_PUBLIC_URL', 'https://bücher.example', /RFC 3986/],
    ['CREDENCE_PUBLIC_URL', 'https://id.example/a|b', /RFC 3986/],
    ['CREDENCE_PUBLIC_URL', 'https://id.example/%zz', /RFC 3986/],
    ['CREDENCE_PUBLIC_URL', 'https://user:word@id.example', /without user, password/],
    ['CREDENCE_PUBLIC_URL', 'https://id.example/?a=b', /query/],
    ['CREDENCE_PUBLIC_URL', 'https://id.example/#part', /fragment/],
    ['CREDENCE_TRUST_PROXY', 'true', /"on" or "off"/],
    ['CREDENCE_RPC_1', 'ws://x', 'CREDENCE_RPC_1 must be an http or https URL.'],
    ['CREDENCE_RPC_137', 'https://', 'CREDENCE_RPC_137 must be an http or https URL.'],
    ['CREDENCE_RPC_0', 'http://x', /CREDENCE_RPC_0 is not a variable of Credence/],
    ['CREDENCE_RPC_', 'http://x', /CREDENCE_RPC_ is not a variable of Credence/],
    ['CREDENCE_RPC_<chainId>', 'http://x', /is not a variable of Credence/],
    ['CREDENCE_BOGUS', '1', 'CREDENCE_BOGUS is not a variable of Credence; docs/configuration.md lists all variables.'],
    ['CREDENCE_TEST', '1', 'CREDENCE_TEST is not a variable of Credence; docs/configuration.md lists all variables.'],
    ['CREDENCE_PROT', '80', 'CREDENCE_PROT is not a variable of Credence; did you mean CREDENCE_PORT?'],
    [
      'CREDENCE_DATABASE',
      'x',
      'CREDENCE_DATABASE is not a variable of Credence; docs/configuration.md lists all variables.',
    ],
  ])('%s=%s stops the boot with one sentence', (name, value, message) => {
    expect(() => loadConfig({ [name]: value })).toThrow(ConfigError);
    expect(() => loadConfig({ [name]: value })).toThrow(message);
  });

  test.each(['http://localhost:3000', 'https://id.example/app/', 'http://[::1]:3000', 'https://id.example/%C3%BC'])(
    'takes %s as the public URL',
    (url) => expect(loadConfig({ CREDENCE_PUBLIC_URL: url }).publicUrl).toBe(url),
  );

  test('has an endpoint for each chain that is configured', () => {
    const { rpc } = loadConfig({
      CREDENCE_RPC_1: 'https://rpc.example/key?x=1',
      CREDENCE_RPC_137: 'http://127.0.0.1:8545',
    });
    expect([...rpc]).toEqual([
      ['1', 'https://rpc.example/key?x=1'],
      ['137', 'http://127.0.0.1:8545'],
    ]);
    expect([...loadConfig({ CREDENCE_RPC_1: '' }).rpc]).toEqual([]);
  });

  test('is described in a table of all variables', () => {
    const table = configurationTable();
    expect(table.split('\n')).toHaveLength(2 + 35);
    expect(table).toContain('| `CREDENCE_PORT` | `3000` | Port to listen on; 0 takes any free port and prints it |');
  });
});

test('a log record is one line of JSON at or above the level, with errors readable', () => {
  const lines: string[] = [];
  const logger = new Logger('warn', (line) => void lines.push(line));
  logger.info('not this');
  logger.log('nor this', 'NestFactory');
  logger.error('failed\nbadly', { request_id: 'r1', error: new TypeError('why') });
  logger.warn('careful', 'SomeContext');
  expect(lines).toHaveLength(2);
  expect(lines[0]).toMatch(/^[^\n]+\n$/);
  expect(JSON.parse(lines[0]!)).toMatchObject({
    time: expect.stringMatching(/^\d{4}-.*Z$/),
    level: 'error',
    msg: 'failed\nbadly',
    request_id: 'r1',
    error: { name: 'TypeError', message: 'why', stack: expect.any(String) },
  });
  expect(JSON.parse(lines[1]!)).toMatchObject({ level: 'warn', msg: 'careful', context: 'SomeContext' });
});

test('a log record contains the causes of an error', () => {
  const lines: string[] = [];
  const logger = new Logger('warn', (line) => void lines.push(line));
  const full = Object.assign(new Error('No space left on device'), { code: 'ENOSPC' });
  const write = new Error('a write failed', { cause: full });
  logger.error('refused', { error: new TypeError('no outcome', { cause: write }) });
  full.cause = write;
  logger.error('a chain that has no end', { error: write });
  expect(JSON.parse(lines[0]!).error).toEqual({
    name: 'TypeError',
    message: 'no outcome',
    stack: expect.any(String),
    causes: [
      { name: 'Error', message: 'a write failed' },
      { name: 'Error', message: 'No space left on device', code: 'ENOSPC' },
    ],
  });
  expect(JSON.parse(lines[1]!).error.causes).toHaveLength(5);
});
