import fc, { type Arbitrary } from 'fast-check';
import type { OpenApiDocument, Operation } from '../e2e/openapi.js';

/**
 * Requests generated from the OpenAPI document: valid, nearly valid and hostile. An endpoint that is added to the
 * document is covered from then on, without a word here.
 */

/** JSON text that stands in a body as it is; nothing that JSON.stringify could write. */
class Raw {
  constructor(readonly text: string) {}
}
/** Takes the place of something that an earlier answer held under that name, so that requests reach what there is. */
class Seen {
  constructor(
    readonly name: string,
    readonly pick: number,
    readonly otherwise: unknown,
  ) {}
}

/** Values of earlier answers, by the name of the member that held them. */
export class Memory {
  private readonly values = new Map<string, string[]>();

  /** @param value an answer's JSON */
  learn(value: unknown, name = ''): void {
    if (Array.isArray(value)) for (const item of value) this.learn(item, name);
    else if (typeof value === 'object' && value !== null) {
      for (const [member, inner] of Object.entries(value)) this.learn(inner, member);
    } else if (typeof value === 'string' && value !== '') this.add(name, value);
  }

  add(name: string, value: string): void {
    const known = this.values.get(name) ?? [];
    if (known.includes(value)) return;
    known.push(value);
    if (known.length > 50) known.shift();
    this.values.set(name, known);
  }

  recall(name: string, pick: number): string | undefined {
    for (const alias of [name, ...(ALIASES[name] ?? [])]) {
      const known = this.values.get(alias);
      if (known) return known[pick % known.length];
    }
    return undefined;
  }
}
/** Where a field's values come from under another name. */
const ALIASES: Record<string, string[]> = {
  cursor: ['next_cursor'],
  subject_tris: ['tris_id'],
  subjects: ['tris_id'],
  tris_ids: ['tris_id'],
  tris_id: ['tris_org'],
  tris_org: ['tris_id'],
  vp: ['policy_id'],
  access_policies: ['policy_id'],
  token: ['eligibility_token'],
  as_of_position: ['position'],
  'Credence-Min-Position': ['credence-position'],
  known_at: ['recorded_at'],
};

export interface FuzzRequest {
  method: string;
  path: string;
  headers: Record<string, string>;
  body: string | undefined;
  /** false: sent without a key. */
  key: boolean;
}

/** A request whose references to earlier answers are still open. */
type Template = (memory: Memory) => FuzzRequest;

