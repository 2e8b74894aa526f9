import { setTimeout as sleep } from 'node:timers/promises';
import { END, EVENT_TYPE, EventStoreDBClient } from '@eventstore/db-client';
import type { RecordedEvent } from '../../src/kernel/event.js';
import { type Appended, StoreUnavailable, WrongExpectedRevision } from '../../src/stores/ports/event-store.js';
import { EventStoreDbEventStore } from '../../src/stores/eventstoredb/eventstoredb-event-store.js';
import { eventually } from '../contracts/harness.js';
import { newStream, sampleEvents } from '../contracts/sample-events.js';
import { Child } from '../embedded/processes/child.js';
import { canMount, longCases, longTest, repeated } from '../faults/faults.js';
import { SmallDisk } from '../faults/small-disk.js';
import { describeWithEventStored, type EventStored, startEventStored } from '../servers/eventstored.js';
import { Proxy } from '../servers/proxy.js';

/** ms; a time limit for a busy machine. */
const LONG = 180_000;

/** Always with a server of their own. */
describeWithEventStored('when EventStoreDB or the connection to it fails', () => {
  let server: EventStored;
  let proxy: Proxy;
  let throughProxy: string;
  const stores: EventStoreDbEventStore[] = [];
  const children: Child[] = [];

  beforeAll(async () => {
    server = await startEventStored({ onDisk: true });
  }, LONG);
  afterAll(() => server?.stop());
  beforeEach(async () => {
    proxy = await Proxy.to(server.port);
    throughProxy = `esdb://127.0.0.1:${proxy.port}?tls=false`;
  });
  afterEach(async () => {
    proxy.mode = 'open';
    await Promise.all(children.splice(0).map((child) => child.kill()));
    await Promise.all(stores.splice(0).map((store) => store.close()));
    await proxy.close();
  });

  async function open(url: string, patience: { answerMs?: number; patienceMs?: number } = {}) {
    const store = await EventStoreDbEventStore.open({ url, ...patience });
    stores.push(store);
    return store;
  }

  function appender(by: 'adapter' | 'client', bytes: number): Child {
    const child = new Child(new URL('./processes/appender.ts', import.meta.url), [throughProxy, by, `${bytes}`]);
    children.push(child);
    return child;
  }

  /** Follows the log in the background; `seen` grows. */
  function follow(store: EventStoreDbEventStore, after: number) {
    const abort = new AbortController();
    const seen: RecordedEvent[] = [];
    const ended = (async () => {
      for await (const slice of store.subscribe(after, { sliceSize: 50, signal: abort.signal })) {
        expect(slice[0]!.metadata.index).toBe(0);
        expect(slice.at(-1)!.metadata.index).toBe(slice.at(-1)!.metadata.size - 1);
        seen.push(...slice);
      }
    })();
    return { seen, stop: () => (abort.abort(), ended) };
  }

  async function everythingAfter(store: EventStoreDbEventStore, position: number): Promise<RecordedEvent[]> {
    const all: RecordedEvent[] = [];
    for await (const slice of store.readAll(position)) all.push(...slice);
    return all;
  }

  /** 64 writers for as long as asked, each append with a stream of its own; what became of each. */
  function writers(store: EventStoreDbEventStore, count = 64) {
    const outcomes = new Map<string, Appended | Error>();
    let going = true;
    const write = async () => {
      while (going) {
        const stream = newStream('fault');
        const outcome = await store.append(stream, 'no-stream', sampleEvents(stream, 2)).catch((e: Error) => e);
        outcomes.set(stream, outcome);
      }
    };
    const ended = Promise.all(Array.from({ length: count }, write));
    const acknowledged = () => [...outcomes.values()].filter((outcome) => !(outcome instanceof Error)).length;
    return { outcomes, acknowledged, stop: () => ((going = false), ended) };
  }

  /** Everything acknowledged is in the log where its writer was told, everything in the log is there once and whole. */
  function expectExactlyOnce(log: RecordedEvent[], outcomes: Map<string, Appended | Error>) {
    const byStream = new Map<string, RecordedEvent[]>();
    for (const event of log) byStream.set(event.stream, [...(byStream.get(event.stream) ?? []), event]);
    expect(new Set(log.map(({ id }) => id)).size).toBe(log.length);
    for (const [stream, outcome] of outcomes) {
      const events = byStream.get(stream) ?? [];
      if (outcome instanceof Error) {
        expect(outcome).toBeInstanceOf(StoreUnavailable);
        expect([0, 2]).toContain(events.length);
      } else {
        expect(events.map(({ revision }) => revision)).toEqual([0, 1]);
        expect(events[1]!.position).toBe(outcome.position);
      }
    }
  }

  test(
    'a store that is abandoned while the server gives no answers refuses at once what waits for it',
    async () => {
      const store = await open(throughProxy, { answerMs: 200, patienceMs: LONG });
      proxy.mode = 'stalled';
      const stream = newStream('abandoned');
      const waiting = [
        store.append(stream, 'no-stream', sampleEvents(stream, 1)),
        store.readStream(stream),
        store.readAt(1),
        store.head(),
        everythingAfter(store, 0),
      ].map((call) => call.catch((error: unknown) => error));
      await eventually(() => store.connection.isUnavailable, 'the outage is noticed');
      store.abandon();
      for (const outcome of await Promise.all(waiting)) expect(outcome).toBeInstanceOf(StoreUnavailable);
      await expect(store.head()).rejects.toThrow(StoreUnavailable);
      await store.close();
    },
    LONG,
  );

  test('a store that is abandoned while the server answers goes on until it is closed', async () => {
    const store = await open(throughProxy);
    store.abandon();
    const stream = newStream('kept');
    expect((await store.append(stream, 'no-stream', sampleEvents(stream, 1))).position).toBeGreaterThan(0);
  });

  test(
    'kill -9 and a restart under 64 concurrent appends: nothing acknowledged is lost, nothing is there twice',
    async () => {
      const store = await open(server.url);
      const start = await store.head();
      const { logId } = store;
      const follower = follow(store, start);
      const { outcomes, acknowledged, stop } = writers(store);
      for (let round = 0; round < repeated(1, 2); round++) {
        const before = acknowledged();
        await eventually(() => acknowledged() > before + 300, 'appending');
        await server.kill();
        await sleep(300);
        await server.start();
        const restarted = acknowledged();
        await eventually(() => acknowledged() > restarted + 100, 'appending after the restart');
      }
      await stop();
      const log = await everythingAfter(store, start);
      expectExactlyOnce(log, outcomes);
      await eventually(() => follower.seen.length === log.length, 'following');
      await follower.stop();
      expect(follower.seen).toEqual(log);
      // A process that starts now reads the same; a retry gets the first answer.
      const other = await open(server.url);
      expect(other.logId).toBe(logId);
      expect(await everythingAfter(other, start)).toEqual(log);
      for (const [stream, outcome] of [...outcomes].filter(([, o]) => !(o instanceof Error)).slice(0, 20)) {
        expect(await other.append(stream, 'no-stream', sampleEvents(stream, 2))).toEqual(outcome);
      }
    },
    LONG,
  );

  test(
    'appends that depend on each other keep their order over a broken connection',
    async () => {
      const store = await open(throughProxy);
      const start = await store.head();
      const stream = newStream('chain');
      const appends: Promise<Appended>[] = [];
      for (let n = 0; n < 300; n++) {
        appends.push(store.append(stream, n === 0 ? 'no-stream' : n - 1, sampleEvents(stream, 1, { n })));
        if (n % 100 === 60) proxy.cut();
        if (n % 10 === 0) await sleep(1);
      }
      expect((await Promise.all(appends)).map(({ revision }) => revision)).toEqual(appends.map((_, n) => n));
      const log = await everythingAfter(store, start);
      expect(log.map(({ data }) => data['n'])).toEqual(appends.map((_, n) => n));
    },
    LONG,
  );

  test(
    'lost acknowledgements never yield a second event',
    async () => {
      // Long enough for a busy machine: while no connection is known to answer, no append is sent.
      const answerMs = 3_000;
      const store = await open(throughProxy, { answerMs, patienceMs: LONG });
      const start = await store.head();
      const direct = await open(server.url);
      proxy.mode = 'deaf';
      // As many as are always sent at once, also while the time of an idle server is measured.
      const streams = Array.from({ length: 8 }, () => newStream('deaf'));
      const appends = streams.map((stream) => store.append(stream, 'no-stream', sampleEvents(stream, 2)));
      // Stored, and the writers do not know.
      await eventually(async () => (await direct.countAfter(start)) === 16, 'the appends arrived');
      await sleep(answerMs + 500);
      expect(await Promise.race([...appends, sleep(0)])).toBeUndefined();
      proxy.mode = 'open';
      const answers = await Promise.all(appends);
      const log = await everythingAfter(direct, start);
      expect(log).toHaveLength(16);
      for (const [n, stream] of streams.entries()) {
        expect((await direct.readStream(stream)).at(-1)!.position).toBe(answers[n]!.position);
      }
      // And another command that wants the stream is told so.
      const other = sampleEvents(streams[0]!, 1, { other: true });
      await expect(store.append(streams[0]!, 'no-stream', other)).rejects.toBeInstanceOf(WrongExpectedRevision);
    },
    LONG,
  );

  test.each(longCases(['stalled'] as const, ['hanging'] as const))(
    'a network that is %s: StoreUnavailable in time, bounded waiting, and all well within 5 s after',
    async (mode) => {
      const patience = { answerMs: 400, patienceMs: 1_200 };
      const store = await open(throughProxy, patience);
      const stream = newStream();
      const { position: start } = await store.append(stream, 'no-stream', sampleEvents(stream));
      const follower = follow(store, start);
      proxy.mode = mode;
      const began = Date.now();
      const calls = {
        append: store.append('never', 'no-stream', sampleEvents('never')),
        readStream: store.readStream(stream),
        readAt: store.readAt(start),
        head: store.head(),
        countAfter: store.countAfter(start),
        readAll: everythingAfter(store, start),
      };
      for (const call of Object.values(calls)) await expect(call).rejects.toBeInstanceOf(StoreUnavailable);
      // The patience of a service, which this one does not have.
      expect(Date.now() - began).toBeLessThan(8_000);
      await expect(calls.append).rejects.toThrow(`127.0.0.1:${proxy.port} gives no definite answer`);

      const { outcomes, acknowledged, stop } = writers(store);
      await sleep(1.5 * patience.patienceMs);
      expect(acknowledged()).toBe(0);
      // More than can wait is refused at once.
      const flood = await Promise.race([
        Promise.allSettled(
          Array.from({ length: 5_000 }, (_, n) => store.append(`flood-${n}`, 'no-stream', sampleEvents(`flood-${n}`))),
        ),
        sleep(10_000),
      ]);
      expect(flood).toHaveLength(5_000);

      const mended = Date.now();
      proxy.mode = 'open';
      await eventually(() => acknowledged() > 64, 'appending again');
      await eventually(() => follower.seen.length > 100, 'following again');
      expect(await store.readAt(start)).toMatchObject({ stream });
      expect(Date.now() - mended).toBeLessThan(5_000);
      await stop();
      const log = await everythingAfter(store, start);
      expectExactlyOnce(
        log.filter((event) => event.stream.startsWith('fault')),
        outcomes,
      );
      await eventually(() => follower.seen.length === log.length, 'following to the end');
      await follower.stop();
      expect(follower.seen).toEqual(log);
    },
    LONG,
  );

  longTest(
    'a connection that breaks under load ends the process of the client’s own appendToStream, and not of this',
    async () => {
      const [adapter, client] = [appender('adapter', 20_000), appender('client', 20_000)];
      type Line = { appended: number; refused: Record<string, number>; rss: number; sockets: number };
      const last = (child: Child) => child.lines.at(-1) as Line;
      for (const child of [adapter, client]) {
        while ((await child.printed(1)) && last(child).appended < 100) await child.printed(child.lines.length + 1);
      }
      const before = last(adapter).rss;
      proxy.mode = 'stalled';
      await adapter.printed(adapter.lines.length + 10);
      proxy.cut();
      // Should this fail, the client has been mended: then the adapter can append with it.
      expect(await client.exited).toBe(1);
      await adapter.printed(adapter.lines.length + 30);
      expect(last(adapter).refused).toEqual({ StoreUnavailable: expect.any(Number) });
      expect(last(adapter).rss - before).toBeLessThan(150 * 1024 * 1024);
      const { appended } = last(adapter);
      expect(last(adapter).sockets).toBeLessThan(6);
      proxy.mode = 'open';
      await adapter.printed(adapter.lines.length + 20);
      expect(last(adapter).appended).toBeGreaterThan(appended);
    },
    LONG,
  );

  longTest(
    'a subscription that the server drops ("Consumer too slow") leaves no gap and no duplicate',
    async () => {
      const store = await open(throughProxy, { answerMs: 10_000, patienceMs: 20_000 });
      const direct = await open(server.url);
      const start = await direct.head();
      const follower = follow(store, start);
      const stream = newStream();
      await direct.append(stream, 'no-stream', sampleEvents(stream));
      await eventually(() => follower.seen.length === 1, 'following');
      // One as the adapter has: does the server really drop it?
      const raw = EventStoreDBClient.connectionString(throughProxy);
      const filter = {
        filterOn: EVENT_TYPE as typeof EVENT_TYPE,
        regex: '^$',
        maxSearchWindow: 1,
        checkpointInterval: 1,
      };
      const subscription = raw.subscribeToAll({ fromPosition: END, filter });
      const dropped = new Promise<Error>((resolve) => subscription.on('error', resolve));
      await new Promise<void>((resolve) => subscription.on('confirmation', () => resolve()));

      proxy.mode = 'stalled';
      for (let round = 0; round < 8; round++) {
        await Promise.all(
          Array.from({ length: 500 }, () => {
            const name = newStream('slow');
            return direct.append(name, 'no-stream', sampleEvents(name, 3));
          }),
        );
      }
      proxy.mode = 'open';
      expect((await dropped).message).toMatch(/too slow/);
      await raw.dispose();
      await direct.append(stream, 0, sampleEvents(stream, 1, { after: true }));
      await eventually(() => follower.seen.length === 12_002, 'following to the end');
      await follower.stop();
      expect(follower.seen).toEqual(await everythingAfter(direct, start));
    },
    LONG,
  );

  (canMount() ? longTest : test.skip)(
    'a server whose disk is full ends; with space it is started again, and has all that was acknowledged',
    async () => {
      const disk = new SmallDisk(340);
      const full = await startEventStored({ onDisk: true, under: disk.folder });
      try {
        const store = await open(full.url);
        const acknowledged: string[] = [];
        const append = async () => {
          const stream = newStream();
          await store.append(stream, 'no-stream', sampleEvents(stream));
          acknowledged.push(stream);
        };
        for (let n = 0; n < 20; n++) await append();
        disk.fill();
        await expect(
          (async () => {
            for (;;) await append();
          })(),
        ).rejects.toThrow(StoreUnavailable);
        await eventually(() => full.hasEnded, 'its end');
        disk.free();
        await full.start();
        await eventually(
          () =>
            append().then(
              () => true,
              () => false,
            ),
          'an append',
        );
        for (const stream of acknowledged) expect(await store.readStream(stream)).toHaveLength(1);
      } finally {
        await Promise.all(stores.splice(0).map((store) => store.close()));
        await full.stop();
        disk.unmount();
      }
    },
    LONG,
  );

  longTest('a reader that stands still for a while holds nobody up', async () => {
    const writer = await open(server.url, { answerMs: 60_000, patienceMs: 60_000 });
    const start = await writer.head();
    await Promise.all(
      Array.from({ length: 200 }, () => {
        const stream = newStream();
        return writer.append(stream, 'no-stream', sampleEvents(stream, 1, { text: 'x'.repeat(20_000) }));
      }),
    );
    // The reader stands still for longer than its server may be silent.
    const store = await open(server.url, { answerMs: 2_000, patienceMs: 4_000 });
    const events: RecordedEvent[] = [];
    for await (const slice of store.readAll(start, { sliceSize: 20 })) {
      if (events.length === 0) {
        for (let n = 0; n < 30; n++) {
          await sleep(100);
          expect(await store.head()).toBeGreaterThan(start);
        }
      }
      events.push(...slice);
    }
    expect(events).toHaveLength(200);
  });
});
