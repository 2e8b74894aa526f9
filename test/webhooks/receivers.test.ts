import type { LookupAddress } from 'node:dns';
import type { Socket } from 'node:net';
import { loadConfig } from '../../src/kernel/config.js';
import { Receivers, isPublic } from '../../src/features/webhooks/receivers.js';
import { eventually } from '../contracts/harness.js';
import { Receiver } from './receiver.js';

/** Where webhooks may lead: never into the networks of the service. */

const OWNER = 'tris:lendco';
const configured = (loopback: 'on' | 'off') => new Receivers(loadConfig({ CREDENCE_WEBHOOK_LOOPBACK: loopback }));
const addresses = (...found: string[]): LookupAddress[] =>
  found.map((address) => ({ address, family: address.includes(':') ? 6 : 4 }));

test.each([
  ['loopback', ['127.0.0.1', '127.9.9.9', '::1']],
  ['this network', ['0.0.0.0', '0.1.2.3', '::']],
  ['private', ['10.0.0.1', '172.16.0.1', '172.31.255.255', '192.168.1.1', 'fc00::1', 'fd12::1']],
  ['shared by a provider', ['100.64.0.1', '100.127.255.255']],
  ['link-local, with the metadata of clouds', ['169.254.169.254', 'fe80::1', 'fd00:ec2::254']],
  ['IPv4 in IPv6', ['::ffff:127.0.0.1', '::ffff:8.8.8.8', '::127.0.0.1', '64:ff9b::a00:1', '2002:7f00:1::', '2001::1']],
  [
    'for documentation and benchmarks',
    ['192.0.2.1', '198.51.100.7', '203.0.113.9', '198.18.0.1', '2001:db8::1', '3fff::1'],
  ],
  ['multicast and reserved', ['224.0.0.1', '240.0.0.1', '255.255.255.255', 'ff02::1']],
  ['no address', ['', 'localhost', '1.2.3', '1.2.3.4.5']],
])('%s is not public', (_, listed) => {
  expect(listed.filter(isPublic)).toEqual([]);
});

test('addresses of the Internet are public', () => {
  const listed = ['1.1.1.1', '8.8.8.8', '172.15.0.1', '172.32.0.1', '100.63.0.1', '100.128.0.1', '2606:4700::1111'];
  expect(listed.filter(isPublic)).toEqual(listed);
});

test.each([
  ['http', 'http://lender.example/hook'],
  ['another scheme', 'ftp://lender.example/hook'],
  ['a file', 'file:///etc/passwd'],
  ['no URL', 'lender.example'],
  ['credentials', 'https://user:word@lender.example/'],
  ['a fragment', 'https://lender.example/#part'],
  ['this machine', 'https://localhost/'],
  ['this machine by its address', 'https://127.0.0.1/'],
  ['this machine in IPv6', 'https://[::1]/'],
  ['a private address', 'https://192.168.0.1/'],
  ['a private address as a number', 'https://3232235521/'],
  ['this machine as a number', 'https://2130706433/'],
  ['this machine in octal', 'https://0177.0.0.1/'],
  ['this machine in hexadecimal', 'https://0x7f.1/'],
  ['this machine, cut short', 'https://127.1/'],
  ['a mapped address', 'https://[::ffff:10.0.0.1]/'],
  ['a mapped address in hexadecimal', 'https://[::ffff:a00:1]/'],
  ['metadata of a cloud', 'https://169.254.169.254/latest/meta-data'],
  ['a tab, which the parser leaves out', 'https://lender.example/a\tb'],
  ['a line feed', 'https://lender.example/hook\n'],
  ['a control character', 'https://lender.example/\u0001'],
  ['an override of the direction of text', 'https://lender.example/\u202e'],
  ['a space', ' https://lender.example/'],
  ['full-width digits', 'https://１２７.0.0.1/'],
  ['an empty part of a name', 'https://a..b/'],
  ['two dots at the end of a name', 'https://lender.example../'],
  ['a hyphen at the beginning of a name', 'https://-a.com/'],
  ['a hyphen at the end of a part', 'https://a-.com/'],
  ['a wildcard', 'https://*.lender.example/'],
  ['a part of 64 characters', `https://${'a'.repeat(64)}.example/`],
  ['a name of 255 characters', `https://${'a.'.repeat(127)}b/`],
  ['more than 2,048 characters', `https://lender.example/${'a'.repeat(2_048)}`],
])('a URL with %s is refused', (_, url) => {
  expect(configured('off').faultOf(url)).toEqual(expect.any(String));
});

