import type { FastifyReply } from 'fastify';
import { StoreUnavailable } from '../../src/stores/ports/event-store.js';
import { RateLimit, SharedRateLimit, clientOf } from '../../src/http/rate-limit.js';
import { serve, type Served } from './app.fixture.js';
import { type Answer, send } from './client.js';

/** How often an address may ask. */
const reply = () => {
  const headers: Record<string, unknown> = {};
  return {
    headers,
    header: (name: string, value: unknown) => void (headers[name] = value),
    getHeader: (name: string) => headers[name],
  } as unknown as FastifyReply & {
    headers: Record<string, unknown>;
  };
};

describe('public routes', () => {
  let served: Served;
  const get = (path: string, headers: Record<string, string> = {}) => send(served.port, 'GET', path, { headers });
  afterEach(() => served.close());

  test('return the remaining requests, then 429; requests with a key, health and metrics are not counted', async () => {
    served = await serve({ CREDENCE_RATE_LIMIT: '2' });
    const left = async () => (await get('/v1/things/tris@a')).headers['ratelimit-remaining'];
    expect([await left(), await left()]).toEqual(['1', '0']);
    const refused = await get('/v1/things/tris@a');
    expect([refused.status, refused.json.code]).toEqual([429, 'rate_limited']);
    expect(Number(refused.headers['retry-after'])).toBeGreaterThan(0);
    expect(refused.headers).toMatchObject({
      'ratelimit-limit': '2',
      'ratelimit-remaining': '0',
      'ratelimit-policy': '"address";q=2;w=60',
      ratelimit: `"address";r=0;t=${refused.headers['ratelimit-reset']}`,
    });
    expect((await get('/health/live')).status).toBe(200);
    expect((await get('/metrics')).status).toBe(200);
    const keyed = await get('/v1/things/tris@a', { 'x-api-key': served.key });
    expect([keyed.status, keyed.headers['ratelimit-limit']]).toEqual([200, undefined]);
  });

  test.each([
    ['API keys', { 'x-api-key': 'guessed' }, 'unauthorized'],
    ['tokens', { authorization: 'Bearer made.up.token' }, 'token_malformed'],
  ])('%s that are made up are counted on every route', async (_what, credential, code) => {
    served = await serve({ CREDENCE_RATE_LIMIT: '3' });
    for (const path of ['/v1/things/tris@a', '/v1/keyed', '/health/live']) {
      const refused = await get(path, credential as Record<string, string>);
      expect([refused.status, refused.json.code]).toEqual([401, code]);
    }
    for (const path of ['/v1/things/tris@a', '/v1/keyed', '/health/live']) {
      const limited = await get(path, credential as Record<string, string>);
      expect([limited.status, limited.json.code]).toEqual([429, 'rate_limited']);
    }
    expect((await get('/v1/keyed', { 'x-api-key': served.key })).status).toBe(200);
    expect((await get('/health/live')).status).toBe(200);
  });

  test('count each item of a batch', async () => {
    served = await serve({ CREDENCE_RATE_LIMIT: '5' });
    const ask = (count: number, headers: Record<string, string> = {}) =>
      send(served.port, 'POST', '/v1/things/some', {
        headers: { 'content-type': 'application/json', ...headers },
        body: JSON.stringify({ things: Array.from({ length: count }, (_, i) => i) }),
      });
    const left = ({ status, headers }: Answer) => [status, headers['ratelimit-remaining']];
    expect(left(await ask(3))).toEqual([200, '2']);
    expect(left(await get('/v1/things/tris@a'))).toEqual([200, '1']);
    expect(left(await ask(2))).toEqual([429, '0']);
    expect((await ask(1)).status).toBe(429);
    expect((await ask(3, { 'x-api-key': served.key })).status).toBe(200);
  });

  test('refuse a batch that counts for more than the limit, and say so', async () => {
    served = await serve({ CREDENCE_RATE_LIMIT: '2' });
    const { status, json } = await send(served.port, 'POST', '/v1/things/some', {
      headers: { 'content-type': 'application/json' },
      body: '{"things":[1,2,3]}',
    });
    expect([status, json.code]).toEqual([429, 'rate_limited']);
    expect(json.detail).toMatch(/At most 2 requests .*, and this one counts as 3; send fewer at once\./);
  });

  test('count a batch that does not fit as one request, so that a smaller one fits', async () => {
    served = await serve({ CREDENCE_RATE_LIMIT: '4' });
    const ask = (things: number[]) =>
      send(served.port, 'POST', '/v1/things/some', {
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ things }),
      });
    const left = ({ status, headers }: Answer) => [status, headers['ratelimit-remaining']];
    expect(left(await ask([1]))).toEqual([200, '3']);
    expect(left(await ask([1]))).toEqual([200, '2']);
    const refused = await ask([1, 2, 3]);
    expect(left(refused)).toEqual([429, '1']);
    expect(refused.json.detail).toMatch(/this one counts as 3; send fewer at once, or try again in \d+ s\./);
    expect(left(await ask([1]))).toEqual([200, '0']);
  });

  test('send no RateLimit headers without a limit', async () => {
    served = await serve({ CREDENCE_RATE_LIMIT: '0' });
    expect((await get('/v1/things/tris@a')).headers).not.toHaveProperty('ratelimit-limit');
  });

  test('use X-Forwarded-For only if a proxy is trusted', async () => {
    served = await serve({ CREDENCE_RATE_LIMIT: '1' });
    expect((await get('/v1/things/tris@a', { 'x-forwarded-for': '1.1.1.1' })).status).toBe(200);
    expect((await get('/v1/things/tris@a', { 'x-forwarded-for': '2.2.2.2' })).status).toBe(429);
    await served.close();
    served = await serve({ CREDENCE_RATE_LIMIT: '1', CREDENCE_TRUST_PROXY: 'on' });
    expect((await get('/v1/things/tris@a', { 'x-forwarded-for': '1.1.1.1' })).status).toBe(200);
    expect((await get('/v1/things/tris@a', { 'x-forwarded-for': '2.2.2.2' })).status).toBe(200);
    // What a client put before the address its proxy saw does not count.
    expect((await get('/v1/things/tris@a', { 'x-forwarded-for': '3.3.3.3, 2.2.2.2' })).status).toBe(429);
  });
});

