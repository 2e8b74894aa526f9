import { getMetadataStorage } from 'class-validator';
import '../../src/app/app.module.js';
import { type Class, planOf } from '../../src/http/validation.js';
import { type Answer, Server } from '../e2e/server.js';

/** The OpenAPI document says what a field of a body may contain, also where its DTO names a constant. */

const KEYWORDS: Record<string, string> = {
  arrayMinSize: 'minItems',
  arrayMaxSize: 'maxItems',
  maxLength: 'maxLength',
  min: 'minimum',
  max: 'maximum',
};
interface Schema {
  properties: Record<string, Record<string, unknown>>;
  additionalProperties?: unknown;
  required?: string[];
}
interface Operation {
  requestBody?: { required: boolean };
  parameters?: { name: string; example?: string; schema: Record<string, unknown> }[];
}
interface Document {
  paths: Record<string, Record<string, Operation>>;
  components: { schemas: Record<string, Schema> };
}
const referencesOf = (node: object): string[] =>
  [...JSON.stringify(node).matchAll(/"#\/components\/schemas\/(\w+)"/g)].map(([, name]) => name!);

let server: Server;
let json: Answer['json'];
beforeAll(async () => {
  server = await Server.start();
  ({ json } = await server.send('GET', '/openapi.json'));
});
afterAll(() => server?.end());

test('every limit and every pattern that is checked is in the schema of its field', () => {
  const { schemas } = (json as Document).components;
  const { validationMetadatas } = getMetadataStorage() as unknown as { validationMetadatas: Map<Class, unknown> };
  const bodies = [...validationMetadatas.keys()].filter(({ name }) => schemas[name]);
  expect(bodies.length).toBeGreaterThan(30);
  const missing: string[] = [];
  for (const type of bodies) {
    for (const { name, checks } of planOf(type).fields) {
      const schema = schemas[type.name]!.properties[name]!;
      for (const check of checks) {
        if (check.name === 'matches') {
          const { source, flags } = check.constraints[0] as RegExp;
          const { pattern } = check.each ? (schema['items'] as { pattern?: string }) : schema;
          if (flags === '' && pattern !== source) missing.push(`${type.name}.${name}: ${source}, not ${pattern}`);
        }
        const [keyword, limit] = [KEYWORDS[check.name], check.constraints[0]];
        if (!keyword || check.each || limit === Number.MAX_SAFE_INTEGER) continue;
        const found = schema[keyword];
        if (found !== limit) missing.push(`${type.name}.${name}: ${keyword} ${limit}, not ${found}`);
      }
    }
  }
  expect(missing).toEqual([]);
});

test('a body has no members but those its schema names, and whole numbers are integers', () => {
  const { paths, components } = json as Document;
  const operations = Object.values(paths).flatMap((item) => Object.values(item));
  const bodies = new Set(operations.flatMap(({ requestBody = {} }) => referencesOf(requestBody)));
  // A set that grows while it is read is read to its end.
  for (const name of bodies) for (const other of referencesOf(components.schemas[name]!)) bodies.add(other);
  const open = [...bodies].filter((name) => {
    const { properties, additionalProperties } = components.schemas[name]!;
    return properties && additionalProperties !== false;
  });
  expect(bodies.size).toBeGreaterThan(50);
  expect(open).toEqual([]);

  const { VerificationKeyDto, ScoreResultDto, AttemptDto, TokensDto } = components.schemas;
  expect(VerificationKeyDto!.properties['nPublic']!['type']).toBe('integer');
  expect(ScoreResultDto!.properties['status']!['type']).toBe('integer');
  expect(AttemptDto!.properties['status']!['type']).toEqual(['integer', 'null']);
  expect(TokensDto!.properties['expires_in']!['type']).toBe('integer');
  const limits = operations.flatMap(({ parameters = [] }) => parameters.filter(({ name }) => name === 'limit'));
  expect(limits.length).toBeGreaterThan(10);
  expect(limits.filter(({ schema }) => schema['type'] !== 'integer')).toEqual([]);
});

test('a body may be left out where the document says so', async () => {
  const { paths, components } = json as Document;
  const wrong: string[] = [];
  for (const [path, item] of Object.entries(paths)) {
    for (const [method, { requestBody, parameters = [] }] of Object.entries(item)) {
      if (!requestBody) continue;
      const { required = [] } = components.schemas[referencesOf(requestBody)[0]!]!;
      const example = (name: string) => parameters.find((parameter) => parameter.name === name)?.example ?? 'x';
      const address = path.replace(/\{(\w+)\}/g, (_, name: string) => example(name));
      const isRefused = async () =>
        (await server.send(method.toUpperCase(), address)).json.code === 'validation_failed';
      const isNeeded = required.length > 0 || (await isRefused());
      if (requestBody.required !== isNeeded) wrong.push(`${method} ${path}`);
    }
  }
  expect(wrong).toEqual([]);
});

test('a metric has a pattern, and a list in a query an item', () => {
  const { paths, components } = json as Document;
  expect(components.schemas['SubmitRecordDto']!.properties['metric']).toHaveProperty('pattern');
  const lists = Object.values(paths).flatMap((item) =>
    Object.values(item).flatMap(({ parameters = [] }) => parameters.filter(({ schema }) => schema['type'] === 'array')),
  );
  expect(lists.map(({ name, schema }) => `${name} ${schema['minItems']}`)).toEqual([
    'metrics 1',
    'tris_ids 1',
    'statuses 1',
  ]);
});

test('every pattern means the same to all engines (JSON Schema 2020-12, section 6.4)', () => {
  // RE2, of Go and Rust, reads no look-around. In Python and .NET, \d is a digit of any script.
  const patterns = [...JSON.stringify(json).matchAll(/"pattern":("(?:[^"\\]|\\.)*")/g)].map(
    ([, pattern]) => JSON.parse(pattern!) as string,
  );
  expect(patterns.length).toBeGreaterThan(100);
  expect([...new Set(patterns)].filter((pattern) => /\(\?<?[=!]|\\d/.test(pattern))).toEqual([]);
});

test('what a field alone may be refused with is among the refusals of its routes', () => {
  const refusals = json.paths['/v1/policies/ap/check'].post.responses['400'].description;
  expect(refusals).toContain('`address_checksum`');
});
