import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { loadConfig } from '../../src/kernel/config.js';
import { ReceiverNames } from '../../src/features/webhooks/receiver-names.js';
import { Receivers } from '../../src/features/webhooks/receivers.js';
import { eventually } from '../contracts/harness.js';

let server: Worker;
let names: ReceiverNames;
let asked: string[];
beforeEach(async () => {
  asked = [];
  server = new Worker(new URL('./name-server.mjs', import.meta.url));
  const [port] = await once(server, 'message');
  server.on('message', (name: string) => asked.push(name));
  names = new ReceiverNames([`127.0.0.1:${port}`]);
});
afterEach(() => server.terminate());

const GOOD = [{ address: '93.184.216.34', family: 4 }];

test('names whose servers do not answer end by the deadline, and hold up no other owner', async () => {
  const began = performance.now();
  const hanging = Array.from({ length: 200 }, (_, n) => names.addressesOf(`hangs-${n}.example`, `tris:${n % 10}`));
  const ended = Promise.allSettled(hanging);
  const first = Promise.race(hanging.map((name) => name.catch(() => 'a name that hangs')));
  expect(await Promise.race([names.addressesOf('good.example', 'tris:other'), first])).toEqual(GOOD);
  for (const { status, reason } of (await ended) as PromiseRejectedResult[]) {
    expect([status, reason.code]).toEqual(['rejected', expect.stringMatching(/^(ECANCELLED|ETIMEOUT)$/)]);
  }
  expect(performance.now() - began).toBeLessThan(12_000);
}, 20_000);

test('one owner has at most 16 look-ups, and asks for a name once at a time', async () => {
  const hanging = Array.from({ length: 40 }, (_, n) => names.addressesOf(`hangs-${n % 20}.example`, 'tris:one'));
  const ended = Promise.allSettled(hanging);
  expect(await names.addressesOf('good.example', 'tris:other')).toEqual(GOOD);
  await eventually(() => asked.includes('good.example'));
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
