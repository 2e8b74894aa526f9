import { type IncomingMessage, request } from 'node:http';
import { connect } from 'node:net';
import { AppModule } from '../../src/app/app.module.js';
import { createApp } from '../../src/app/application.js';
import { Logger } from '../../src/kernel/logger.js';
import { rebuild, swap } from '../../src/read-side/generations.js';
import { type Answer, send } from '../http/client.js';
import { type Account, type Tokens, bearer, call, newAccount, signIn, start } from '../sessions/wallet.js';
import { eventually } from '../contracts/harness.js';
import { type Service, startService } from '../policies/service.fixture.js';

/** The stream of changes over HTTP, in a whole service. */

const PATH = '/v1/disc/changes/stream';
let service: Service;
beforeAll(async () => void (service = await startService()));
afterAll(() => service.close());

class Stream {
  readonly ended: Promise<void>;
  text = '';
  private wake: () => void = () => undefined;

  constructor(readonly incoming: IncomingMessage) {
    incoming.setEncoding('utf8').on('data', (chunk: string) => {
      this.text += chunk;
      this.wake();
    });
    this.ended = new Promise((resolve) => incoming.once('close', resolve));
  }

  static open(query = '', headers: Record<string, string> = {}, port = service.port): Promise<Stream> {
    return new Promise((resolve, reject) => {
      const all = { ...(!headers['authorization'] && { 'x-api-key': service.key }), ...headers };
      const outgoing = request({ port, host: '127.0.0.1', path: `${PATH}${query}`, headers: all, agent: false });
      outgoing.once('response', (incoming) => resolve(new Stream(incoming))).once('error', reject);
      outgoing.end();
    });
  }

  get events(): { event: string; id: string; data: any }[] {
    const blocks = this.text.split('\n\n').slice(0, -1);
    return blocks.flatMap((block) => {
      const fields = Object.fromEntries(block.split('\n').map((line) => line.split(/: (.*)/s).slice(0, 2)));
      return fields.event ? [{ ...fields, data: JSON.parse(fields.data) }] : [];
    });
  }
  get changes() {
    return this.events.filter(({ event }) => event === 'change').map(({ data }) => [data.tris_id, data.total_tct]);
  }
  get lastId(): string {
    return this.events.at(-1)!.id;
  }
  async until(is: () => boolean): Promise<void> {
    const timer = setTimeout(() => this.incoming.destroy(new Error(`it never came: ${this.text}`)), 60_000);
    const failed = new Promise<never>((_, reject) => this.incoming.once('error', reject));
    while (!is()) await Promise.race([failed, new Promise<void>((resolve) => (this.wake = resolve))]);
    clearTimeout(timer);
    failed.catch(() => undefined);
  }
  close(): void {
    this.incoming.destroy();
  }
}

const action = (tris_id: string, more = {}) => ({
  tris_id,
  action_type: 'loan',
  category: 'financial',
  criticality: 'high',
  platform_id: 'lender',
  ...more,
});
const relay = (tris_id: string, more = {}): Promise<Answer> =>
  service.post('/api/decision-relay', action(tris_id, more));

test('relayed actions arrive as events, of some identities where they are named', async () => {
  const [all, some] = [await Stream.open(), await Stream.open('?tris_ids=tris:b,tris:c')];
  expect(all.incoming.statusCode).toBe(200);
  expect(all.incoming.headers).toMatchObject({
    'content-type': 'text/event-stream; charset=utf-8',
    'cache-control': 'no-store',
    'x-request-id': expect.any(String),
  });
  for (const name of ['tris:a', 'tris:b', 'tris:c']) await relay(name);
  await all.until(() => all.changes.length === 3);
  await some.until(() => some.changes.length === 2);
  expect(all.changes.map(([name]) => name)).toEqual(['tris:a', 'tris:b', 'tris:c']);
  expect(some.changes.map(([name]) => name)).toEqual(['tris:b', 'tris:c']);
  const { data } = some.events.at(-1)!;
  const { json } = await service.get('/v1/disc/score/tris:c');
  const { score, score_rating, total_tct } = json;
  const listed = (await service.get('/v1/disc/changes', { 'x-api-key': service.key })).json.changes.at(-1);
  expect(data).toEqual({ tris_id: 'tris:c', score, score_rating, total_tct, position: listed.position });
  // Those of other tests may have been closed just now.
  await eventually(async () =>
    /^credence_streams 2$/m.test((await service.get('/metrics', { 'x-api-key': service.key })).text),
  );
  for (const stream of [all, some]) stream.close();
});

test('ids are cursors of the feed, and the other way round; others are refused', async () => {
  const key = { 'x-api-key': service.key };
  const earlier = await Stream.open();
  await relay('tris:first');
  await earlier.until(() => earlier.changes.length === 1);
  earlier.close();
  const { next_cursor } = (await service.get('/v1/disc/changes', key)).json;
  const stream = await Stream.open(`?cursor=${next_cursor}`);
  await relay('tris:second');
  await stream.until(() => stream.changes.length === 1);
  expect(stream.changes[0]![0]).toBe('tris:second');
  const page = await service.get(`/v1/disc/changes?cursor=${stream.lastId}`, key);
  expect([page.status, page.json.changes]).toEqual([200, []]);
  stream.close();
  for (const [query, headers] of [
    ['?cursor=forged', {}],
    ['', { 'last-event-id': `${next_cursor}x` }],
    ['?tris_ids=bob', {}],
    ['?limit=3', {}],
  ] as const) {
    const answer = await send(service.port, 'GET', `${PATH}${query}`, { headers: { ...key, ...headers } });
    expect([answer.status, answer.json.code]).toEqual([400, 'validation_failed']);
  }
  const { json } = await send(service.port, 'GET', PATH, { headers: { ...key, 'last-event-id': 'forged' } });
  expect(json.errors).toMatchObject([{ pointer: 'Last-Event-ID', code: 'unknown_cursor' }]);
  expect(json.detail).toMatch(/^Last-Event-ID must be the id of an event of this stream/);
  expect((await service.get(PATH)).status).toBe(401);
  const head = await send(service.port, 'HEAD', PATH, { headers: key });
  expect([head.status, head.text]).toEqual([200, '']);
});

