import { mkdtemp, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ACTION, Server, expectProblem } from './server.js';

/** What operators see: boot, modules, health, metrics, documents, and what survives a restart. */

const folders: string[] = [];
async function folder(): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), 'credence-life-'));
  folders.push(path);
  return path;
}
afterAll(() => Promise.all(folders.map((path) => rm(path, { recursive: true, force: true }))));

describe('a running server', () => {
  let server: Server;
  beforeAll(async () => void (server = await Server.start()));

  test('prints its address, its documentation and the development key once', async () => {
    const [first, second, ...others] = server.output.join('').split('\n');
    expect(first).toBe(`Credence serves ${server.url} from ${server.data}`);
    expect(second).toBe(`Documentation: ${server.url}/docs`);
    expect(others.filter((line) => line.includes(server.key))).toHaveLength(1);
    expect((await server.send('GET', '/docs')).status).toBe(200);
  });

  test('does not expose its private keys', async () => {
    for (const file of ['dev-api-key', 'signing-keys.json', 'voucher-keys.json']) {
      expect((await stat(join(server.data, file))).mode & 0o777).toBe(0o600);
    }
  });

  test('is live, and ready in every check', async () => {
    expect((await server.get('/health/live')).json).toEqual({ status: 'ok' });
    const { status, json } = await server.get('/health/ready');
    expect([status, json.status]).toEqual([200, 'ok']);
    expect(json.checks.map(({ name, status }: any) => [name, status])).toEqual(
      expect.arrayContaining([
        ['event_store', 'ok'],
        ['projections', 'ok'],
      ]),
    );
  });

  test('measures commits, requests, lag and dead letters', async () => {
    const write = await server.relay();
    await server.getAfter(write, '/api/disc-score/tris:somebody');
    const { status, text } = await server.send('GET', '/metrics');
    expect(status).toBe(200);
    expect(text).toMatch(/^credence_commit_seconds_count [1-9]/m);
    expect(text).toMatch(/^credence_projection_lag_events\{generation="g1"\} 0$/m);
    expect(text).toMatch(/^credence_projection_lag_seconds\{generation="g1"\} 0$/m);
    expect(text).toMatch(/^credence_projection_applied_events\{generation="g1"\} [1-9]/m);
    expect(text).toMatch(/^credence_dead_letters 0$/m);
    expect(text).toContain('route="/api/decision-relay",status="202"');
  });

  test('documents every route in OpenAPI 3.1', async () => {
    const { json } = await server.send('GET', '/openapi.json');
    expect(json.openapi).toMatch(/^3\.1\./);
    const routes = Object.entries<any>(json.paths).flatMap(([path, item]) =>
      Object.keys(item).map((method) => `${method.toUpperCase()} ${path}`),
    );
    for (const route of [
      'POST /api/decision-relay',
      'GET /api/disc-score/{tris_id}',
      'GET /api/disc-rank/{tris_id}',
      'GET /api/tris-validations/{tris_id}',
      'GET /v1/disc/score/{tris_id}',
      'GET /v1/disc/score/{tris_id}/history',
      'GET /v1/disc/score/{tris_id}/explain',
      'GET /v1/disc/metrics/{tris_id}',
      'GET /v1/disc/report/{tris_id}',
      'POST /v1/disc/score/batch',
      'POST /v1/disc/metrics/batch',
      'POST /v1/disc/report/batch',
      'GET /v1/disc/changes',
      'POST /v1/organizations',
      'GET /v1/organizations',
      'GET /v1/organizations/{tris_id}',
      'POST /v1/organizations/{tris_id}/vet',
      'POST /v1/organizations/{tris_id}/revoke',
      'POST /v1/platforms',
      'POST /v1/identities/{tris_id}/bad-status',
      'DELETE /v1/identities/{tris_id}/bad-status',
      'POST /v1/identities/{tris_id}/verifications',
      'DELETE /v1/identities/{tris_id}/verifications/{status}',
      'POST /v1/tris/verifications',
      'GET /v1/verification-schemes/{scheme}',
      'GET /health/live',
      'GET /health/ready',
      'GET /.well-known/jwks.json',
    ]) {
      expect(routes).toContain(route);
    }
    const documented = (method: string, path: string) => Object.keys(json.paths[path][method].responses);
    expect(documented('get', '/v1/disc/score/{tris_id}')).toContain('401');
    expect(documented('post', '/v1/policies/vp')).toEqual(expect.arrayContaining(['200', '201']));
    for (const verb of ['promote', 'rollback']) {
      expect(documented('post', `/v1/policies/vp/{policy_id}/${verb}`)).toEqual(expect.arrayContaining(['200', '202']));
    }
    expect(documented('get', '/v1/promotions/{job_id}')).toContain('404');
    const headers = (path: string) => json.paths[path].delete.parameters.map(({ name }: { name: string }) => name);
    expect(headers('/v1/replays/{replay_id}')).not.toContain('Idempotency-Key');
    expect(headers('/v1/identities/{tris_id}/bad-status')).toContain('Idempotency-Key');

    const text = JSON.stringify(json);
    for (const [, name] of text.matchAll(/#\/components\/schemas\/(\w+)/g)) {
      expect(Object.keys(json.components.schemas)).toContain(name);
    }
    // A keyword of OpenAPI 3.0, which 3.1 does not know.
    expect(text).not.toContain('"nullable"');
  });
});

describe('CREDENCE_MODULES', () => {
  const everywhere = ['/health/live', '/health/ready', '/openapi.json', '/.well-known/jwks.json'];
  const probes: [module: string, mine: [method: string, path: string, status: number], other: string][] = [
    ['relay', ['POST', '/api/decision-relay', 202], '/api/disc-score/tris:a'],
    ['withdrawals', ['GET', '/v1/actions/00000000-0000-4000-8000-000000000000', 404], '/api/disc-score/tris:a'],
    ['disc', ['GET', '/api/disc-score/tris:a', 404], '/v1/organizations'],
    ['credonations', ['GET', '/api/tris-validations/tris:a', 404], '/api/disc-score/tris:a'],
    ['organizations', ['GET', '/v1/organizations', 200], '/api/disc-score/tris:a'],
    ['sessions', ['POST', '/v1/tris/auth/siwe/start', 200], '/api/disc-score/tris:a'],
    ['wallets', ['GET', '/v1/wallets/tris:a', 200], '/api/disc-score/tris:a'],
    ['verifications', ['GET', '/v1/verification-schemes', 200], '/api/disc-score/tris:a'],
    ['identity', ['DELETE', '/v1/identities/tris:a/bad-status', 200], '/api/disc-score/tris:a'],
  ];

  const BODIES: Record<string, object> = {
    '/api/decision-relay': ACTION,
    '/v1/tris/auth/siwe/start': { address: `0x${'ab'.repeat(20)}`, chain_id: 1 },
  };

  test.each(probes)('%s stands alone', async (module, [method, path, status], other) => {
    const server = await Server.start({ env: { CREDENCE_MODULES: module } });
    for (const address of everywhere)
      expect([address, (await server.send('GET', address)).status]).toEqual([address, 200]);
    const body = BODIES[path];
    const answer = await server.request(method, path, { body });
    expect(answer.status).toBe(status);
    if (status === 404) expect(answer.json.code).toBe(module === 'withdrawals' ? 'not_found' : 'identity_not_found');
    expectProblem(await server.get(other), 404, 'not_found');
    await server.end();
  });

  test('a folder served by all of them can be served by one alone, which sees its own writes', async () => {
    const data = await folder();
    const alone = { data, env: { CREDENCE_MODULES: 'relay,credonations' } };
    await (await Server.start(alone)).stop();
    await (await Server.start({ data })).stop();
    const server = await Server.start(alone);
    const write = await server.relay({ tris_id: 'tris:a' });
    const read = await server.getAfter(write, '/api/tris-validations/tris:a');
    expect([read.status, read.json.validations?.length]).toEqual([200, 1]);
    await server.end();
  });

  test('an unknown module stops the boot with one sentence', async () => {
    await expect(Server.start({ env: { CREDENCE_MODULES: 'relay,poetry' } })).rejects.toThrow(
      /ended with 2: credence: CREDENCE_MODULES must be a comma-separated list of/,
    );
  });
});
