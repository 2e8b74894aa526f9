import { jest } from '@jest/globals';
import { ConnectionError, CredenceClient, ProblemError } from '../../clients/typescript/src/client.js';

/** What the client sends again, and what it does not. The service is a list of answers. */

type Outcome = Response | Error;
const problem = (status: number, code: string, headers: Record<string, string> = {}) =>
  Response.json({ code, detail: 'why', status }, { status, headers });
const good = () => Response.json({ keys: [] });
const cut = () => new TypeError('fetch failed');

/** A client of a service that answers with these, and what it was asked. */
function clientOf(outcomes: Outcome[], retries?: number) {
  const requests: { method: string; path: string; key: string | null; body: string; at: number }[] = [];
  const fetch = async (request: Request): Promise<Response> => {
    const { pathname } = new URL(request.url);
    const [key, body] = [request.headers.get('idempotency-key'), await request.text()];
    requests.push({ method: request.method, path: pathname, key, body, at: Date.now() });
    const outcome = outcomes.shift();
    if (outcome instanceof Response) return outcome;
    throw outcome ?? new Error('asked too often');
  };
  const options = retries === undefined ? {} : { retries };
  return { client: new CredenceClient({ baseUrl: 'http://service.test/', fetch, ...options }), requests };
}

const action = {
  tris_id: 'tris:a',
  action_type: 'loan_repayment',
  category: 'financial',
  criticality: 'High',
  platform_id: 'lender',
} as const;

test.each([
  ['no answer', cut],
  ['503', () => problem(503, 'store_unavailable')],
  ['502 of a proxy', () => new Response('<html>', { status: 502 })],
  ['504 of a proxy', () => new Response(null, { status: 504 })],
  ['429', () => problem(429, 'rate_limited')],
  ['a conflict of writers', () => problem(409, 'write_conflict')],
])('a write is repeated after %s, with the same key and body', async (_, outcome) => {
  const { client, requests } = clientOf([outcome(), outcome(), good()]);
  await client.post('/api/decision-relay', { body: action });
  expect(requests).toHaveLength(3);
  expect(new Set(requests.map(({ key }) => key)).size).toBe(1);
  expect(requests[0]!.key).toMatch(/^[0-9a-f]{32}$/);
  expect(requests.map(({ body }) => JSON.parse(body))).toEqual([action, action, action]);
});

test('each write has a key of its own, unless the caller gives one', async () => {
  const { client, requests } = clientOf([good(), good(), good()]);
  await client.post('/api/decision-relay', { body: action });
  await client.post('/api/decision-relay', { body: action });
  await client.post('/api/decision-relay', { body: action, params: { header: { 'Idempotency-Key': 'pay-1' } } });
  const keys = requests.map(({ key }) => key);
  expect(keys[0]).not.toBe(keys[1]);
  expect(keys[2]).toBe('pay-1');
});

test('what ignores the key and would do something twice is repeated only if it was refused', async () => {
  const test = (client: CredenceClient) =>
    client.post('/v1/webhooks/{webhook_id}/test', { params: { path: { webhook_id: 'w' } } });
  const create = (client: CredenceClient) => client.post('/v1/ops/keys', { body: { key_id: 'k', scopes: ['ops'] } });
  for (const send of [test, create]) {
    for (const outcome of [cut(), problem(503, 'store_unavailable')]) {
      const { client, requests } = clientOf([outcome]);
      await expect(send(client)).rejects.toThrow();
      expect(requests).toHaveLength(1);
    }
    const { client, requests } = clientOf([problem(429, 'rate_limited'), good()]);
    await send(client);
    expect(requests).toHaveLength(2);
  }
});

test('a refusal is not repeated, and is an error with its code, fields and request id', async () => {
  const errors = [{ pointer: '/tris_id', code: 'tris_id', message: 'tris_id must be a TRIS id' }];
  const body = { code: 'validation_failed', detail: 'why', status: 400, request_id: 'r-1', errors };
  const { client, requests } = clientOf([Response.json(body, { status: 400 })]);
  const error = await client.post('/api/decision-relay', { body: action }).catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(ProblemError);
  expect(error).toMatchObject({ status: 400, code: 'validation_failed', detail: 'why', requestId: 'r-1', errors });
  expect((error as Error).message).toBe('validation_failed: why');
  expect(requests).toHaveLength(1);
});