const LONE = String.fromCharCode(0xd800);
const HOSTILE_TEXT = [
  '',
  ' ',
  '\0',
  '\n',
  'null',
  '__proto__',
  'constructor',
  'toString',
  'hasOwnProperty',
  '‮abc',
  'é',
  'é',
  '💥'.repeat(40),
  LONE,
  '../../etc/passwd',
  "' OR 1=1 --",
  '${7*7}',
  '<script>alert(1)</script>',
  'a'.repeat(129),
  'a'.repeat(70_000),
  '1'.repeat(400),
  '-1',
  'NaN',
  'Infinity',
  '2026-02-30T00:00:00Z',
  '9999-12-31T23:59:59Z',
  'tris:',
  'TRIS:a',
  'http://[::1',
];
const HOSTILE_JSON = [
  'null',
  'true',
  '0',
  '-0',
  '1e400',
  '-1e400',
  '1e308',
  '5e-324',
  '9007199254740993',
  '123456789012345678901234567890',
  '0.1',
  '[]',
  '[[]]',
  '{}',
  '{"__proto__":{"level":1}}',
  '{"constructor":{"prototype":{"a":1}}}',
  '{"toString":1}',
  '{"a":1,"a":2}',
  '["\\ud800"]',
  '{"\\udc00":1}',
  '['.repeat(40) + ']'.repeat(40),
  '['.repeat(20_000) + ']'.repeat(20_000),
  '{"a":'.repeat(33) + '1' + '}'.repeat(33),
  `[${'0,'.repeat(5_000)}0]`,
];
const BROKEN_JSON = [
  '',
  ' ',
  '{',
  '}',
  '{"a"}',
  'undefined',
  'NaN',
  '{"a":1}}',
  "{'a':1}",
  '\ufeff{}',
  '{"a":\t}',
  '//',
];
const HOSTILE_PATH = [
  '',
  '%',
  '%zz',
  '%00',
  '%ff',
  '%c0%af',
  '..',
  '%2e%2e',
  '.',
  '%20',
  '*',
  'a%2fb',
  '%f0%9f%92%a5',
  '__proto__',
  'constructor',
  'x'.repeat(511),
  'x'.repeat(600),
  `tris:${'a'.repeat(124)}`,
];
const HOSTILE_QUERY = [
  'a[b]=1',
  '__proto__=1',
  'constructor=1',
  '%',
  '%zz=1',
  '=',
  '&&&',
  'limit=1&limit=2',
  'x=%00',
  'limit=%ff',
  'limit=' + '9'.repeat(400),
  'cursor=e30',
  'as_of=%00',
  '?',
  'a;b=1',
  'metrics=' + 'a,'.repeat(60),
];
const ODD_HEADERS: [string, string[]][] = [
  [
    'content-type',
    [
      'text/plain',
      'application/x-www-form-urlencoded',
      'multipart/form-data; boundary=x',
      'application/json; charset=latin1',
      'application/json; charset="UTF-8"',
      'application/problem+json',
      'json',
      '',
      'application/json; charset=',
      '/',
      'application/json, text/plain',
    ],
  ],
  ['content-encoding', ['gzip', 'br', 'identity', '', 'deflate, gzip']],
  ['accept', ['text/html', '', '*/*;q=0', 'application/xml']],
  ['idempotency-key', ['', ' ', 'x'.repeat(256), 'ü', 'a b', '__proto__', '\tx']],
  [
    'credence-min-position',
    [
      '',
      'x',
      '.',
      '.1',
      'a.b',
      'a.1.2',
      '__proto__.1',
      'log.' + '9'.repeat(30),
      'log.-1',
      'log.1e3',
      'x'.repeat(2_000),
    ],
  ],
  ['x-request-id', ['', 'a b', 'x'.repeat(500), '<script>', 'ü']],
  ['if-none-match', ['*', '""', 'W/"x"', 'x'.repeat(1_000), '"a","b"']],
  ['origin', ['null', 'https://evil.example', 'x'.repeat(300)]],
  ['x-api-key', ['', 'wrong', 'x'.repeat(3_000), '__proto__', 'ü']],
  ['authorization', ['Bearer', 'Bearer x', 'Bearer a.b.c', 'Basic eDp5', 'bearer  x', 'Bearer ' + 'x'.repeat(3_000)]],
  ['expect', ['200-ok']],
  ['range', ['bytes=0-0', 'x']],
  ['x-forwarded-for', ['1.2.3.4', 'x'.repeat(300), '::1, evil']],
  ['x-http-method-override', ['DELETE']],
  ['transfer-encoding', ['identity']],
];

/** Every operation of the document with requests of every kind; `seed` data is to be learnt by the memory before. */
export function requests(document: OpenApiDocument): Arbitrary<Template> {
  const operations = Object.entries(document.paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, operation]) =>
      operationRequest(document, path, method.toUpperCase(), operation),
    ),
  );
  const nowhere = fc
    .tuple(
      fc.constantFrom('GET', 'POST', 'PUT', 'DELETE'),
      fc.array(fc.constantFrom('v1', 'api', 'disc', ...HOSTILE_PATH), { maxLength: 4 }),
    )
    .map(([method, parts]): Template => () => ({
      method,
      path: `/${parts.join('/')}`,
      headers: {},
      body: undefined,
      key: true,
    }));
  return fc.oneof({ arbitrary: nowhere, weight: 1 }, { arbitrary: fc.oneof(...operations), weight: 60 });
}