test('https to a name is accepted; http to this machine only if configuration allows it', () => {
  const long = `${'a'.repeat(63)}.example`;
  for (const host of [
    'lender.example',
    'LENDER.example',
    'lender.example.',
    'a-b_c.4.example',
    'bücher.example',
    long,
  ]) {
    expect(configured('off').faultOf(`https://${host}/hook?a=b`)).toBeUndefined();
  }
  for (const url of ['http://127.0.0.1:8080/', 'http://localhost/', 'http://[::1]/', 'https://localhost/']) {
    expect(configured('on').faultOf(url)).toBeUndefined();
  }
  for (const url of ['http://lender.example/', 'http://10.0.0.1/', 'https://10.0.0.1/']) {
    expect(configured('on').faultOf(url)).toEqual(expect.any(String));
  }
});

test('the port is 443, or one that the configuration names', () => {
  for (const url of ['https://lender.example:443/', 'https://93.184.216.34/']) {
    expect(configured('off').faultOf(url)).toBeUndefined();
  }
  for (const port of ['22', '80', '8443', '0', '4430']) {
    expect(configured('off').faultOf(`https://lender.example:${port}/`)).toBe('the port must be 443');
  }
  const two = new Receivers(loadConfig({ CREDENCE_WEBHOOK_PORTS: '443,8443' }));
  expect([443, 8443, 80].map((port) => two.faultOf(`https://lender.example:${port}/`))).toEqual([
    undefined,
    undefined,
    'the port must be 443 or 8443',
  ]);
  for (const wrong of ['', '443,', '0', '99999x', 'https']) {
    const read = () => loadConfig({ CREDENCE_WEBHOOK_PORTS: wrong });
    if (wrong === '') expect(read().webhookPorts).toEqual(['443']);
    else expect(read).toThrow('CREDENCE_WEBHOOK_PORTS must be a comma-separated list of ports');
  }
});

test('nothing is sent to a port that is not configured any more', async () => {
  const receivers = new Receivers(loadConfig({}));
  receivers.names = { addressesOf: () => Promise.reject(new Error('asked')) };
  const outcome = await receivers.post(OWNER, 'https://lender.example:8443/', {}, '{}');
  expect(outcome).toMatchObject({ status: null, failure: 'address_not_public' });
});