test('a window ends for everybody after a minute, also when the clock is set back', () => {
  let now = 1_000_000;
  const limit = new RateLimit(1, () => now);
  limit.take('1.1.1.1', reply());
  expect(() => limit.take('1.1.1.1', reply())).toThrow(/At most 1 requests/);
  now += 59_999;
  expect(() => limit.take('1.1.1.1', reply())).toThrow(/in 1 s/);
  now += 1;
  limit.take('1.1.1.1', reply());
  now -= 3_600_000;
  limit.take('1.1.1.1', reply());
});

test('a flood of addresses shares one count beyond the bound', () => {
  const limit = new RateLimit(5, () => 0);
  for (let i = 0; i < 100_000; i++) limit.take(`10.${i >> 16}.${(i >> 8) & 255}.${i & 255}`, reply());
  const last = reply();
  for (let i = 0; i < 5; i++) limit.take(`11.0.0.${i}`, last);
  expect(last.headers['ratelimit-remaining']).toBe(0);
  expect(() => limit.take('11.0.0.99', reply())).toThrow();
  limit.take('10.0.0.1', reply());
});

test('the networks of a /48 may ask sixteen times as often together, and no more', () => {
  const limit = new RateLimit(2, () => 0);
  for (let network = 0; network < 16; network++) {
    for (const host of [1, 2]) limit.take(`2001:db8:1:${network}::${host}`, reply());
  }
  expect(() => limit.take('2001:db8:1:99::1', reply())).toThrow('At most 32 requests per minute are accepted from one');
  limit.take('2001:db8:2::1', reply());
});