function operationRequest(
  document: OpenApiDocument,
  path: string,
  method: string,
  operation: Operation,
): Arbitrary<Template> {
  const parameters = operation.parameters ?? [];
  const of = (place: string) => parameters.filter((parameter) => parameter.in === place);
  const valueFor = (name: string, schema: object) =>
    fc.oneof(
      { arbitrary: valueOf(document, schema, name, 0), weight: 3 },
      { arbitrary: seen(name, valueOf(document, schema, name, 0)), weight: 5 },
    );

  const pathValues = fc.tuple(
    ...of('path').map(({ name, schema }) =>
      fc.oneof(
        { arbitrary: valueFor(name, schema).map((value) => ({ value })), weight: 9 },
        { arbitrary: fc.constantFrom(...HOSTILE_PATH).map((raw) => ({ raw })), weight: 1 },
      ),
    ),
  );
  const query = fc.tuple(
    ...of('query').map(({ name, schema, required }) =>
      fc.oneof(
        { arbitrary: fc.constant(undefined), weight: required ? 1 : 12 },
        { arbitrary: valueFor(name, schema).map((value) => ({ name, value })), weight: 8 },
        {
          arbitrary: fc
            .constantFrom(...HOSTILE_TEXT.filter((text) => text.isWellFormed() && text.length < 1_000))
            .map((value) => ({ name, value })),
          weight: 1,
        },
      ),
    ),
    fc.oneof(
      { arbitrary: fc.constant(undefined), weight: 19 },
      { arbitrary: fc.constantFrom(...HOSTILE_QUERY).map((raw) => ({ raw })), weight: 1 },
    ),
  );
  const headers = fc.tuple(
    ...of('header').map(({ name, schema }) =>
      fc.oneof(
        { arbitrary: fc.constant(undefined), weight: 3 },
        { arbitrary: valueFor(name, schema).map((value) => ({ name, value })), weight: 1 },
      ),
    ),
    fc.oneof(
      { arbitrary: fc.constant(undefined), weight: 14 },
      {
        arbitrary: fc.constantFrom(
          ...ODD_HEADERS.flatMap(([name, values]) => values.map((value) => ({ name, value }))),
        ),
        weight: 1,
      },
    ),
  );
  const schema = operation.requestBody?.content['application/json']?.schema;
  const body = schema
    ? bodyOf(document, schema)
    : fc.oneof(
        { arbitrary: fc.constant(undefined), weight: 9 },
        { arbitrary: fc.constantFrom('{}', '[]', '{"a":1}', 'null', '{'), weight: 1 },
      );
  const verb = fc.oneof(
    { arbitrary: fc.constant(method), weight: 40 },
    { arbitrary: fc.constantFrom('GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'HEAD', 'OPTIONS', 'PROPFIND'), weight: 1 },
  );
  const key = fc.oneof({ arbitrary: fc.constant(true), weight: 20 }, { arbitrary: fc.constant(false), weight: 1 });

  return fc
    .tuple(pathValues, query, headers, body, verb, key)
    .map(([inPath, inQuery, inHeaders, text, verb, key]): Template => (memory) => ({
      method: verb,
      path: addressOf(path, inPath, inQuery, memory),
      headers: Object.fromEntries(
        inHeaders.flatMap((header) =>
          header ? [[header.name.toLowerCase(), sendable(plain(header.value, memory))]] : [],
        ),
      ),
      body: text === undefined || typeof text === 'string' ? text : written(text, memory),
      key,
    }));
}

type PathPart = { value: unknown } | { raw: string };
type QueryPart = { name: string; value: unknown } | { raw: string } | undefined;

function addressOf(path: string, inPath: readonly PathPart[], inQuery: readonly QueryPart[], memory: Memory): string {
  const encoded = (value: unknown) => encodeURIComponent(plain(value, memory).toWellFormed());
  let n = 0;
  const address = path.replace(/\{[^}]+\}/g, () => {
    const part = inPath[n++]!;
    return 'raw' in part ? part.raw : encoded(part.value);
  });
  const parts = inQuery.flatMap((part) =>
    part === undefined ? [] : 'raw' in part ? [part.raw] : [`${part.name}=${encoded(part.value)}`],
  );
  return `${address}${parts.length > 0 ? `?${parts.join('&')}` : ''}`;
}

/** A value as it stands in an address or a header. */
function plain(value: unknown, memory: Memory): string {
  const resolved = value instanceof Seen ? (memory.recall(value.name, value.pick) ?? value.otherwise) : value;
  if (resolved instanceof Seen) return plain(resolved, memory);
  if (Array.isArray(resolved)) return resolved.map((item) => plain(item, memory)).join(',');
  return typeof resolved === 'string' ? resolved : written(resolved, memory);
}

/** What a client's HTTP library would not send is not sent: the edge's own tests write to the socket. */
function sendable(text: string): string {
  return text.replace(/[^\t -~\u0080-\u00ff]/g, '?');
}

/** Mostly an object that fits the schema, often with one thing wrong, sometimes no JSON at all. */
function bodyOf(document: OpenApiDocument, schema: object): Arbitrary<unknown> {
  const valid = valueOf(document, schema, '', 0);
  const wrong = fc.oneof(
    fc.constantFrom(...HOSTILE_JSON).map((text) => new Raw(text)),
    fc.constantFrom(...HOSTILE_TEXT),
    fc.constantFrom('wrap', 'delete', 'add', 'rename', 'twice'),
  );
  const nearly = fc
    .tuple(valid, fc.nat(), wrong, fc.constantFrom(...HOSTILE_TEXT))
    .map(([value, at, change, text]) => spoil(value, at, change, text));
  return fc.oneof(
    { arbitrary: valid, weight: 10 },
    { arbitrary: nearly, weight: 10 },
    { arbitrary: fc.constantFrom(...HOSTILE_JSON, ...BROKEN_JSON), weight: 1 },
    { arbitrary: fc.constant(undefined), weight: 1 },
  );
}

/** Changes one place of a value, found by walking down it. */
function spoil(value: unknown, at: number, change: unknown, text: string): unknown {
  if (Array.isArray(value) && value.length > 0 && at % 7 !== 0) {
    const i = at % value.length;
    return value.map((item, n) => (n === i ? spoil(item, Math.floor(at / 7), change, text) : item));
  }
  if (isPlain(value) && at % 7 !== 0) {
    const names = Object.keys(value);
    if (names.length === 0) return { [text]: 1 };
    const name = names[at % names.length]!;
    const inner = value[name];
    const { [name]: _left, ...rest } = value;
    if (change === 'delete') return rest;
    if (change === 'add') return { ...value, [text]: inner };
    if (change === 'rename') return { ...rest, [name.toUpperCase()]: inner };
    if (change === 'twice') return { ...value, [`${name}\u0000twice`]: inner };
    return { ...value, [name]: spoil(inner, Math.floor(at / 7), change, text) };
  }
  return change === 'wrap' || (typeof change === 'string' && ['delete', 'add', 'rename', 'twice'].includes(change))
    ? [value]
    : change;
}

const isPlain = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' &&
  value !== null &&
  !Array.isArray(value) &&
  !(value instanceof Raw) &&
  !(value instanceof Seen);

const seen = (name: string, otherwise: Arbitrary<unknown>): Arbitrary<unknown> =>
  fc.tuple(fc.nat(1_000), otherwise).map(([pick, value]) => new Seen(name, pick, value));

/** JSON text of a value with raw and remembered parts; a name that ends in `twice` repeats the one before it. */
function written(value: unknown, memory: Memory): string {
  if (value instanceof Raw) return value.text;
  if (value instanceof Seen) return written(memory.recall(value.name, value.pick) ?? value.otherwise, memory);
  if (Array.isArray(value)) return `[${value.map((item) => written(item, memory)).join(',')}]`;
  if (isPlain(value)) {
    const members = Object.entries(value).map(
      ([name, member]) => `${JSON.stringify(name.replace('\u0000twice', ''))}:${written(member, memory)}`,
    );
    return `{${members.join(',')}}`;
  }
  return JSON.stringify(value) ?? 'null';
}

interface Schema {
  $ref?: string;
  type?: string | string[];
  enum?: unknown[];
  properties?: Record<string, Schema>;
  required?: string[];
  additionalProperties?: boolean | Schema;
  items?: Schema;
  anyOf?: Schema[];
  oneOf?: Schema[];
  allOf?: Schema[];
  pattern?: string;
  format?: string;
  example?: unknown;
  minLength?: number;
  maxLength?: number;
  minItems?: number;
  maxItems?: number;
  minimum?: number;
  maximum?: number;
}

/** Values that fit a schema. */
function valueOf(document: OpenApiDocument, schema: Schema, name: string, depth: number): Arbitrary<unknown> {
  if (schema.$ref !== undefined) {
    // The only schema that contains itself.
    if (schema.$ref.endsWith('/AccessRule')) return rules(3);
    return valueOf(document, document.components.schemas[schema.$ref.split('/').at(-1)!] as Schema, name, depth);
  }
  const options = schema.anyOf ?? schema.oneOf;
  if (options) return fc.oneof(...options.map((option) => valueOf(document, option, name, depth)));
  if (schema.allOf)
    return valueOf(document, Object.assign({}, schema, { allOf: undefined }, ...schema.allOf) as Schema, name, depth);
  if (schema.enum) return fc.constantFrom(...schema.enum);
  const types = [schema.type ?? (schema.properties ? 'object' : 'any')].flat();
  return fc.oneof(...types.map((type) => ofType(document, type, schema, name, depth)));
}

function ofType(
  document: OpenApiDocument,
  type: string,
  schema: Schema,
  name: string,
  depth: number,
): Arbitrary<unknown> {
  switch (type) {
    case 'null':
      return fc.constant(null);
    case 'boolean':
      return fc.boolean();
    case 'integer':
      return fc.integer({ min: schema.minimum ?? 0, max: schema.maximum ?? 1_000_000 });
    case 'number': {
      const bounds = { min: schema.minimum ?? -1, max: schema.maximum ?? 1_000 };
      return fc.oneof(
        fc.integer({ min: Math.ceil(bounds.min), max: Math.floor(bounds.max) }),
        fc.double({ ...bounds, noNaN: true }),
        fc.constantFrom(0.01, 0.03, 0.07, 0.1, 0.14, 1),
      );
    }
    case 'string':
      return textOf(schema, name);
    case 'array': {
      const item = valueOf(document, schema.items ?? {}, name, depth + 1);
      const maxLength = Math.min(schema.maxItems ?? 6, 6);
      const minLength = Math.min(schema.minItems ?? 0, maxLength);
      return fc.array(fc.oneof(item, seen(name, item)), { minLength, maxLength });
    }
    case 'object':
      return objectOf(document, schema, depth);
    default:
      return depth > 3 ? fc.constant(1) : fc.oneof(fc.jsonValue({ maxDepth: 2 }), rules(3));
  }
}

function objectOf(document: OpenApiDocument, schema: Schema, depth: number): Arbitrary<unknown> {
  const entries = Object.entries(schema.properties ?? {});
  if (entries.length === 0) {
    const values =
      typeof schema.additionalProperties === 'object'
        ? valueOf(document, schema.additionalProperties, '', depth + 1)
        : undefined;
    return values
      ? fc.dictionary(fc.constantFrom('finance', 'security', 'social', 'x', '__proto__'), values, { maxKeys: 3 })
      : rules(3);
  }
  const members = entries.map(([name, member]) => {
    const value = valueOf(document, member, name, depth + 1);
    const isText = [member.type].flat().includes('string') && !member.enum;
    const mixed = isText ? fc.oneof(value, seen(name, value)) : value;
    return schema.required?.includes(name)
      ? mixed.map((value) => ({ name, value }))
      : fc.option(
          mixed.map((value) => ({ name, value })),
          { nil: undefined },
        );
  });
  return fc
    .tuple(...members)
    .map((all) => Object.fromEntries(all.flatMap((member) => (member ? [[member.name, member.value]] : []))));
}

function textOf(schema: Schema, name: string): Arbitrary<string> {
  if (schema.format === 'date-time') {
    return fc.oneof(
      fc
        .date({ min: new Date('2015-01-01'), max: new Date('2027-01-01'), noInvalidDate: true })
        .map((date) => date.toISOString()),
      fc.constant('2020-02-29T23:30:00.5+01:00'),
    );
  }
  if (schema.format === 'uuid') return fc.uuid();
  if (schema.format === 'uri') return fc.webUrl();
  const named = WORDS[name];
  const words = named ? [fc.constantFrom(...named)] : [];
  if (typeof schema.example === 'string') words.push(fc.constant(schema.example));
  if (schema.pattern === undefined)
    return fc.oneof(
      ...words,
      fc.string({ minLength: schema.minLength ?? 0, maxLength: Math.min(schema.maxLength ?? 20, 40) }),
    );
  const exact = new RegExp(schema.pattern);
  // Look-arounds are no part of what can be generated; what they exclude is filtered out.
  const generated = fc
    .stringMatching(new RegExp(schema.pattern.replace(/\(\?<?[=!][^)]*\)/g, '')), { size: 'small' })
    .filter((text) => exact.test(text));
  return fc.oneof(...words, generated);
}