describe('a connection', () => {
  let receiver: Receiver;
  beforeEach(() => (receiver = new Receiver()).start());
  afterEach(() => receiver.stop());
  const port = () => new URL(receiver.url).port;

  test.each([
    ['a private address', addresses('10.1.2.3')],
    ['this machine', addresses('127.0.0.1')],
    ['a public and a private address', addresses('93.184.216.34', '192.168.0.1')],
    ['an address in IPv6 form', addresses('::ffff:127.0.0.1')],
    ['no address', []],
  ])('is not made if the name leads to %s', async (_, found) => {
    const receivers = new Receivers(loadConfig({ CREDENCE_WEBHOOK_PORTS: port() }));
    receivers.names = { addressesOf: async () => found };
    const outcome = await receivers.post(OWNER, `https://lender.example:${port()}/`, {}, '{}');
    expect(outcome).toMatchObject({ status: null, failure: 'address_not_public' });
    expect(receiver.received).toEqual([]);
    receivers.onApplicationShutdown();
  });

  test('is not made to an address in the URL that is not public, though it was allowed when the URL was stored', async () => {
    const receivers = configured('off');
    const outcome = await receivers.post(OWNER, `https://127.0.0.1:${port()}/`, {}, '{}');
    expect(outcome).toMatchObject({ status: null, failure: 'address_not_public' });
    receivers.onApplicationShutdown();
  });

  test('is made to the address that was checked: the name is looked up once', async () => {
    const receivers = configured('on');
    const asked: string[] = [];
    // As a rebinding name server answers: what is allowed first, and something else from then on.
    receivers.names = {
      addressesOf: async (host) => addresses(asked.push(host) === 1 ? '127.0.0.1' : '192.0.2.1'),
    };
    const outcome = await receivers.post(OWNER, `http://localhost:${port()}/`, { 'webhook-id': 'a' }, '{}');
    expect(outcome).toMatchObject({ status: 204, failure: null });
    expect(asked).toEqual(['localhost']);
    receivers.onApplicationShutdown();
  });

  test('does not follow redirects, and ends when an answer is large', async () => {
    const receivers = configured('on');
    receiver.answer = (_, response) => void response.writeHead(302, { location: receiver.url }).end();
    expect(await receivers.post(OWNER, receiver.url, {}, '{}')).toMatchObject({ status: 302 });
    expect(receiver.received).toHaveLength(1);
    const closed = new Promise<number>((resolve) => {
      receiver.answer = (_, response) => {
        let written = 0;
        const more = () => {
          for (let i = 0; i < 16 && !response.destroyed; i++) {
            written += 65_536;
            if (!response.write(Buffer.alloc(65_536))) return void response.once('drain', more);
          }
          if (!response.destroyed && written < 50_000_000) setImmediate(more);
        };
        response.once('close', () => resolve(written));
        response.writeHead(200);
        more();
      };
    });
    expect(await receivers.post(OWNER, receiver.url, {}, '{}')).toMatchObject({ status: 200 });
    expect(await closed).toBeLessThan(10_000_000);
    receivers.onApplicationShutdown();
  });

  test('ends after five seconds without an answer, and says what failed', async () => {
    const receivers = configured('on');
    receiver.answer = () => undefined;
    const outcome = await receivers.post(OWNER, receiver.url, {}, '{}');
    expect(outcome).toMatchObject({ status: null, failure: 'timeout' });
    expect(outcome.ms).toBeGreaterThanOrEqual(4_900);
    const reserved = 'http://127.0.0.1:1/';
    expect(await receivers.post(OWNER, reserved, {}, '{}')).toMatchObject({ failure: 'connection_failed' });
    receivers.names = {
      addressesOf: () => Promise.reject(Object.assign(new Error('no such name'), { code: 'ENOTFOUND' })),
    };
    expect(await receivers.post(OWNER, 'https://nowhere.example/', {}, '{}')).toMatchObject({
      failure: 'unknown_host',
    });
    receivers.onApplicationShutdown();
  });

  test('ends when the receiver wants another protocol', async () => {
    const receivers = configured('on');
    receiver.answer = (_, response) =>
      void response.socket!.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\n');
    expect(await receivers.post(OWNER, receiver.url, {}, '{}')).toMatchObject({
      status: null,
      failure: 'connection_failed',
    });
    receivers.onApplicationShutdown();
  });
});

test('a connection that is not used is closed, though its receiver keeps it open', async () => {
  const receiver = new Receiver();
  await receiver.start();
  const receivers = configured('on');
  receivers.idleMs = 200;
  let connection: Socket | undefined;
  receiver.answer = (_, response) => {
    connection = response.socket!;
    // An answer may take longer.
    setTimeout(() => response.writeHead(204).end(), 400);
  };
  expect((await receivers.post(OWNER, receiver.url, {}, '{}')).status).toBe(204);
  await eventually(() => connection!.readableEnded, 'the end of the connection');
  receivers.onApplicationShutdown();
  await receiver.stop();
});

test('a receiver has its five seconds from the connection on, however many messages wait for one', async () => {
  const receiver = new Receiver();
  await receiver.start();
  const receivers = configured('on');
  // Messages that got no connection at first get one when the others are answered.
  receiver.answer = (_, response) => void setTimeout(() => response.writeHead(204).end(), 2_600);
  const outcomes = await Promise.all(Array.from({ length: 20 }, () => receivers.post(OWNER, receiver.url, {}, '{}')));
  expect(outcomes.map(({ status, failure }) => status ?? failure)).toEqual(Array(20).fill(204));
  expect(Math.max(...outcomes.map(({ ms }) => ms))).toBeLessThan(5_000);
  receivers.onApplicationShutdown();
  await receiver.stop();
});

test('messages of one organization do not keep those of another from the receiver they share', async () => {
  const receiver = new Receiver();
  await receiver.start();
  const receivers = configured('on');
  receiver.answer = ({ message }, response) => void (message.answers && response.writeHead(204).end());
  const hanging = Array.from({ length: 16 }, () => receivers.post(OWNER, receiver.url, {}, '{}'));
  await eventually(() => receiver.received.length === 16);
  const began = performance.now();
  const outcome = await receivers.post('tris:other', receiver.url, {}, '{"answers":true}');
  const waited = performance.now() - began;
  receivers.onApplicationShutdown();
  await Promise.all(hanging);
  await receiver.stop();
  expect(outcome.status).toBe(204);
  expect(waited).toBeLessThan(4_000);
});