test.each([
  ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2', '2001:db8:1::/48'],
  ['2001:0DB8:1:2::1', '2001:db8:1:2', '2001:db8:1::/48'],
  ['2001:db8::1', '2001:db8:0:0', '2001:db8:0::/48'],
  ['[2001:db8:1:2::1]:443', '2001:db8:1:2', '2001:db8:1::/48'],
  ['"[2001:db8:1:2::1]:443"', '2001:db8:1:2', '2001:db8:1::/48'],
  ['[2001:db8:1:2::1]', '2001:db8:1:2', '2001:db8:1::/48'],
  ['fe80::1%eth0', 'fe80:0:0:0', 'fe80:0:0::/48'],
  ['::1', '0:0:0:0', '0:0:0::/48'],
  ['10.1.2.3', '10.1.2.3', undefined],
  [' 10.1.2.3 ', '10.1.2.3', undefined],
  ['10.1.2.3:5678', '10.1.2.3', undefined],
  ['::ffff:10.1.2.3', '10.1.2.3', undefined],
  ['::FFFF:10.1.2.3', '10.1.2.3', undefined],
  ['::ffff:0a01:203', '10.1.2.3', undefined],
  ['0:0:0:0:0:ffff:10.1.2.3', '10.1.2.3', undefined],
  ['[::ffff:10.1.2.3]:80', '10.1.2.3', undefined],
  ['unknown', 'unknown', undefined],
  ['_hidden', 'unknown', undefined],
  ['', 'unknown', undefined],
  ['10.1.2.3.4', 'unknown', undefined],
  ['10.1.2.3:a', 'unknown', undefined],
  ['<script>', 'unknown', undefined],
])('%s counts as %s', (address, network, site) => expect(clientOf(address)).toEqual({ network, site }));

describe('a limit that several processes share', () => {
  let now = 1_000_000;
  /** A store that counts as every KeyValue does (see its contract), and can be away. */
  const counts = new Map<string, number>();
  let away = false;
  let asked = 0;
  const keyValue = {
    increment: async (key: string, ttlMs: number, by = 1) => {
      asked++;
      if (away) throw new StoreUnavailable('away');
      counts.set(key, (counts.get(key) ?? 0) + by);
      return { count: counts.get(key)!, resets_at: 1_000_000 + ttlMs };
    },
  };
  const process = () => new SharedRateLimit(3, keyValue, () => now);
  beforeEach(() => {
    counts.clear();
    asked = 0;
    away = false;
    now = 1_000_000;
  });

  test('counts the requests to all of them together', async () => {
    const [one, other] = [process(), process()];
    const answers = [reply(), reply(), reply()];
    await one.take('1.1.1.1', answers[0]!);
    await other.take('1.1.1.1', answers[1]!);
    await one.take('1.1.1.1', answers[2]!);
    expect(answers.map(({ headers }) => headers['ratelimit-remaining'])).toEqual([2, 1, 0]);
    await expect(other.take('1.1.1.1', reply())).rejects.toThrow(/At most 3 requests .* in 60 s/);
    await one.take('2.2.2.2', reply());
  });

  test('counts what a batch asks for in addition', async () => {
    const limit = process();
    const answer = reply();
    await limit.take('1.1.1.1', answer);
    await limit.take('1.1.1.1', answer, 2);
    expect(answer.headers['ratelimit-remaining']).toBe(0);
    await expect(limit.take('1.1.1.1', reply())).rejects.toThrow(/At most 3/);
  });

  test('takes back what a refused batch asked for', async () => {
    const limit = process();
    const refused = reply();
    await expect(limit.take('1.1.1.1', refused, 5)).rejects.toThrow(/At most 3/);
    expect(refused.headers['ratelimit-remaining']).toBe(3);
    await limit.take('1.1.1.1', reply(), 3);
    await expect(limit.take('1.1.1.1', reply(), 1)).rejects.toThrow(/At most 3/);
  });

  test('does not query the store again for a refused client until the minute is over', async () => {
    const limit = process();
    for (let n = 0; n < 3; n++) await limit.take('1.1.1.1', reply());
    for (let n = 0; n < 5; n++) await expect(limit.take('1.1.1.1', reply())).rejects.toThrow(/At most 3/);
    expect(asked).toBe(4);
    now += 60_000;
    counts.clear();
    await limit.take('1.1.1.1', reply());
    expect(asked).toBe(5);
  });

  test('accepts requests while the store is unavailable', async () => {
    const limit = process();
    away = true;
    for (let n = 0; n < 10; n++) await limit.take('1.1.1.1', reply());
    expect(asked).toBe(10);
  });
});
