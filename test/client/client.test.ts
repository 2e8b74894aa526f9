import { randomUUID } from 'node:crypto';
import {
  CredenceClient,
  type LiveEvent,
  ProblemError,
  type Tokens,
  type components,
} from '../../clients/typescript/src/client.js';
import { ACTION, Server } from '../e2e/server.js';
import { Proxy } from '../servers/proxy.js';
import { newAccount } from '../sessions/wallet.js';

/** The client against the built service. */

let server: Server;
let client: CredenceClient;
/** What the client sent, and whether its answers get lost on the way. */
let sent: Request[] = [];
let lost = 0;

const fetchWatched = async (request: Request): Promise<Response> => {
  sent.push(request.clone());
  const response = await fetch(request);
  if (lost-- > 0) throw new TypeError('the answer got lost');
  return response;
};
const newClient = (
  options: { apiKey?: string; session?: Tokens; onTokens?: (tokens: Tokens) => void },
  url = server.url,
) => new CredenceClient({ baseUrl: url, fetch: fetchWatched, ...options });

beforeAll(async () => {
  server = await Server.start();
  client = newClient({ apiKey: server.key });
});
afterAll(() => server.end());
beforeEach(() => {
  sent = [];
  lost = 0;
});

const relay = (tris_id: string, more: object = {}) =>
  client.post('/api/decision-relay', {
    body: { ...ACTION, criticality: 'High', category: 'financial', tris_id, ...more },
  });
const identity = () => `tris:client:${randomUUID()}`;

test('a read waits for what the client wrote before, and a write is recorded once though its answers get lost', async () => {
  const tris_id = identity();
  lost = 2;
  const { data, response } = await relay(tris_id);
  expect(response.status).toBe(202);
  expect(data.status).toBe('received');
  expect(sent).toHaveLength(3);
  expect(client.position).toBe(response.headers.get('credence-position'));
  const history = await client.get('/v1/disc/score/{tris_id}/history', { params: { path: { tris_id } } });
  expect(sent.at(-1)!.headers.get('credence-min-position')).toBe(client.position);
  expect(history.data.entries).toHaveLength(1);
});

test('a refusal of the service is an error with its code and the pointers of its fields', async () => {
  const error = await relay('bob').catch((thrown: unknown) => thrown as ProblemError);
  expect(error).toBeInstanceOf(ProblemError);
  expect(error).toMatchObject({ status: 400, code: 'validation_failed', errors: [{ pointer: '/tris_id' }] });
  expect((error as ProblemError).requestId).toMatch(/^[0-9a-f-]{36}$/);
  const keyless = newClient({ apiKey: 'wrong' });
  await expect(keyless.get('/health/live')).rejects.toMatchObject({ status: 401, code: 'unauthorized' });
});

test('reads by POST and lists in a query are sent as the service reads them', async () => {
  const ids = [identity(), identity()];
  for (const id of ids) await relay(id);
  const { data } = await client.post('/v1/disc/score/batch', { body: { tris_ids: ids } });
  expect(data.results.map(({ status }) => status)).toEqual([200, 200]);
  const metrics = await client.get('/v1/disc/metrics/{tris_id}', {
    params: { path: { tris_id: ids[0]! }, query: { metrics: ['financial', 'social'] } },
  });
  expect(Object.keys(metrics.data.payload)).toEqual(['financial', 'social']);
});

test('an answer has the type of its schema, also where that has a tuple', async () => {
  const tris_id = identity();
  await relay(tris_id);
  const { data } = await client.get('/v1/disc/score/{tris_id}', { params: { path: { tris_id } } });
  // The types are what is tested: `npm run check:types`.
  const score: components['schemas']['ScoreDto'] = data;
  const [low, high] = score.reliability_interval!;
  expect(low).toBeLessThan(high);
});

test('iterates over all pages of a list', async () => {
  const tris_id = identity();
  for (let i = 0; i < 5; i++) await relay(tris_id);
  const init = { params: { path: { tris_id }, query: { limit: 2 } } };
  const entries = [];
  for await (const entry of client.list('/v1/disc/score/{tris_id}/history', init)) entries.push(entry.total_tct);
  expect(entries).toHaveLength(5);
  expect(entries).toEqual(entries.toSorted((a, b) => a - b));
  const pages = [];
  for await (const page of client.pages('/v1/disc/score/{tris_id}/history', init)) pages.push(page.entries.length);
  expect(pages).toEqual([2, 2, 1]);
  const credonations = [];
  for await (const one of client.list('/api/tris-validations/{tris_id}', init)) credonations.push(one.amount);
  expect(credonations).toHaveLength(5);
});