test('the last failure is thrown when the repetitions are used up', async () => {
  const first = clientOf([cut(), cut()], 1);
  await expect(first.client.get('/.well-known/jwks.json')).rejects.toThrow(ConnectionError);
  expect(first.requests).toHaveLength(2);
  const second = clientOf([problem(503, 'store_busy')], 0);
  await expect(second.client.get('/.well-known/jwks.json')).rejects.toMatchObject({ code: 'store_busy' });
});

test('the error says why no answer came, also where fetch hides it', async () => {
  const refused = new TypeError('fetch failed', { cause: new Error('connect ECONNREFUSED 127.0.0.1:3000') });
  for (const failure of [refused, new Error('connect ECONNREFUSED 127.0.0.1:3000')]) {
    const { client } = clientOf([failure], 0);
    await expect(client.get('/.well-known/jwks.json')).rejects.toThrow(/no answer came: .*ECONNREFUSED/);
  }
});

test('waits as long as Retry-After says, and not at all if that is longer than a minute', async () => {
  const { client, requests } = clientOf([problem(503, 'store_busy', { 'retry-after': '1' }), good()]);
  await client.get('/.well-known/jwks.json');
  expect(requests[1]!.at - requests[0]!.at).toBeGreaterThanOrEqual(1_000);
  const late = clientOf([problem(429, 'rate_limited', { 'retry-after': '3600' })]);
  await expect(late.client.get('/.well-known/jwks.json')).rejects.toMatchObject({ retryAfter: 3_600_000 });
  expect(late.requests).toHaveLength(1);
});

test('an answer that is cut in its middle counts as none', async () => {
  const half = new ReadableStream<Uint8Array>({
    start(controller) {
      controller.enqueue(new TextEncoder().encode('{"ke'));
      controller.error(new TypeError('terminated'));
    },
  });
  const { client } = clientOf([new Response(half), good()]);
  expect((await client.get('/.well-known/jwks.json')).data).toEqual({ keys: [] });
});

test('an attempt without an answer ends after its time, and an aborted call at once, with the reason', async () => {
  const hangs = (request: Request) =>
    new Promise<Response>((_, reject) => {
      if (request.signal.aborted) reject(request.signal.reason as Error);
      request.signal.addEventListener('abort', () => reject(request.signal.reason as Error));
    });
  const baseUrl = 'http://service.test';
  const slow = new CredenceClient({ baseUrl, fetch: hangs, timeout: 20, retries: 1 });
  await expect(slow.get('/.well-known/jwks.json')).rejects.toThrow(ConnectionError);
  const slowly = (request: Request) => {
    const answer = new Promise<Response>((resolve) => setTimeout(() => resolve(good()), 20));
    return Promise.race([answer, hangs(request)]);
  };
  const patient = new CredenceClient({ baseUrl, fetch: slowly, timeout: Infinity, retries: 0 });
  await expect(patient.get('/.well-known/jwks.json')).resolves.toMatchObject({ data: { keys: [] } });
  const reason = new Error('the caller gave up');
  const [asked, waiting] = [new AbortController(), new AbortController()];
  const call = new CredenceClient({ baseUrl, fetch: hangs }).get('/.well-known/jwks.json', { signal: asked.signal });
  asked.abort(reason);
  await expect(call).rejects.toBe(reason);
  const { client } = clientOf([problem(503, 'store_busy', { 'retry-after': '60' })]);
  const wait = client.get('/.well-known/jwks.json', { signal: waiting.signal });
  setTimeout(() => waiting.abort(reason), 20);
  await expect(wait).rejects.toBe(reason);
});

test('a live stream whose service does not answer is asked for again', async () => {
  let asked = 0;
  const heartbeat = 'event: heartbeat\nid: a\ndata: {"position":"log.1"}\n\n';
  const fetch = (request: Request) =>
    new Promise<Response>((resolve, reject) => {
      request.signal.addEventListener('abort', () => reject(request.signal.reason as Error));
      if (++asked > 1) resolve(new Response(heartbeat));
    });
  for await (const { id } of new CredenceClient({ baseUrl: 'http://service.test', fetch, timeout: 20 }).live()) {
    expect(id).toBe('a');
    break;
  }
  expect(asked).toBe(2);
});

