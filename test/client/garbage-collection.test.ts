import { once } from 'node:events';
import { type IncomingMessage, type ServerResponse, createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setImmediate } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { CredenceClient } from '../../clients/typescript/src/client.js';

/** Requests of Node's own fetch that end although the garbage collector has run since they were sent. */

const server = createServer();
let baseUrl: string;
beforeAll(async () => {
  await once(server.listen(0, '127.0.0.1'), 'listening');
  baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(() => void server.close().closeAllConnections());
afterEach(() => void server.removeAllListeners('request'));

const request = async () => (await once(server, 'request')) as [IncomingMessage, ServerResponse];

async function collect(): Promise<void> {
  setFlagsFromString('--expose-gc');
  const gc = runInNewContext('gc') as () => void;
  // What a weak reference was asked for is kept until the end of its turn of the event loop.
  await setImmediate();
  gc();
}

const HEARTBEAT = 'event: heartbeat\nid: a\ndata: {"position":"log.1"}\n\n';
const reason = new Error('the caller gave up');

test.each([
  ['before its head', ''],
  ['within its body', '{"keys"'],
])('a call whose answer stops %s ends with its signal', async (_, sent) => {
  const stop = new AbortController();
  const asked = request();
  const call = new CredenceClient({ baseUrl }).get('/.well-known/jwks.json', { signal: stop.signal });
  const ended = expect(call).rejects.toBe(reason);
  const [, answer] = await asked;
  if (sent !== '') answer.writeHead(200, { 'content-type': 'application/json' }).write(sent);
  await collect();
  stop.abort(reason);
  await ended;
});

test('a live stream ends with its signal, and so does its connection', async () => {
  const stop = new AbortController();
  const asked = request();
  const stream = new CredenceClient({ baseUrl }).live({ signal: stop.signal });
  const first = stream.next();
  const [{ socket }, answer] = await asked;
  const closed = once(socket, 'close');
  answer.writeHead(200, { 'content-type': 'text/event-stream' }).write(HEARTBEAT);
  expect((await first).value).toMatchObject({ type: 'heartbeat' });
  const next = expect(stream.next()).rejects.toBe(reason);
  await collect();
  stop.abort(reason);
  await next;
  await closed;
});