test('the feed of changes ends at its end, and the live stream continues it, through lost connections', async () => {
  const proxy = await Proxy.to(Number(new URL(server.url).port));
  const behind = newClient({ apiKey: server.key }, `http://127.0.0.1:${proxy.port}`);
  const ids = [identity(), identity(), identity(), identity()];
  await relay(ids[0]!);
  behind.position = client.position;
  let cursor = '';
  const seen: string[] = [];
  for await (const page of behind.pages('/v1/disc/changes', { params: { query: { limit: 2 } } })) {
    seen.push(...page.changes.map(({ tris_id }) => tris_id));
    cursor = page.next_cursor;
  }
  expect(seen.at(-1)).toBe(ids[0]);
  expect(new Set(seen).size).toBe(seen.length);

  await relay(ids[1]!);
  const changes: LiveEvent[] = [];
  for await (const event of behind.live({ cursor })) {
    if (event.type !== 'change') continue;
    changes.push(event);
    if (changes.length === ids.length - 1) break;
    // Recorded while there is no connection: the next one has to continue where this one ended.
    proxy.cut();
    await relay(ids[changes.length + 1]!);
  }
  expect(changes.map(({ data }) => (data as { tris_id: string }).tris_id)).toEqual(ids.slice(1));
  expect(sent.filter(({ headers }) => headers.has('last-event-id'))).toHaveLength(2);
  await proxy.close();
});

test('the live stream begins now, with a heartbeat, and tells of chosen identities only', async () => {
  const [watched, other] = [identity(), identity()];
  const events: LiveEvent[] = [];
  for await (const event of client.live({ trisIds: [watched] })) {
    events.push(event);
    if (event.type === 'change') break;
    await relay(other);
    await relay(watched);
  }
  expect(events.map(({ type, data }) => [type, (data as any).tris_id])).toEqual([
    ['heartbeat', undefined],
    ['change', watched],
  ]);
});

test('a stream that may not connect again ends with its connection', async () => {
  const proxy = await Proxy.to(Number(new URL(server.url).port));
  const behind = newClient({ apiKey: server.key }, `http://127.0.0.1:${proxy.port}`);
  const stream = behind.live({ reconnects: false });
  expect((await stream.next()).value).toMatchObject({ type: 'heartbeat' });
  proxy.cut();
  // What a cut connection is, an error or an end, depends on the platform.
  expect(await stream.next().catch(() => ({ done: true }))).toMatchObject({ done: true });
  expect(sent).toHaveLength(1);
  await proxy.close();
});

test('a stream that the service refuses is an error, and one whose signal is aborted ends with the reason', async () => {
  const next = (options: object, by = client) => by.live(options).next();
  await expect(next({ cursor: 'made-up' })).rejects.toMatchObject({ code: 'validation_failed' });
  await expect(next({}, newClient({ apiKey: 'wrong' }))).rejects.toMatchObject({ code: 'unauthorized' });
  const controller = new AbortController();
  const stream = client.live({ signal: controller.signal });
  expect((await stream.next()).value).toMatchObject({ type: 'heartbeat' });
  const reason = new Error('enough');
  controller.abort(reason);
  await expect(stream.next()).rejects.toBe(reason);
});