test('a live stream that is silent for 40 s is replaced', async () => {
  jest.useFakeTimers();
  try {
    const asked: (string | null)[] = [];
    const heartbeat = 'event: heartbeat\nid: a\ndata: {"position":"log.1"}\n\n';
    // Then the connection is lost, which nobody notices.
    const lost = () => new ReadableStream({ start: (body) => body.enqueue(new TextEncoder().encode(heartbeat)) });
    const fetch = async (request: Request) => {
      asked.push(request.headers.get('last-event-id'));
      return new Response(lost());
    };
    const stream = new CredenceClient({ baseUrl: 'http://service.test', fetch }).live();
    await stream.next();
    const next = stream.next();
    await jest.advanceTimersByTimeAsync(45_000);
    expect(asked).toEqual([null, 'a']);
    expect((await next).value).toMatchObject({ type: 'heartbeat' });
  } finally {
    jest.useRealTimers();
  }
});

test('a live stream is not asked for again before the service wants to be asked', async () => {
  jest.useFakeTimers();
  const chance = jest.spyOn(Math, 'random').mockReturnValue(0);
  try {
    const heartbeat = new Response('event: heartbeat\nid: a\ndata: {"position":"log.1"}\n\n');
    const { client, requests } = clientOf([problem(429, 'rate_limited', { 'retry-after': '90' }), heartbeat]);
    const first = client.live().next();
    await jest.advanceTimersByTimeAsync(89_000);
    expect(requests).toHaveLength(1);
    await jest.advanceTimersByTimeAsync(10_000);
    expect((await first).value).toMatchObject({ type: 'heartbeat' });
  } finally {
    chance.mockRestore();
    jest.useRealTimers();
  }
});

test('a refresh without an answer is repeated while the service still answers it', async () => {
  jest.useFakeTimers();
  try {
    const began = Date.now();
    const asked: number[] = [];
    const tokens = { access_token: 'a', refresh_token: 'r', expires_in: 900, token_type: 'Bearer' };
    const fetch = (request: Request) =>
      new Promise<Response>((resolve, reject) => {
        request.signal.addEventListener('abort', () => reject(request.signal.reason as Error));
        if (!request.url.endsWith('/refresh')) resolve(good());
        else if (asked.push(Date.now() - began) > 1) resolve(Response.json(tokens));
      });
    const session = { ...tokens, expires_in: 0, tris_id: null, wallet: '0x' } as never;
    const call = new CredenceClient({ baseUrl: 'http://service.test', fetch, session }).get('/.well-known/jwks.json');
    await jest.advanceTimersByTimeAsync(14_000);
    expect(asked).toHaveLength(2);
    await call;
  } finally {
    jest.useRealTimers();
  }
});

test('the lines of a result are given as a text', async () => {
  const lines = '{"tris_id":"tris:a","outcome":"granted"}\n{"tris_id":"tris:b","outcome":"denied"}\n';
  const { client } = clientOf([new Response(lines, { headers: { 'content-type': 'application/x-ndjson' } })]);
  const { data } = await client.get('/v1/jobs/{job_id}/result', { params: { path: { job_id: 'pop_1' } } });
  expect(data).toBe(lines);
});

test('positions of one log are remembered by their number, whatever order the answers come in', async () => {
  const at = (position: string) => Response.json({}, { headers: { 'credence-position': position } });
  const { client } = clientOf([at('log.9'), at('log.10'), at('log.8'), at('other.1')]);
  const seen: (string | null)[] = [];
  for (let i = 0; i < 4; i++) {
    await client.post('/api/decision-relay', { body: action });
    seen.push(client.position);
  }
  expect(seen).toEqual(['log.9', 'log.10', 'log.10', 'other.1']);
});

test('a service with another log is asked again without the position', async () => {
  const { client, requests } = clientOf([problem(400, 'position_unknown'), good()]);
  client.position = 'gone.7';
  await client.get('/.well-known/jwks.json');
  expect(requests).toHaveLength(2);
  expect(client.position).toBeNull();
});

test('an answer is given as the text that the caller asked for, and one that is no JSON otherwise is not of the service', async () => {
  const html = () => new Response('<html>', { headers: { 'content-type': 'text/html' } });
  const { client, requests } = clientOf([html(), html()]);
  const params = { path: { jti: 'a' } };
  const { data } = await client.get('/v1/access/decisions/{jti}/notice', { params, headers: { accept: 'text/html' } });
  expect(data).toBe('<html>');
  await expect(client.get('/v1/access/decisions/{jti}/notice', { params })).rejects.toMatchObject({
    name: 'ProblemError',
    status: 200,
    code: 'unknown',
  });
  expect(requests).toHaveLength(2);
});
