import { Controller, Get, Headers, Param, UseGuards } from '@nestjs/common';
import { createApp } from '../../src/app/application.js';
import { CreateAccessPolicyDto } from '../../src/features/access/ap.dto.js';
import { RelayActionDto } from '../../src/features/relay/relay.dto.js';
import { CreatePolicyDto } from '../../src/features/validation-policies/vp.dto.js';
import { TrisIdParams } from '../../src/http/common.dto.js';
import { PublicRead } from '../../src/http/routes.js';
import { type Class, readBody } from '../../src/http/validation.js';
import { Cursors } from '../../src/kernel/cursor.js';
import { Logger } from '../../src/kernel/logger.js';
import { serve, type Served } from './app.fixture.js';
import { type Answer, send, sendRaw } from './client.js';

/** What every request meets before a handler, with the hostile ones among them. */
let served: Served;
const get = (path: string, headers: Record<string, string> = {}) => send(served.port, 'GET', path, { headers });
const post = (body: string | Buffer, headers: Record<string, string> = {}, path = '/v1/things') =>
  send(served.port, 'POST', path, {
    body,
    headers: { 'x-api-key': served.key, 'content-type': 'application/json', ...headers },
  });

function expectProblem(answer: Answer, status: number, code: string): void {
  expect({ status: answer.status, code: answer.json?.code }).toEqual({ status, code });
  expect(answer.headers['content-type']).toBe('application/problem+json');
  expect(answer.json).toMatchObject({ type: `/docs/problems#${code}`, status, title: expect.any(String) });
  expect(answer.json.detail).toEqual(expect.any(String));
  expect(answer.json.request_id).toBe(answer.headers['x-request-id']);
  expect(answer.text).not.toMatch(/\bat .*\.(?:ts|js):\d+|node_modules/);
}
const pointers = (answer: Answer) => answer.json.errors?.map(({ pointer, code }: any) => [pointer, code]);

@Controller()
class Guarded {
  @Get('v1/odd')
  @PublicRead({ summary: 'Behind a guard of Nest' })
  @UseGuards({ canActivate: () => false })
  get(): void {}
}

@Controller()
class Decorated {
  @Get('v1/odd')
  @PublicRead({ summary: 'With a parameter decorator of Nest' })
  get(@Headers() _headers: object): void {}
}

@Controller()
class Piped {
  @Get('v1/odd/:tris_id')
  @PublicRead({ summary: 'With a pipe of Nest' })
  get(@Param({ transform: () => 1 }) _params: TrisIdParams): void {}
}

beforeAll(async () => void (served = await serve()));
afterAll(() => served.close());

const good = { tris_id: 'tris@alice', action_type: 'repayment' };
const withJson = (text: string) => `{"tris_id":"tris@alice","action_type":"repayment",${text}}`;

