import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import { request } from 'node:http';
import { type Service, relay, seen, startService } from '../policies/service.fixture.js';

/** Answers are compressed for clients that accept it, where it saves something. */

let service: Service;
let headers: Record<string, string>;
beforeAll(async () => {
  service = await startService();
  const action = { tris_id: 'tris:alice', category: 'financial', action_type: 'repayment', criticality: 'low' };
  await relay(
    service,
    Array.from({ length: 60 }, () => action),
  );
  headers = { 'x-api-key': service.key, ...(await seen(service)) };
});
afterAll(() => service.close());

const HISTORY = '/v1/disc/score/tris:alice/history?limit=10';
/** So long that it is serialised item by item. */
const LONG = '/v1/disc/score/tris:alice/history?limit=100';

interface Bytes {
  status: number;
  headers: Record<string, string | string[] | undefined>;
  body: Buffer;
}
function get(path: string, accepted?: string, more: Record<string, string> = {}, method = 'GET'): Promise<Bytes> {
  const all = { ...headers, ...(accepted !== undefined && { 'accept-encoding': accepted }), ...more };
  return new Promise((resolve, reject) => {
    const outgoing = request({ port: service.port, host: '127.0.0.1', path, method, headers: all, agent: false });
    outgoing.once('error', reject).once('response', (incoming) => {
      const chunks: Buffer[] = [];
      const answered = () =>
        resolve({ status: incoming.statusCode!, headers: incoming.headers, body: Buffer.concat(chunks) });
      incoming.on('data', (chunk: Buffer) => {
        chunks.push(chunk);
        if (incoming.headers['content-type']?.startsWith('text/event-stream')) {
          answered();
          outgoing.destroy();
        }
      });
      incoming.once('end', answered);
    });
    outgoing.end();
  });
}

test.each<[accepted: string | undefined, encoding: string | undefined]>([
  [undefined, undefined],
  ['identity', undefined],
  ['deflate', undefined],
  ['gzip;q=0, br;q=0', undefined],
  ['gzip', 'gzip'],
  ['br', 'br'],
  ['gzip, deflate, br', 'br'],
  ['gzip;q=1, br;q=0.5', 'gzip'],
  ['*', 'br'],
])('a client that accepts %s gets %s', async (accepted, encoding) => {
  for (const path of [HISTORY, LONG]) await compare(path, accepted, encoding);
});

async function compare(path: string, accepted: string | undefined, encoding: string | undefined): Promise<void> {
  const plain = await get(path);
  expect(plain.body.toString()).toBe(JSON.stringify(JSON.parse(plain.body.toString())));
  const answer = await get(path, accepted);
  const of = (name: string) => answer.headers[name];
  expect([answer.status, of('content-encoding'), of('vary')]).toEqual([200, encoding, 'accept-encoding']);
  expect(of('content-length')).toBe(String(answer.body.length));
  const unpack = { gzip: gunzipSync, br: brotliDecompressSync }[encoding ?? ''];
  const text = (unpack ? unpack(answer.body) : answer.body).toString();
  expect(text).toBe(plain.body.toString());
  expect(of('etag')).toBe(plain.headers['etag']);
  if (encoding) expect(answer.body.length).toBeLessThan(plain.body.length / 2);
}

test.each(['/openapi.json', '/docs/problems'])('%s is compressed, too', async (path) => {
  const plain = await get(path);
  expect([plain.headers['content-encoding'], plain.headers['vary']]).toEqual([undefined, 'accept-encoding']);
  for (const [accepted, unpack] of [
    ['gzip', gunzipSync],
    ['br', brotliDecompressSync],
    ['br', brotliDecompressSync],
  ] as const) {
    const answer = await get(path, accepted);
    expect([answer.status, answer.headers['content-encoding']]).toEqual([200, accepted]);
    expect(answer.headers['content-type']).toBe(plain.headers['content-type']);
    expect(unpack(answer.body).equals(plain.body)).toBe(true);
  }
});

test('a version that was sent compressed is known by its ETag, whatever is accepted now', async () => {
  const { headers: known } = await get(HISTORY, 'br');
  for (const accepted of ['br', 'gzip', undefined]) {
    const again = await get(HISTORY, accepted, { 'if-none-match': String(known['etag']) });
    expect([again.status, again.body.length, again.headers['content-encoding']]).toEqual([304, 0, undefined]);
    expect(again.headers['vary']).toBe('accept-encoding');
  }
});

test('a short answer is sent as it is', async () => {
  const answer = await get('/api/disc-score/tris:alice', 'br, gzip');
  expect([answer.status, answer.headers['content-encoding'], answer.headers['vary']]).toEqual([
    200,
    undefined,
    undefined,
  ]);
});

test('HEAD says what GET would send', async () => {
  const [whole, head] = [await get(HISTORY, 'gzip'), await get(HISTORY, 'gzip', {}, 'HEAD')];
  expect([head.status, head.body.length]).toEqual([200, 0]);
  for (const name of ['content-encoding', 'content-length', 'etag'])
    expect(head.headers[name]).toBe(whole.headers[name]);
});

test('a stream of events is not compressed', async () => {
  const answer = await get('/v1/disc/changes/stream', 'br, gzip');
  expect([answer.status, answer.headers['content-encoding']]).toEqual([200, undefined]);
  expect(answer.body.toString()).toMatch(/^event: heartbeat/m);
});
