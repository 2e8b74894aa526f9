import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { SCOPES } from '../../src/credentials/caller.js';
import { sha256Hex } from '../../src/kernel/hash.js';
import { send } from '../http/client.js';
import { type Service, startService } from '../policies/service.fixture.js';
import { bearer, claim, newAccount } from '../sessions/wallet.js';

/** Every route of the OpenAPI document with every kind of credential: what it does not name is refused. */

const nameOf = (scope: string) => `only-${scope.replace(':', '-')}`;
const keyOf = (id: string, scopes: readonly string[], organization?: string) => ({
  id,
  sha256: sha256Hex(id),
  scopes,
  ...(organization && { organization }),
});

interface Operation {
  method: string;
  path: string;
  security: Record<string, string[]>[];
  'x-scope'?: string;
}
interface Credential {
  name: string;
  headers: Record<string, string>;
  /** Scopes of a key; null: not a key. */
  scopes: readonly string[] | null;
}

let service: Service;
let folder: string;
let credentials: Credential[];
let operations: Operation[];
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'credence-matrix-'));
  const keys = [
    ...SCOPES.map((scope) => keyOf(nameOf(scope), [scope])),
    ...['a', 'b'].map((tenant) => keyOf(`tenant-${tenant}`, SCOPES, `tris:${tenant}`)),
  ];
  writeFileSync(join(folder, 'keys.json'), JSON.stringify(keys));
  service = await startService({ CREDENCE_API_KEYS: join(folder, 'keys.json') });
  const session = await claim(service, newAccount());
  credentials = [
    { name: 'nothing', headers: {}, scopes: null },
    { name: 'a session', headers: bearer(session), scopes: null },
    ...SCOPES.map((scope) => ({ name: nameOf(scope), headers: { 'x-api-key': nameOf(scope) }, scopes: [scope] })),
    // `ops` has no effect on a key that is bound to an organization.
    ...['a', 'b'].map((tenant) => ({
      name: `tenant-${tenant}`,
      headers: { 'x-api-key': `tenant-${tenant}` },
      scopes: SCOPES.filter((scope) => scope !== 'ops'),
    })),
  ];
  const { paths } = (await service.get('/openapi.json')).json as { paths: Record<string, Record<string, Operation>> };
  operations = Object.entries(paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, operation]) => ({ ...operation, method: method.toUpperCase(), path })),
  );
});
afterAll(async () => {
  await service.close();
  rmSync(folder, { recursive: true, force: true });
});

const request = (method: string, path: string, headers: Record<string, string>) =>
  send(service.port, method, path.replace(/\{[^}]+\}/g, 'tris:nobody'), {
    headers: { ...headers, ...(method === 'POST' && { 'content-type': 'application/json' }) },
    body: method === 'POST' ? '{}' : undefined,
  });

function isAllowed({ security, 'x-scope': scope }: Operation, { name, scopes }: Credential): boolean {
  if (security.length === 0) return true;
  return security.some((way) => {
    if (Object.keys(way).length === 0) return true;
    if (way['session']) return name === 'a session';
    return scopes !== null && (scope === undefined || scopes.includes(scope));
  });
}

test('each is refused unless the route names it, before anything is recorded', async () => {
  const head = await service.stores.eventStore.head();
  expect(operations.length).toBeGreaterThan(60);
  const wrong: string[] = [];
  let refused = 0;
  for (const operation of operations) {
    const { method, path } = operation;
    for (const credential of credentials) {
      if (isAllowed(operation, credential)) continue;
      refused++;
      const { status, json } = await request(method, path, credential.headers);
      const expected = credential.name === 'nothing' ? '401 unauthorized' : '403 forbidden';
      const actual = `${status} ${json?.code}`;
      if (actual !== expected) wrong.push(`${method} ${path} with ${credential.name}: ${actual}`);
    }
  }
  expect(wrong).toEqual([]);
  expect(refused).toBeGreaterThan(300);
  expect(await service.stores.eventStore.head()).toBe(head);
});

test('each that the route names is not refused for what it is', async () => {
  const wrong: string[] = [];
  for (const operation of operations) {
    const { method, path } = operation;
    for (const credential of credentials) {
      if (!isAllowed(operation, credential)) continue;
      const { status, json } = await request(method, path, credential.headers);
      if (status === 401) wrong.push(`${method} ${path} with ${credential.name}: ${json?.code}`);
    }
  }
  expect(wrong).toEqual([]);
});

test.each([
  ['a key that is not known', { 'x-api-key': 'guessed' }, 'unauthorized'],
  ['a token that is none', { authorization: 'Bearer made.up.token' }, 'token_malformed'],
])('%s is refused by every route, also by public ones', async (_what, headers, code) => {
  const wrong: string[] = [];
  for (const { method, path } of operations) {
    const { status, json } = await request(method, path, headers as Record<string, string>);
    if (status !== 401 || json?.code !== code) wrong.push(`${method} ${path}: ${status} ${json?.code}`);
  }
  expect(wrong).toEqual([]);
});