describe('bodies', () => {
  const depth = (levels: number) => withJson(`"rules":{"a":${'['.repeat(levels)}${']'.repeat(levels)}}`);
  const bad = (text: string) =>
    Buffer.concat([Buffer.from('{"tris_id":"'), Buffer.from(text, 'latin1'), Buffer.from('"}')]);
  // prettier-ignore
  const cases: [string, string | Buffer, string, unknown?, RegExp?][] = [
    ['truncated JSON', '{"tris_id":"tris@a"', 'malformed_json', undefined, /ends too early|line 1, column/],
    ['a trailing comma', '{"tris_id":"tris@a",\n }', 'malformed_json', undefined, /line 2, column 2/],
    ['two values', '{} {}', 'malformed_json', undefined, /line 1, column 4/],
    ['NaN', withJson('"count":NaN'), 'malformed_json', undefined, /unexpected text in "[^ ]*:NaN\}"/],
    ['a byte order mark', '\ufeff{}', 'malformed_json', undefined, /byte order mark/],
    ['an invalid UTF-8 byte', bad('\xff'), 'malformed_json', undefined, /UTF-8/],
    ['a surrogate encoded in UTF-8', bad('\xed\xa0\x80'), 'malformed_json', undefined, /UTF-8/],
    ['an overlong encoding', bad('\xc0\xaf'), 'malformed_json', undefined, /UTF-8/],
    ['a name twice', withJson('"tris_id":"tris@bob"'), 'malformed_json', undefined, /"tris_id" occurs twice/],
    ['a name twice in escapes', withJson('"tris\\u005fid":"x"'), 'malformed_json', undefined, /"tris_id" occurs twice/],
    ['a name twice deep inside', withJson('"rules":{"a":[{"b":1,":":2,"b":3}]}'), 'malformed_json', undefined, /"b" occurs twice/],
    ['__proto__', withJson('"__proto__":{"count":3}'), 'validation_failed', [['/__proto__', 'unknown_field']]],
    ['__proto__ twice', withJson('"__proto__":1,"__proto__":2'), 'validation_failed', [['/__proto__', 'unknown_field']]],
    ['constructor in free rules', withJson('"rules":{"a":{"constructor":1}}'), 'validation_failed', [['/rules/a/constructor', 'unknown_field']]],
    ['prototype in an array', withJson('"rules":{"a":[{"prototype":1}]}'), 'validation_failed', [['/rules/a/0/prototype', 'unknown_field']]],
    ['an infinite number', withJson('"count":1e400'), 'validation_failed', [['/count', 'unsafe_number']], /^\/count: .* the range of a double/],
    ['an integer no double holds', withJson('"rules":{"a~/b":9007199254740993}'), 'validation_failed', [['/rules/a~0~1b', 'unsafe_number']]],
    ['a negative zero', withJson('"count":-0'), 'validation_failed', [['/count', 'unsafe_number']]],
    ['a lone surrogate', withJson('"rules":{"a":"\\ud800"}'), 'validation_failed', [['/rules/a', 'ill_formed_text']]],
    ['a lone surrogate in a name', withJson('"rules":{"\\udc00":1}'), 'validation_failed', [['/rules/\ufffd', 'ill_formed_text']]],
    ['a name without an end', `{"${'~'.repeat(1_000)}":[-0,-0]}`, 'validation_failed', [0, 1].map((i) => [`/${'~0'.repeat(60)}…/${i}`, 'unsafe_number'])],
    ['an unknown name without an end', withJson(`"${'~'.repeat(1_000)}":0`), 'validation_failed', [[`/${'~0'.repeat(60)}…`, 'unknown_field']]],
    ['too many members', withJson(`"rules":{${Array.from({ length: 900 }, (_, n) => `"${n}":[0,0,0,0,0]`).join()}}`), 'validation_failed', [['', 'too_many_values']], /at most 5000 values/],
    ['too many members of one object', withJson(`"rules":{"a":0,"b":{${Array.from({ length: 1_001 }, (_, n) => `"${n}":{}`).join()}}}`), 'validation_failed', [['', 'too_many_values']], /an object in a body may have at most 1000 members$/],
    ['too many items', withJson(`"rules":{"a":[${'[],'.repeat(2_500)}0]}`), 'validation_failed', [['', 'too_many_values']]],
    ['too many levels', depth(40), 'validation_failed', [[`/rules/a${'/0'.repeat(30)}`, 'too_deep']]],
    ['an array', '[]', 'validation_failed', [['', 'is_object']]],
    ['null', 'null', 'validation_failed', [['', 'is_object']]],
    ['a string', '"x"', 'validation_failed', [['', 'is_object']]],
    ['nothing', '', 'validation_failed', [['', 'required']]],
    ['an empty object', '{}', 'validation_failed', [['/tris_id', 'required'], ['/action_type', 'required']]],
    ['an unknown field', withJson('"tct":1000'), 'validation_failed', [['/tct', 'unknown_field']], /known are tris_id, action_type, /],
    ['null for an optional field', withJson('"count":null'), 'validation_failed', [['/count', 'is_int']]],
    ['a number as text', withJson('"count":"5"'), 'validation_failed', [['/count', 'is_int']], /count must be an integer; received "5"/],
    ['a fraction', withJson('"count":1.5'), 'validation_failed', [['/count', 'is_int']]],
    ['a number out of range', withJson('"count":11'), 'validation_failed', [['/count', 'max']], /count must be at most 10; received 11$/],
    ['an array for a string', '{"tris_id":["tris@a"],"action_type":"a"}', 'validation_failed', [['/tris_id', 'tris_id']]],
    ['an object for a string', '{"tris_id":{"toString":1},"action_type":"a"}', 'validation_failed', [['/tris_id', 'tris_id']]],
    ['an object for an array', withJson('"inputs":{"0":{}}'), 'validation_failed', [['/inputs', 'is_array']]],
    ['a wrong item', withJson('"inputs":[{"metric":"m","criticality":"Low"},7]'), 'validation_failed', [['/inputs/1', 'is_object']]],
    ['nested errors of several kinds', withJson('"inputs":[{"metric":"","criticality":"x","y":1}]'), 'validation_failed',
      [['/inputs/0/metric', 'platform_id'], ['/inputs/0/criticality', 'unknown_criticality'], ['/inputs/0/y', 'unknown_field']]],
    ['errors of one special kind', withJson('"inputs":[{"metric":"m","criticality":"x"},{"metric":"m","criticality":5}]'), 'unknown_criticality',
      [['/inputs/0/criticality', 'unknown_criticality'], ['/inputs/1/criticality', 'unknown_criticality']]],
    ['an impossible date', withJson('"occurred_at":"2026-02-30T00:00:00Z"'), 'validation_failed', [['/occurred_at', 'timestamp']]],
  ];
  test.each(cases)('%s is refused', async (...[, body, code, errors, detail = /./]) => {
    const answer = await post(body);
    expectProblem(answer, 400, code);
    expect(pointers(answer)).toEqual(errors);
    expect(answer.json.detail).toMatch(detail);
  });

  test('a missing field is refused with the form that it must have', () => {
    const refused = () => readBody(RelayActionDto, {});
    expect(refused).toThrow(/^\/tris_id: tris_id is missing: tris_id must be a TRIS id: it starts with /);
    for (const policy of [CreatePolicyDto, CreateAccessPolicyDto] as Class[]) {
      expect(() => readBody(policy, {})).toThrow(/^\/policy_id: policy_id is missing: policy_id must have the form /);
    }
  });

  test('a valid one arrives unchanged, with colons, quotes and escapes in its strings', async () => {
    const body = {
      ...good,
      rules: { 'a:b"\\': 'x:"\\"{', ':': [':', { '"': 'é😀' }], n: [1.5, 1e21 / 10 ** 20] },
      count: 3,
    };
    const answer = await post(JSON.stringify(body));
    expect(answer.status).toBe(202);
    expect(answer.json).toMatchObject(body);
  });

  test('32 levels are accepted', async () => expect((await post(depth(30))).status).toBe(202));

  test('a body over 1 MiB is refused and the connection goes on', async () => {
    expectProblem(await post(Buffer.alloc(5 * 1024 * 1024, 0x20)), 413, 'payload_too_large');
    expectProblem(await post('x'.repeat(2 ** 21), { 'transfer-encoding': 'chunked' }), 413, 'payload_too_large');
    const answer = await fetch(`${served.url}/v1/things`, {
      method: 'POST',
      body: 'x'.repeat(5 * 1024 * 1024),
      headers: { 'x-api-key': served.key, 'content-type': 'application/json' },
    });
    expect(answer.status).toBe(413);
  });

  test.each([
    ['text/plain'],
    ['application/x-www-form-urlencoded'],
    ['multipart/form-data; boundary=x'],
    ['application/json; charset=utf-16'],
    ['application/jsonx'],
    ['application/merge-patch+json'],
    [', application/json'],
  ])('content type %s is refused', async (type) =>
    expectProblem(await post('{}', { 'content-type': type }), 415, 'unsupported_media_type'),
  );

  test('a body without a content type is refused', async () => {
    const answer = await send(served.port, 'POST', '/v1/things', { body: '{}', headers: { 'x-api-key': served.key } });
    expectProblem(answer, 415, 'unsupported_media_type');
  });

  test('a compressed body is refused', async () =>
    expectProblem(await post('{}', { 'content-encoding': 'gzip' }), 415, 'unsupported_media_type'));
  // RFC 9110, 8.4.1: the names of codings have no case.
  test.each(['identity', 'Identity'])('a body with Content-Encoding: %s is read', async (encoding) =>
    expect((await post(JSON.stringify(good), { 'content-encoding': encoding })).status).toBe(202),
  );

  test.each(['application/json; charset=utf-8', 'application/json;charset="UTF-8"', 'APPLICATION/JSON'])(
    'content type %s is accepted',
    async (type) => expect((await post(JSON.stringify(good), { 'content-type': type })).status).toBe(202),
  );

  test('a route without a body accepts no body or {}, and nothing else', async () => {
    const path = '/v1/things/tris@alice/vet';
    expect((await send(served.port, 'POST', path, { headers: { 'x-api-key': served.key } })).status).toBe(201);
    expect((await post('', {}, path)).status).toBe(201);
    expect((await post('{}', {}, path)).status).toBe(201);
    expect(pointers(await post('{"a":1}', {}, path))).toEqual([['/a', 'unknown_field']]);
    expectProblem(await post('[1]', {}, path), 400, 'validation_failed');
  });
});

