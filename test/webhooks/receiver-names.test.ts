import { createSocket, type Socket } from 'node:dgram';
import { once } from 'node:events';
import { loadConfig } from '../../src/kernel/config.js';
import { ReceiverNames } from '../../src/features/webhooks/receiver-names.js';
import { Receivers } from '../../src/features/webhooks/receivers.js';

/** A name server that answers only for names that begin with `good` or `none`, and notes what it is asked. */
let server: Socket;
let names: ReceiverNames;
let asked: string[];
beforeEach(async () => {
  asked = [];
  server = createSocket('udp4');
  server.on('message', (query, { port, address }) => {
    const labels: string[] = [];
    let at = 12;
    for (; query[at]! > 0; at += query[at]! + 1) labels.push(query.toString('latin1', at + 1, at + 1 + query[at]!));
    const name = labels.join('.');
    asked.push(name);
    if (!/^(good|none)/.test(name)) return;
    const question = query.subarray(12, at + 5);
    const hasAddress = name.startsWith('good') && question.readUInt16BE(question.length - 4) === 1;
    const head = Buffer.from([
      query[0]!,
      query[1]!,
      0x81,
      name.startsWith('none') ? 0x83 : 0x80,
      0,
      1,
      0,
      hasAddress ? 1 : 0,
      0,
      0,
      0,
      0,
    ]);
    const answer = Buffer.from([0xc0, 0x0c, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 93, 184, 216, 34]);
    server.send(Buffer.concat([head, question, ...(hasAddress ? [answer] : [])]), port, address);
  });
  server.bind(0, '127.0.0.1');
  await once(server, 'listening');
  names = new ReceiverNames([`127.0.0.1:${server.address().port}`]);
});
afterEach(() => server.close());

const GOOD = [{ address: '93.184.216.34', family: 4 }];

test('names whose servers do not answer end by the deadline, and hold up no other owner', async () => {
  const began = performance.now();
  const hanging = Array.from({ length: 200 }, (_, n) => names.addressesOf(`hangs-${n}.example`, `tris:${n % 10}`));
  const ended = Promise.allSettled(hanging);
  expect(await names.addressesOf('good.example', 'tris:other')).toEqual(GOOD);
  expect(performance.now() - began).toBeLessThan(2_500);
  for (const { status, reason } of (await ended) as PromiseRejectedResult[]) {
    expect([status, reason.code]).toEqual(['rejected', expect.stringMatching(/^(ECANCELLED|ETIMEOUT)$/)]);
  }
  expect(performance.now() - began).toBeLessThan(12_000);
}, 20_000);

test('one owner has at most 16 look-ups, and asks for a name once at a time', async () => {
  const hanging = Array.from({ length: 40 }, (_, n) => names.addressesOf(`hangs-${n % 20}.example`, 'tris:one'));
  const ended = Promise.allSettled(hanging);
  expect(await names.addressesOf('good.example', 'tris:other')).toEqual(GOOD);
  expect(new Set(asked).size).toBe(17);
  await ended;
}, 20_000);

test('a name without addresses is unknown, one without an answer a timeout', async () => {
  const receivers = new Receivers(loadConfig({}));
  receivers.names = names;
  const post = (host: string) => receivers.post('tris:one', `https://${host}/`, {}, '{}');
  expect(await post('none.example')).toMatchObject({ status: null, failure: 'unknown_host' });
  expect(await post('hangs.example')).toMatchObject({ status: null, failure: 'timeout' });
  receivers.onApplicationShutdown();
});

test('localhost needs no name server', async () => {
  const found = await names.addressesOf('localhost', null);
  expect(found.map(({ address }) => address)).toEqual(['127.0.0.1', '::1']);
  expect(asked).toEqual([]);
});
