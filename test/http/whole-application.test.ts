import { ModuleRef, ModulesContainer } from '@nestjs/core';
import { send } from './client.js';
import { type Service, startService } from '../policies/service.fixture.js';

/** What holds for the application as a whole, with every feature in it. */

let service: Service;

beforeAll(async () => {
  service = await startService();
});

afterAll(() => service.close());

it('has one instance of every provider, so that its cache exists once', () => {
  const instances = new Map<unknown, Set<unknown>>();
  for (const { providers } of service.app.get(ModulesContainer).values()) {
    for (const [token, { instance, isNotMetatype }] of providers) {
      if (isNotMetatype || token === ModuleRef) continue;
      instances.set(token, (instances.get(token) ?? new Set()).add(instance));
    }
  }
  const repeated = [...instances].filter(([, { size }]) => size > 1).map(([token]) => (token as { name: string }).name);
  expect(instances.size).toBeGreaterThan(80);
  expect(repeated).toEqual([]);
});

it('documents that public queries take a key, whose organization has a lens of its own, or none', async () => {
  interface Documented {
    servers: unknown[];
    paths: Record<string, Record<string, { security: unknown[]; 'x-scope'?: string }>>;
  }
  const { servers, paths } = (await service.get('/openapi.json')).json as Documented;
  expect(servers).toHaveLength(1);
  const either = [{}, { api_key: [] }, { session: [] }];
  expect(paths['/v1/disc/score/{tris_id}']!['get']!.security).toEqual(either);
  expect(paths['/api/decision-relay']!['post']).toMatchObject({
    security: [{ api_key: [] }],
    'x-scope': 'relay:write',
  });
  expect(paths['/health/live']!['get']!.security).toEqual([]);
});

it('tells with OPTIONS only the methods of the address itself', async () => {
  const options = (path: string) => send(service.port, 'OPTIONS', path);
  expect((await options('/v1/policies/ap/check')).headers.allow).toBe('POST, OPTIONS');
  expect((await options('/v1/policies/ap/AP_BORROW_V1')).headers.allow).toBe('GET, HEAD, OPTIONS');
});

it('documents store_full and store_busy on every write', async () => {
  interface Operation {
    responses: Record<string, { description: string; headers?: object }>;
  }
  const document = (await service.get('/openapi.json')).json as { paths: Record<string, Record<string, Operation>> };
  const operations = Object.entries(document.paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, operation]) => ({ name: `${method} ${path}`, operation })),
  );
  const named = (isNamed: (operation: Operation) => boolean) =>
    operations.filter(({ operation }) => isNamed(operation)).map(({ name }) => name);
  const writes = named(({ responses }) =>
    Object.values(responses).some(({ headers = {} }) => 'Credence-Position' in headers),
  );
  expect(writes).toContain('post /api/decision-relay');
  for (const code of ['store_full', 'store_busy']) {
    expect(named(({ responses }) => responses['503']?.description.includes(`\`${code}\``) ?? false)).toEqual(writes);
  }
});

it('documents idempotency_key_reused exactly where an Idempotency-Key is taken', async () => {
  interface Operation {
    parameters?: { name: string }[];
    responses: Record<string, { description: string }>;
  }
  const document = (await service.get('/openapi.json')).json as { paths: Record<string, Record<string, Operation>> };
  const operations = Object.entries(document.paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, operation]) => ({ name: `${method} ${path}`, operation })),
  );
  const takesKey = operations
    .filter(({ operation }) => operation.parameters?.some(({ name }) => name === 'Idempotency-Key'))
    .map(({ name }) => name);
  const documented = operations
    .filter(({ operation }) => operation.responses['422']?.description.includes('`idempotency_key_reused`'))
    .map(({ name }) => name);
  expect(takesKey).toContain('delete /v1/identities/{tris_id}/bad-status');
  expect(documented).toEqual(takesKey);
});