describe('paths', () => {
  const badIds = [
    '%00',
    'tris@a%00',
    'tris@a%2fb',
    'alice',
    'TRIS@a',
    'tris@',
    'tris@%20',
    'tris@é'.replace('é', '%C3%A9'),
  ];
  test.each([...badIds, `tris@${'a'.repeat(124)}`, '..%2f..', 'tris@a%252f'])('the id %s is refused', async (id) => {
    const answer = await get(`/v1/things/${id}`);
    expectProblem(answer, 400, 'validation_failed');
    expect(pointers(answer)).toEqual([['tris_id', 'tris_id']]);
  });

  test.each([
    ['tris@alice', 'tris@alice'],
    ['tris%40alice', 'tris@alice'],
    ['did:web:x.example', 'did:web:x.example'],
    [[...`tris:${'z'.repeat(123)}`].map((c) => `%${c.charCodeAt(0).toString(16)}`).join(''), `tris:${'z'.repeat(123)}`],
  ])('the id %s is accepted', async (path, id) => {
    expect((await get(`/v1/things/${path}`)).json).toMatchObject({ tris_id: id });
  });

  test.each(['%zz', '%', '%ff', '%ed%a0%80', '%c0%ae'])('the escape %s is refused', async (id) =>
    expectProblem(await get(`/v1/things/tris@${id}`), 400, 'validation_failed'),
  );

  test('a parameter that is far too long is refused', async () =>
    expectProblem(await get(`/v1/things/${'a'.repeat(600)}`), 414, 'uri_too_long'));

  test.each([
    '/v1',
    '/v1/things/',
    '/v1/things/tris@a/',
    '//v1/things',
    '/V1/things',
    '/v1/things/../keyed',
    '/favicon.ico',
  ])('%s is not found', async (path) => expectProblem(await get(path), 404, 'not_found'));

  test('an unknown address is not found whatever is sent to it', async () => {
    expectProblem(await post('{"broken', {}, '/v1/nothing'), 404, 'not_found');
  });

  test.each([
    ['PUT', '/v1/things', 'GET, HEAD, POST, OPTIONS'],
    ['PATCH', '/v1/things/tris@a', 'GET, HEAD, DELETE, OPTIONS'],
    ['GET', '/v1/things/tris@a/vet', 'POST, OPTIONS'],
    ['TRACE', '/v1/keyed', 'GET, HEAD, OPTIONS'],
  ])('%s %s is not allowed and Allow says what is', async (method, path, allow) => {
    const answer = await send(served.port, method, path);
    expectProblem(answer, 405, 'method_not_allowed');
    expect(answer.headers.allow).toBe(allow);
  });

  test('CONNECT is not allowed, and the connection ends', async () => {
    const raw = await sendRaw(served.port, 'CONNECT elsewhere.example:443 HTTP/1.1\r\nhost: elsewhere.example\r\n\r\n');
    const [head, body] = raw.split('\r\n\r\n') as [string, string];
    expect(head).toMatch(/^HTTP\/1\.1 405 /);
    expect(head.toLowerCase().split('\r\n')).toEqual(expect.arrayContaining(['allow: ', 'connection: close']));
    expect(JSON.parse(body)).toMatchObject({ status: 405, code: 'method_not_allowed' });
  });

  test('the absolute form of a target names the same address', async () => {
    const raw = async (method: string, path: string, headers = '', body = '') => {
      const head = `${method} http://proxied.example${path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n`;
      const type = `content-type: application/json\r\ncontent-length: ${body.length}\r\n`;
      return sendRaw(served.port, `${head}${type}${headers}\r\n${body}`);
    };
    const body = JSON.stringify(good);
    const { json } = await post(body, { 'idempotency-key': 'proxied' });
    const headers = `x-api-key: ${served.key}\r\nidempotency-key: proxied\r\n`;
    expect(await raw('POST', '/v1/things', headers, body)).toContain(`"key":"${json.key}"`);
    expect(await raw('PUT', '/v1/things/tris@a')).toMatch(/^HTTP\/1\.1 405 [\s\S]*allow: GET/i);
    expect(await raw('GET', '')).toMatch(/^HTTP\/1\.1 302 /);
    expect(await raw('GET', '?x=1')).toMatch(/^HTTP\/1\.1 302 /);
  });

  test('OPTIONS returns the methods, and the CORS headers for a browser', async () => {
    const plain = await send(served.port, 'OPTIONS', '/v1/things');
    expect([plain.status, plain.headers.allow, plain.text]).toEqual([204, 'GET, HEAD, POST, OPTIONS', '']);
    const headers = { origin: 'https://dapp.example', 'access-control-request-method': 'POST' };
    const preflight = await send(served.port, 'OPTIONS', '/v1/things', { headers });
    expect(preflight.headers).toMatchObject({
      'access-control-allow-origin': '*',
      'access-control-allow-methods': 'GET, HEAD, POST, OPTIONS',
      'access-control-allow-headers': expect.stringMatching(/traceparent, tracestate, X-API-Key/i),
    });
  });

  test('HEAD answers as GET without a body', async () => {
    const [head, body] = [await send(served.port, 'HEAD', '/v1/things/tris@a'), await get('/v1/things/tris@a')];
    expect([head.status, head.text]).toEqual([200, '']);
    expect(head.headers['content-length']).toBe(body.headers['content-length']);
    expect(head.headers.etag).toBe(body.headers.etag);
  });
});

