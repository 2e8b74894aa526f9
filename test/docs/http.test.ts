import { readdirSync } from 'node:fs';
import { SCOPES } from '../../src/credentials/caller.js';
import { PROBLEMS } from '../../src/kernel/problems.js';
import { Server } from '../e2e/server.js';
import { codes, read, section, tableRows } from './markdown.js';

/** docs/http.md lists every code, every scope and every route, and none that is not there. */

const DOCUMENT = read('docs/http.md');
const rows = (heading: string) => tableRows(section(DOCUMENT, heading));

test('every error code with its status, and when it is given, as the page at /docs/problems says it', () => {
  const withoutLinks = (text: string) => text.replace(/\[([^\]]*)\]\([^)]*\)/g, '$1');
  const listed = rows('Errors').map(([code, status, when]) => [codes(code!)[0], Number(status), withoutLinks(when!)]);
  expect(listed).toEqual(Object.entries(PROBLEMS).map(([code, [status, , when]]) => [code, status, when]));
});

test('every scope', () => {
  expect(rows('Credentials and scopes').map(([scope]) => codes(scope!)[0])).toEqual([...SCOPES]);
});

interface Operation {
  parameters?: { name: string }[];
  responses: Record<string, { headers?: Record<string, unknown> }>;
  security: { api_key?: string[]; session?: string[] }[];
  'x-scope'?: string;
}

let operations: [address: string, Operation][];
beforeAll(async () => {
  const server = await Server.start();
  const { json } = await server.send('GET', '/openapi.json').finally(() => server.end());
  const { paths } = json as { paths: Record<string, Record<string, Operation>> };
  operations = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]): [string, Operation] => [
      `${method.toUpperCase()} ${path.replace(/\{(\w+)\}/g, ':$1')}`,
      operation,
    ]),
  );
});

test('every route of the OpenAPI document, with its scope', () => {
  const served = operations.map(([address, { security, 'x-scope': scope = 'any' }]) => {
    if (security.length === 0 || security.some((way) => Object.keys(way).length === 0)) return `${address} public`;
    const ways = security.map((way) => ('session' in way ? 'session' : scope));
    return `${address} ${ways.join(', ')}`;
  });
  const listed = rows('Endpoints').map(([address, scope]) => `${codes(address!)[0]} ${scope!.replaceAll('`', '')}`);
  expect(listed.sort()).toEqual(served.sort());
});

test('every address that a document names is served', () => {
  const others = codes(section(DOCUMENT, 'Endpoints')).filter((code) => code.startsWith('GET '));
  const patterns = [...operations.map(([address]) => address), ...others].map(
    (address) => new RegExp(`^${address.replace(/\[.*$/, '').replaceAll(/:\w+|<\w+>/g, '[^/]+')}$`),
  );
  const documents = readdirSync('docs').filter((file) => file.endsWith('.md'));
  const named = ['README.md', 'clients/typescript/README.md', ...documents.map((file) => `docs/${file}`)].flatMap(
    (file) => codes(read(file)).flatMap((code) => /^(?:GET|POST|PATCH|DELETE) \/[^ ?[]*/.exec(code) ?? []),
  );
  expect(named.length).toBeGreaterThan(200);
  expect(named.filter((address) => !patterns.some((pattern) => pattern.test(address)))).toEqual([]);
});

test('every write that ignores the Idempotency-Key', () => {
  const isWrite = ({ responses }: Operation) =>
    Object.values(responses).some(({ headers }) => headers && 'Credence-Position' in headers);
  const ignoring = operations.filter(
    ([, operation]) => isWrite(operation) && !operation.parameters?.some(({ name }) => name === 'Idempotency-Key'),
  );
  const listed = codes(section(DOCUMENT, 'Idempotency')).filter((code) => /^(POST|DELETE) /.test(code));
  expect(listed.sort()).toEqual(ignoring.map(([address]) => address).sort());
});
