import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { jsonEvent, EventStoreDBClient } from '@eventstore/db-client';
import { EventStoreDbEventStore } from '../../src/stores/eventstoredb/eventstoredb-event-store.js';
import { eventually, recovery } from '../contracts/harness.js';
import { newStream, sampleEvents } from '../contracts/sample-events.js';
import { describeWithEventStored, type EventStored, startEventStored } from '../servers/eventstored.js';

const MINUTE = 60_000;
const REPLACED = { name: 'StoreUnavailable', code: 'log_replaced' };

/** An address behind which another server can take the place of the one before. */
class Address {
  private readonly sockets = new Set<Socket>();
  private server!: Server;
  port = 0;

  static async at(target: number): Promise<Address> {
    const address = new Address(target);
    address.server = createServer((client) => {
      const server = connect(address.target, '127.0.0.1');
      for (const [from, to] of [
        [client, server],
        [server, client],
      ] as const) {
        address.sockets.add(from);
        from.pipe(to);
        from.on('error', () => undefined);
        from.on('close', () => {
          address.sockets.delete(from);
          to.destroy();
        });
      }
    }).listen(0, '127.0.0.1');
    await once(address.server, 'listening');
    address.port = (address.server.address() as { port: number }).port;
    return address;
  }

  private constructor(private target: number) {}

  /** Ends every connection; from now on another server answers. */
  moveTo(target: number): void {
    this.target = target;
    for (const socket of this.sockets) socket.destroy();
  }

  async close(): Promise<void> {
    this.moveTo(this.target);
    await once(this.server.close(), 'close');
  }
}

describeWithEventStored('a log that was replaced', () => {
  let right: EventStored;
  let other: EventStored;
  let address: Address;
  let store: EventStoreDbEventStore;
  const said: string[] = [];

  beforeAll(async () => {
    right = await startEventStored();
  }, MINUTE);
  afterAll(() => right?.stop(), MINUTE);
  beforeEach(async () => {
    other = await startEventStored();
    address = await Address.at(right.port);
    const url = `esdb://127.0.0.1:${address.port}?tls=false`;
    said.length = 0;
    store = await EventStoreDbEventStore.open({ url, onWarning: (message) => void said.push(message) });
  }, 2 * MINUTE);
  afterEach(async () => {
    await store?.close();
    await address?.close();
    await other?.stop();
  }, MINUTE);

  async function append(count: number, to = store): Promise<number> {
    let position = 0;
    for (let n = 0; n < count; n++) {
      const stream = newStream('replaced');
      ({ position } = await to.append(stream, 'no-stream', sampleEvents(stream, 2)));
    }
    return position;
  }

  /** Makes the other server look like a copy of the log in which something else happened. */
  async function makeCopy(events: number): Promise<void> {
    const client = EventStoreDBClient.connectionString(other.url);
    const event = jsonEvent({ type: 'LogIdentified', data: { log_id: store.logId }, metadata: { index: 0, size: 1 } });
    await client.appendToStream('credence-log', event);
    await client.dispose();
    const copy = await EventStoreDbEventStore.open({ url: other.url });
    await append(events, copy);
    await copy.close();
  }

  async function expectReplaced(lost: number): Promise<void> {
    await eventually(() => store.refusal?.code === 'log_replaced', 'the refusal');
    const stream = newStream('replaced');
    await expect(store.append(stream, 'no-stream', sampleEvents(stream, 1))).rejects.toMatchObject(REPLACED);
    await expect(store.head()).rejects.toMatchObject(REPLACED);
    await expect(store.readStream(stream)).rejects.toMatchObject(REPLACED);
    await expect(store.readAt(lost)).rejects.toMatchObject(REPLACED);
    expect(said.filter((line) => line.startsWith('log_replaced'))).toEqual([
      expect.stringContaining('Bring the right log back'),
    ]);
  }

  test.each([
    ['an empty one', async () => undefined],
    ['another one', async () => (await EventStoreDbEventStore.open({ url: other.url })).close()],
    ['an older copy', () => makeCopy(1)],
    ['an older copy that has grown further since', () => makeCopy(40)],
  ])(
    '%s: nobody has to ask for it to be noticed, nothing is read or appended, and the right one heals it',
    async (_, prepare) => {
      const first = await store.head();
      const last = await append(10);
      const abort = new AbortController();
      const seen: number[] = [];
      const following = (async () => {
        for await (const slice of store.subscribe(first, { signal: abort.signal })) {
          seen.push(...slice.map(({ position }) => position));
        }
      })();
      await eventually(() => seen.at(-1) === last, 'reading to the head');
      await prepare();
      const reader = await EventStoreDbEventStore.open({ url: other.url });
      const [before, logId] = [await reader.head(), reader.logId];
      address.moveTo(other.port);
      await expectReplaced(last);
      expect([await reader.head(), reader.logId]).toEqual([before, logId]);
      await reader.close();

      address.moveTo(right.port);
      await recovery(
        'the right log is back',
        eventually(() => store.refusal === undefined, 'the end of the refusal'),
      );
      expect((await store.readAt(last))?.position).toBe(last);
      const next = await append(1);
      await eventually(() => seen.at(-1) === next, 'reading to the head');
      expect(seen).toEqual([...new Set(seen)]);
      expect(seen).toHaveLength(22);
      abort.abort();
      await following;
    },
    2 * MINUTE,
  );

  test(
    'the same log behind a new connection is told by a number, and goes on',
    async () => {
      const last = await append(3);
      const { connections } = store;
      address.moveTo(right.port);
      await eventually(() => store.connections > connections, 'the new connection');
      expect(await store.head()).toBe(last);
      expect(await append(1)).toBeGreaterThan(last);
      expect(said.filter((line) => line.startsWith('log_replaced'))).toEqual([]);
    },
    2 * MINUTE,
  );
});