describe('query parameters', () => {
  test.each([
    ['?limit=0', '?limit', 'min'],
    ['?limit=1001', '?limit', 'max'],
    ['?limit=1e2', '?limit', 'is_int'],
    ['?limit=0x10', '?limit', 'is_int'],
    ['?limit=', '?limit', 'is_int'],
    ['?limit=%2010', '?limit', 'is_int'],
    ['?limit=5&limit=6', '?limit', 'repeated'],
    ['?cursor=', '?cursor', 'is_length'],
    ['?order=asc', '?order', 'unknown_parameter'],
    ['?__proto__=1', '?__proto__', 'unknown_parameter'],
    ['?constructor=1', '?constructor', 'unknown_parameter'],
    ['?metrics=a,B,c', '?metrics', 'action_type'],
    ['?metrics=', '?metrics', 'action_type'],
    ['?cursor=%zz', '', 'encoding'],
    ['?cursor=%ff', '', 'encoding'],
  ])('%s is refused', async (query, pointer, code) => {
    const answer = await get(`/v1/things${query}`);
    expectProblem(answer, 400, 'validation_failed');
    expect(pointers(answer)).toEqual([[pointer, code]]);
  });

  test('they arrive with their types and defaults', async () => {
    expect((await get('/v1/things')).json).toEqual({ limit: 100 });
    const cursor = served.app.get(Cursors).seal('a+b', '/v1/things');
    expect((await get(`/v1/things?limit=7&cursor=${encodeURIComponent(cursor)}&metrics=a,b_c`)).json).toEqual({
      limit: 7,
      cursor: 'a+b',
      metrics: ['a', 'b_c'],
    });
  });

  test('a list may be one parameter or several', async () =>
    expect((await get('/v1/things?metrics=a,b&metrics=c')).json.metrics).toEqual(['a', 'b', 'c']));

  test('a route without any refuses every one', async () =>
    expect((await get('/v1/things/tris@a?x=1')).json).toMatchObject({
      detail: '?x: "x" is unknown; this address has no query parameters',
      errors: [{ pointer: '?x', code: 'unknown_parameter' }],
    }));
});

