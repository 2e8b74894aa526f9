import { type RequestListener, type Server, createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { JsonRpc, type RpcFailure } from '../../src/features/accounts/json-rpc.js';

/** Requests to a node that answers as each test says. */

let server: Server;
let answer: RequestListener;
let url: string;

beforeAll(async () => {
  server = createServer((request, response) => answer(request, response));
  // On a busy machine it would close a connection after five seconds, just as the next request takes it.
  server.keepAliveTimeout = 0;
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(() => {
  server.closeAllConnections();
  server.close();
});

const request = (at = url) => new JsonRpc(at).request('eth_chainId', []);
const failure = (at = url) =>
  request(at).then(
    () => undefined,
    ({ name, reason, message, code, status }: RpcFailure) => ({ name, reason, message, code, status }),
  );
const answers =
  (body: string, status = 200): RequestListener =>
  (_, response) =>
    void response.writeHead(status, { 'content-type': 'application/json' }).end(body);

test('returns the result', async () => {
  answer = answers('{"jsonrpc":"2.0","id":1,"result":"0x1"}');
  expect(await request()).toBe('0x1');
  answer = answers('{"jsonrpc":"2.0","id":1,"result":null}');
  expect(await request()).toBeNull();
});

test('sends the user name and the password of the URL as Basic authentication', async () => {
  let authorization: string | undefined;
  answer = (received, response) => {
    ({ authorization } = received.headers);
    response.end('{"result":"0x1"}');
  };
  await request(url.replace('//', '//user:p%40ss@'));
  expect(authorization).toBe(`Basic ${Buffer.from('user:p@ss').toString('base64')}`);
});

test.each([
  [
    'a JSON-RPC error',
    '{"error":{"code":-32005,"message":"limit exceeded"}}',
    400,
    'refused',
    'limit exceeded',
    -32005,
  ],
  ['an error without a message', '{"error":{}}', 200, 'refused', 'without a message', undefined],
  ['an HTTP status', 'busy', 503, 'failed', 'HTTP status 503', undefined],
  ['no JSON', '<html>', 200, 'failed', 'the answer is not valid JSON-RPC', undefined],
  ['no result', '{"id":1}', 200, 'failed', 'the answer is not valid JSON-RPC', undefined],
  ['a list', '[]', 200, 'failed', 'the answer is not valid JSON-RPC', undefined],
  [
    'a million levels',
    `{"id":${'['.repeat(1e6)}${']'.repeat(1e6)}}`,
    200,
    'failed',
    'the answer is not valid',
    undefined,
  ],
])('fails on %s', async (_what, body, status, reason, message, code) => {
  answer = answers(body, status);
  const failed = await failure();
  expect(failed).toMatchObject({ name: 'RpcFailure', reason, code });
  expect(failed!.message).toContain(message);
});

test('does not follow a redirect', async () => {
  const visited: (string | undefined)[] = [];
  answer = (received, response) => {
    visited.push(received.url);
    response.writeHead(307, { location: '/internal' }).end();
  };
  expect(await failure()).toMatchObject({ reason: 'failed', message: expect.stringContaining('redirect') });
  expect(visited).toEqual(['/']);
});

test('stops reading an answer that is too large, and ends the connection', async () => {
  const part = Buffer.alloc(1024 * 1024, ' ');
  let sent = 0;
  const closed = new Promise<void>((resolve) => {
    answer = (_, response) => {
      response.once('close', resolve);
      const send = () => {
        while (!response.destroyed) {
          sent += part.length;
          if (!response.write(part)) return void response.once('drain', send);
        }
      };
      send();
    };
  });
  expect(await failure()).toMatchObject({ reason: 'size' });
  await closed;
  expect(sent).toBeLessThan(64 * 1024 * 1024);
});

test('names no URL in what it throws', async () => {
  const failed = await failure('http://user:secret@127.0.0.1:9/key');
  expect(failed).toMatchObject({ reason: 'failed' });
  expect(failed!.message).not.toMatch(/secret|key|127/);
});