/** Words that mean something where the schema only says text. */
const WORDS: Record<string, string[]> = {
  criticality: ['Minimal', 'Low', 'Moderate', 'High', 'Critical', 'hIgH'],
  metric: ['finance_loan', 'financial_txn_consistency', 'compliance_moderation_flags', 'social_vouch'],
  metrics: ['finance', 'security', 'compliance', 'social_vouch', 'governance', 'unknown_thing'],
  policy_id: ['VP_A_V1', 'VP_B_V2', 'AP_A_V1', 'AP_B_V1'],
  vp: ['VP_A_V1', 'VP_B_V2'],
  visibility: ['public'],
  version: ['v1.0', 'v2.13'],
  reason_code: ['spam', 'lost_for_good'],
  chain_id: ['1', '137'],
  address: ['0x52908400098527886E0F7030069857D2E4169EE7', '0xde709f2102306220921060314715629080e2fb77'],
  wallet: ['0x52908400098527886E0F7030069857D2E4169EE7', '0xde709f2102306220921060314715629080e2fb77'],
};

/** Access rules, well-formed and not, of some depth. */
function rules(depth: number): Arbitrary<unknown> {
  const leaf = fc.oneof(
    fc.record({ disc_min: fc.integer({ min: -1, max: 101 }) }),
    fc.record({
      metrics: fc.dictionary(
        fc.constantFrom('finance', 'security', 'other'),
        fc.double({ min: 0, max: 1, noNaN: true }),
        { maxKeys: 2 },
      ),
    }),
    fc.record({
      verification: fc.array(fc.constantFrom('zk-KYH', 'BAD Status validation', 'zk-KYC (ID only)', 'x'), {
        maxLength: 3,
      }),
    }),
    fc.record({ tct_min: fc.nat() }, { requiredKeys: [] }),
    fc.constantFrom({ rating_min: 'Good' }, { reliability_min: 0.5 }, {}, { rating_min: 'constructor' }),
  );
  if (depth === 0) return leaf;
  const inner = rules(depth - 1);
  return fc.oneof(
    leaf,
    fc.record({ all: fc.array(inner, { maxLength: 3 }) }),
    fc.record({ any: fc.array(inner, { maxLength: 3 }) }),
    fc.record({ not: inner }),
    fc.record({ at_least: fc.integer({ min: 0, max: 4 }), of: fc.array(inner, { maxLength: 3 }) }),
  );
}