describe('headers', () => {
  test('every answer has a request id and is marked against sniffing', async () => {
    for (const path of ['/v1/things/tris@a', '/v1/nothing', '/v1/things/%zz', '/v1/crash']) {
      expect((await get(path)).headers).toMatchObject({
        'x-content-type-options': 'nosniff',
        'x-request-id': expect.any(String),
      });
    }
  });

  test('a harmless X-Request-Id is kept, any other replaced', async () => {
    expect((await get('/v1/things', { 'x-request-id': 'order-1:a.b_c' })).headers['x-request-id']).toBe(
      'order-1:a.b_c',
    );
    for (const id of ['a b', 'é', '<x>', 'a'.repeat(129), '']) {
      expect((await get('/v1/things', { 'x-request-id': id })).headers['x-request-id']).toMatch(/^[0-9a-f-]{36}$/);
    }
    const answer = await post(JSON.stringify(good), { 'x-request-id': 'mine' });
    expect(answer.json.id).toBe('mine');
  });

  test.each([[''], [' '], ['a'.repeat(256)], ['clé'], ['a\tb']])('the Idempotency-Key %j is refused', async (key) => {
    const answer = await post(JSON.stringify(good), { 'idempotency-key': key });
    expectProblem(answer, 400, 'validation_failed');
    expect(pointers(answer)).toEqual([['Idempotency-Key', 'idempotency_key']]);
  });

  test('an Idempotency-Key reaches the handler as a hash', async () => {
    const key = async (value?: string) =>
      (await post(JSON.stringify(good), value === undefined ? {} : { 'idempotency-key': value })).json.key;
    const hash = await key('order 1/"2"');
    expect(hash).toMatch(/^[0-9a-f]{64}$/);
    expect([await key('"order 1/\\"2\\""'), await key('""')]).toEqual([hash, undefined]);
    expect([await key('order 1/"2"'), (await key('order 1/"3"')) === hash, await key()]).toEqual([hash, false, null]);
  });

  test('too many headers are refused as a problem', async () => {
    const raw = await sendRaw(served.port, `GET /v1/things HTTP/1.1\r\nhost: x\r\nx-a: ${'a'.repeat(20_000)}\r\n\r\n`);
    expect(raw).toMatch(/^HTTP\/1\.1 431 [\s\S]*application\/problem\+json[\s\S]*"code":"headers_too_large"/);
  });

  test.each([
    ['no HTTP at all', 'hello\r\n\r\n'],
    ['an unknown method', 'FROB / HTTP/1.1\r\nhost: x\r\n\r\n'],
    ['a space in the path', 'GET /v1/ things HTTP/1.1\r\nhost: x\r\n\r\n'],
    ['two content lengths', 'POST /v1/things HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab'],
    [
      'both framings',
      'POST /v1/things HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n',
    ],
    ['no Host', 'GET /v1/things HTTP/1.1\r\n\r\n'],
  ])('%s is refused as a problem or closed', async (_name, bytes) => {
    const raw = await sendRaw(served.port, bytes);
    expect(raw).toMatch(/^HTTP\/1\.1 400 /);
  });

  test.each([
    ['no method that HTTP knows', 'FROB', 'host: x'],
    ['a length that cannot be known', 'GET', 'host: x\r\ntransfer-encoding: identity'],
    ['a coding before chunked', 'GET', 'host: x\r\ntransfer-encoding: gzip, chunked'],
    ['a length that cannot be known, for HEAD', 'HEAD', 'host: x\r\ntransfer-encoding: identity'],
    ['a header without a name, for HEAD', 'HEAD', 'host: x\r\n: y'],
  ])('%s: is answered once, then the connection ends', async (_name, method, headers) => {
    const raw = await sendRaw(served.port, `${method} /v1/things HTTP/1.1\r\n${headers}\r\n\r\n`);
    const [head, body, ...more] = raw.split('\r\n\r\n');
    expect([raw.match(/HTTP\/1\.1 /g)?.length, more.length]).toEqual([1, 0]);
    expect(head).toMatch(/^HTTP\/1\.1 400 [\s\S]*connection: close/i);
    if (method === 'HEAD') expect(body).toBe('');
    else expect(body).toMatch(/^\{.*"code":"malformed_request".*\}$/);
  });
});

