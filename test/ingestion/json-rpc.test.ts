import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { JsonRpc, NoBatches, RpcFailure } from '../../src/features/accounts/json-rpc.js';

/** Batches of JSON-RPC 2.0, section 6, and how endpoints refuse them. */

const REQUESTS = [
  { method: 'eth_getLogs', params: [] },
  { method: 'eth_getBlockByNumber', params: [] },
];
const result = (id: number, value: unknown) => ({ jsonrpc: '2.0', id, result: value });
const refused = (id: number | null, code: number, message: string) => ({
  jsonrpc: '2.0',
  id,
  error: { code, message },
});

async function batchOf(status: number, answer: unknown): Promise<unknown[]> {
  const server = createServer((request, response) => {
    request.resume();
    response.writeHead(status, { 'content-type': 'application/json' });
    response.end(typeof answer === 'string' ? answer : JSON.stringify(answer));
  });
  await new Promise<void>((ready) => server.listen(0, '127.0.0.1', ready));
  try {
    return await new JsonRpc(`http://127.0.0.1:${(server.address() as AddressInfo).port}`).batch(REQUESTS);
  } finally {
    server.close();
    server.closeAllConnections();
  }
}

test('the results of a batch are in the order of its requests, whatever the order of the answers', async () => {
  expect(await batchOf(200, [result(1, 'b'), result(0, 'a')])).toEqual(['a', 'b']);
});

test('a request of a batch that is refused, or has no answer, leaves the others as they are', async () => {
  const [first, second] = await batchOf(200, [refused(0, -32005, 'limit exceeded')]);
  expect(first).toMatchObject({ reason: 'refused', code: -32005, message: 'limit exceeded' });
  expect(second).toBeInstanceOf(RpcFailure);
});

test.each<[string, number, unknown]>([
  ['as a malformed request', 200, refused(null, -32600, 'Invalid Request')],
  ['in words', 200, refused(null, -32000, 'Batch requests are not supported')],
  [
    'in the answer to one of its requests',
    200,
    [refused(0, -32005, 'method eth_getLogs in batch triggered rate limit')],
  ],
  ['with 400 and a text', 400, 'Bad Request'],
  ['by answering one request', 200, result(0, 'a')],
])('a batch may be refused %s', async (_how, status, answer) => {
  await expect(batchOf(status, answer)).rejects.toThrow(NoBatches);
});

test.each<[string, number, unknown, RegExp]>([
  ['a rate limit', 429, 'slow down', /429/],
  ['a wrong key', 401, 'no', /401/],
  ['a server that is down', 500, 'oops', /500/],
  ['a rate limit in JSON', 200, refused(null, -32005, 'request rate limited'), /rate limited/],
])('%s is not about batches', async (_what, status, answer, message) => {
  await expect(batchOf(status, answer)).rejects.toThrow(message);
});