test.each<[how: string, end: (at: Service, signer: Account, tokens: Tokens) => Promise<Answer>]>([
  ['it signs out', (at, _, { refresh_token }) => call(at, '/v1/tris/token/revoke', { refresh_token })],
  [
    'its wallet ends all sessions',
    async (at, signer) => {
      const { message } = await start(at, signer.address, { purpose: 'end_sessions' });
      return call(at, '/v1/tris/sessions/end', { message, signature: await signer.signMessage({ message }) });
    },
  ],
])('a stream of a session ends when %s, and is not opened again', async (_how, end) => {
  // Sessions see the feed where everyone does.
  const open = await startService({ CREDENCE_PUBLIC_READS: 'all' });
  try {
    const signer = newAccount();
    const tokens: Tokens = (await signIn(open, signer)).json;
    const others = [bearer((await signIn(open, newAccount())).json), { 'x-api-key': open.key }];
    const [stream, ...going] = await Promise.all(
      [bearer(tokens), ...others].map((headers) => Stream.open('', headers, open.port)),
    );
    expect(stream!.incoming.statusCode).toBe(200);
    expect((await end(open, signer, tokens)).status).toBe(200);
    await stream!.ended;
    expect(stream!.text).toMatch(/: the session of this stream has ended\n\n$/);
    const again = await send(open.port, 'GET', PATH, { headers: bearer(tokens) });
    expect([again.status, again.json.code]).toEqual([401, 'session_revoked']);
    await open.post('/api/decision-relay', action('tris:after'));
    for (const other of going) {
      await other.until(() => other.changes.length === 1);
      other.close();
    }
  } finally {
    await open.close();
  }
});

test('a stream that is asked for behind another request begins after its answer', async () => {
  const socket = connect(service.port, '127.0.0.1');
  let text = '';
  const begun = new Promise<void>((resolve) =>
    socket.on('data', (chunk) => {
      text += chunk.toString();
      if (text.includes('event: heartbeat')) resolve();
    }),
  );
  const get = (path: string) => `GET ${path} HTTP/1.1\r\nhost: x\r\nx-api-key: ${service.key}\r\n\r\n`;
  socket.write(get('/health/live') + get(PATH));
  await begun;
  expect(text).toMatch(/^HTTP\/1\.1 200 [^]*{"status":"ok"}HTTP\/1\.1 200 [^]*text\/event-stream/);
  socket.destroy();
});

test('a swap of generations is not noticed, and a promotion is a reset', async () => {
  const stream = await Stream.open();
  const { eventStore, readModels } = service.stores;
  const release = await service.holdReadModels();
  const built = await rebuild('all', eventStore, readModels, new AbortController().signal);
  await release();
  await relay('tris:a');
  await stream.until(() => stream.changes.length === 1);
  await swap(built.id, eventStore, readModels);
  await relay('tris:b');
  await stream.until(() => stream.changes.length === 2);
  expect(stream.events.map(({ event }) => event)).toEqual(['heartbeat', 'change', 'change']);

  expect((await service.post('/v1/models/disc-2/promote', {})).status).toBe(200);
  await stream.until(() => stream.changes.length > 2 && stream.changes.at(-1)![0] === 'tris:b');
  expect(stream.events[3]!.event).toBe('reset');
  const again = stream.changes.slice(2).map(([name]) => name);
  const { changes } = (await service.get('/v1/disc/changes', { 'x-api-key': service.key })).json;
  expect(again).toEqual(changes.map(({ tris_id }: { tris_id: string }) => tris_id));
  expect(again.slice(-2)).toEqual(['tris:a', 'tris:b']);
  stream.close();
});

test('a service that stops ends its streams; the next one continues them', async () => {
  const { config, stores } = service;
  const start = async () => {
    const app = await createApp(AppModule.register(config, stores, Date.now), config, new Logger('error'));
    await app.listen(0, '127.0.0.1');
    return { app, port: (app.getHttpServer().address() as { port: number }).port };
  };
  const first = await start();
  const stream = await Stream.open('', {}, first.port);
  await relay('tris:before');
  await stream.until(() => stream.changes.length === 1);
  const stopping = first.app.close();
  await Promise.all([stream.ended, stopping]);
  expect(stream.text).toMatch(/\n\n: the service is stopping\n\n$/);
  await relay('tris:meanwhile');
  const second = await start();
  const again = await Stream.open('', { 'last-event-id': stream.lastId }, second.port);
  await relay('tris:after');
  await again.until(() => again.changes.length === 2);
  expect(again.changes.map(([name]) => name)).toEqual(['tris:meanwhile', 'tris:after']);
  again.close();
  await second.app.close();
});