describe('answers', () => {
  test('a write carries the position of its event', async () => {
    const answer = await post(JSON.stringify(good));
    expect([answer.status, answer.headers['credence-position'], answer.headers['cache-control']]).toEqual([
      202,
      'log.7',
      'no-store',
    ]);
    const none = await post('', {}, '/v1/things/tris@a/vet');
    expect([none.status, none.headers['credence-position']]).toEqual([201, undefined]);
  });

  test('no cache may keep an answer that has no version', async () => {
    const kept = async (path: string, headers: Record<string, string> = {}) =>
      (await get(path, headers)).headers['cache-control'];
    const key = { 'x-api-key': served.key };
    const paths = ['/v1/keyed', '/v1/things', '/v1/decorated', '/health/live', '/metrics'];
    expect(await Promise.all(paths.map((path) => kept(path, key)))).toEqual(paths.map(() => 'no-store'));
    expect(await kept('/v1/things/tris@a')).toBe('no-cache');
  });

  test('what a shared cache may keep can be read by web pages, whoever asked first', async () => {
    const { headers } = await get('/.well-known/jwks.json');
    expect(headers).toMatchObject({ 'cache-control': 'public, max-age=60', 'access-control-allow-origin': '*' });
  });

  test('an answer that the client already has is not sent again', async () => {
    const { headers } = await get('/v1/things/tris@a');
    const etag = headers.etag as string;
    expect(etag).toMatch(/^W\/"[^"]+"$/);
    for (const known of [etag, '*', `"x", ${etag}`, etag.slice(2)]) {
      const again = await get('/v1/things/tris@a', { 'if-none-match': known });
      expect([again.status, again.text, again.headers.etag]).toEqual([304, '', etag]);
    }
    expect((await get('/v1/things/tris@b', { 'if-none-match': etag })).status).toBe(200);
  });

  test.each([
    ['log.3', 200, undefined],
    ['log.7', 503, 'projection_behind'],
    ['log.11', 400, 'position_unknown'],
    ['other.3', 400, 'position_unknown'],
    ['log.03', 400, 'position_unknown'],
    ['log.-1', 400, 'position_unknown'],
    ['log.1e0', 400, 'position_unknown'],
    ['3', 400, 'position_unknown'],
    ['', 400, 'position_unknown'],
  ])('Credence-Min-Position %j gives %i', async (position, status, code) => {
    const answer = await get('/v1/things/tris@a', { 'credence-min-position': position });
    if (code) expectProblem(answer, status, code);
    else expect(answer.status).toBe(status);
    if (status === 503) expect(answer.headers['retry-after']).toBe('1');
  });

  test.each([Guarded, Decorated, Piped])(
    'the boot fails for a route that needs the pipeline of Nest: %p',
    async (odd) => {
      const booting = createApp({ module: class {}, controllers: [odd] }, served.config, new Logger('error'));
      await expect(booting).rejects.toThrow(`${odd.name}.get needs Nest’s request pipeline`);
    },
  );

  test('a bug returns 500 without details, which are in the log under the same id', async () => {
    const answer = await get('/v1/crash');
    expectProblem(answer, 500, 'internal_error');
    expect(answer.text).not.toContain('secret detail');
    const record = served.logs.find((log) => log.request_id === answer.json.request_id && log.level === 'error');
    expect(record).toMatchObject({ msg: 'Internal error', error: { message: 'secret detail' } });
  });

  test('an unavailable store returns 503 with Retry-After', async () => {
    const answer = await get('/v1/away');
    expectProblem(answer, 503, 'store_unavailable');
    expect(answer.headers['retry-after']).toBe('1');
    expect(answer.text).not.toContain('node-3');
  });
});