describe('a session', () => {
  async function signIn(): Promise<Tokens> {
    const account = newAccount();
    const anyone = newClient({});
    const { data } = await anyone.post('/v1/tris/auth/siwe/start', {
      body: { address: account.address, chain_id: 1, purpose: 'claim' },
    });
    const signature = await account.signMessage({ message: data.message });
    return (await anyone.post('/v1/tris/auth/siwe/verify', { body: { message: data.message, signature } })).data;
  }
  const walletsOf = (by: CredenceClient, { tris_id }: Tokens) =>
    by.get('/v1/wallets/{tris_id}', { params: { path: { tris_id: tris_id! } } });
  const refreshes = () => sent.filter(({ url }) => url.endsWith('/v1/tris/token/refresh')).length;

  test('is refreshed before it expires, once for all requests that wait, and its tokens are handed on', async () => {
    const tokens = await signIn();
    const kept: Tokens[] = [];
    const person = newClient({ session: { ...tokens, expires_in: 0 }, onTokens: (given) => kept.push(given) });
    const answers = await Promise.all(Array.from({ length: 8 }, () => walletsOf(person, tokens)));
    expect(answers.map(({ data }) => data.wallets.map(({ wallet }) => wallet))).toEqual(
      Array.from({ length: 8 }, () => [tokens.wallet]),
    );
    expect(refreshes()).toBe(1);
    expect(kept).toHaveLength(1);
    expect(kept[0]!.refresh_token).not.toBe(tokens.refresh_token);
  });

  test('is refreshed when the service says that its token has expired, and a lost refresh is repeated', async () => {
    const tokens = await signIn();
    let isExpired = true;
    const person = new CredenceClient({
      baseUrl: server.url,
      session: tokens,
      fetch: async (request) => {
        if (!isExpired || request.url.endsWith('/refresh')) return fetchWatched(request);
        isExpired = false;
        lost = 1;
        return Response.json({ code: 'token_expired', detail: 'refresh it' }, { status: 401 });
      },
    });
    expect((await walletsOf(person, tokens)).data.wallets).toHaveLength(1);
    expect(refreshes()).toBe(2);
  });

  test('downloads what is recorded about it as the text of its lines', async () => {
    const { data } = await newClient({ session: await signIn() }).get('/v1/me/export');
    expect(
      data
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line) as object),
    ).toMatchObject([{ type: 'WalletLinked' }, { end_of_export: { events: 1 } }]);
  });

  test('that has ended is an error, and the client goes on without it when told to', async () => {
    const tokens = await signIn();
    await client.post('/v1/tris/token/revoke', { body: { refresh_token: tokens.refresh_token } });
    const person = newClient({ session: { ...tokens, expires_in: 0 } });
    await expect(walletsOf(person, tokens)).rejects.toMatchObject({ status: 401, code: 'refresh_revoked' });
    person.session = null;
    expect((await person.get('/health/live')).response.status).toBe(200);
  });
});

test('verifies an eligibility token by the key set of the service', async () => {
  const tris_id = identity();
  await relay(tris_id);
  const policy_id = 'AP_CLIENT_V1';
  await client.post('/v1/policies/ap', { body: { policy_id, rules: { disc_min: 0 } } });
  const { data } = await client.post('/v1/policies/ap/check', { body: { policy_id, subject_tris: tris_id } });
  const token = data.eligibility_token!;
  expect(await client.verifyEligibility(token, { policy: policy_id })).toMatchObject({
    active: true,
    claims: { sub: tris_id, policy_id },
  });
  const [head, claims, signature] = token.split('.') as [string, string, string];
  const forged = `${head}.${claims}.${signature.startsWith('A') ? 'B' : 'A'}${signature.slice(1)}`;
  const { active, reason } = await client.verifyEligibility(forged, {});
  expect([active, reason]).toEqual([false, 'eligibility_signature']);
  // The key set is fetched once, also if a signature is wrong.
  expect(sent.filter(({ url }) => url.endsWith('/jwks.json'))).toHaveLength(1);
});

test('every POST and PATCH of the document that takes no Idempotency-Key is known to the client', async () => {
  const { json } = await server.send('GET', '/openapi.json');
  const without = Object.entries<Record<string, any>>(json.paths).flatMap(([path, item]) =>
    Object.entries(item).flatMap(([method, { parameters }]) => {
      const names = new Set(parameters.map(({ name }: { name: string }) => name));
      const isSafe = !['post', 'patch'].includes(method) || names.has('Credence-Min-Position');
      return isSafe || names.has('Idempotency-Key') ? [] : [`${method} ${path}`];
    }),
  );
  // All but the first five may be sent twice: `ONCE` in transport.ts has these.
  expect(without.sort()).toEqual(
    [
      'post /v1/ops/keys',
      'post /v1/tris/auth/siwe/verify',
      'post /v1/tris/sessions/end',
      'post /v1/webhooks/{webhook_id}/deliveries/{delivery_id}/redeliver',
      'post /v1/webhooks/{webhook_id}/test',
      'post /v1/tris/auth/siwe/start',
      'post /v1/tris/token/refresh',
      'post /v1/tris/token/revoke',
    ].sort(),
  );
});
