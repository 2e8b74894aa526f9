import { randomUUID } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { ANY, EventStoreDBClient, jsonEvent } from '@eventstore/db-client';
import type { NewEvent, RecordedEvent } from '../../src/kernel/event.js';
import { StartError } from '../../src/kernel/start-error.js';
import { AppendRefused } from '../../src/stores/ports/event-store.js';
import { EventStoreDbEventStore } from '../../src/stores/eventstoredb/eventstoredb-event-store.js';
import { LmdbEventStore } from '../../src/stores/lmdb/lmdb-event-store.js';
import { appendsIn, exportEvents, importEvents } from '../../src/stores/transfer.js';
import type { Problem } from '../../src/kernel/problems.js';
import { PROJECTIONS } from '../../src/read-side/all-projections.js';
import { ensureManifest } from '../../src/read-side/manifest.js';
import { Views } from '../../src/read-side/views.js';
import { EncodedRows } from '../../src/stores/ports/encoded-rows.js';
import { LmdbReadModels } from '../../src/stores/lmdb/lmdb-read-models.js';
import { describeEventStore } from '../contracts/event-store.contract.js';
import { eventually } from '../contracts/harness.js';
import { newStream, sampleEvents } from '../contracts/sample-events.js';
import { temporaryFolder } from '../embedded/temporary-folder.js';
import { makeCertificates } from '../servers/certificates.js';
import { isOnPath } from '../servers/programs.js';
import { Proxy } from '../servers/proxy.js';
import { describeWithEventStored, type EventStored, noEventStore, startEventStored } from '../servers/eventstored.js';

/** ms; a time limit for a busy machine. */
const LONG = 180_000;

/** Of all tests that do not need another. */
let starting: Promise<EventStored> | undefined;
const sharedServer = () => (starting ??= startEventStored());
afterAll(async () => (await starting)?.stop());

describeWithEventStored('the log in EventStoreDB', () => {
  let server: EventStored;
  let client: EventStoreDBClient;
  let folder: Awaited<ReturnType<typeof temporaryFolder>>;
  const stores: EventStoreDbEventStore[] = [];
  const others: EventStored[] = [];
  beforeAll(async () => {
    server = await sharedServer();
    client = EventStoreDBClient.connectionString(server.url);
  }, LONG);
  afterAll(() => client?.dispose());
  beforeEach(async () => void (folder = await temporaryFolder()));
  afterEach(async () => {
    await Promise.all(stores.splice(0).map((store) => store.close()));
    await Promise.all(others.splice(0).map((other) => other.stop()));
    await folder.remove();
  });

  async function anotherServer(args: string[] = []): Promise<EventStored> {
    const other = await startEventStored({ args });
    others.push(other);
    return other;
  }

  async function open(options: Partial<Parameters<typeof EventStoreDbEventStore.open>[0]> = {}) {
    const store = await EventStoreDbEventStore.open({ url: server.url, ...options });
    stores.push(store);
    return store;
  }
  async function everythingAfter(store: EventStoreDbEventStore, position: number): Promise<RecordedEvent[]> {
    const all: RecordedEvent[] = [];
    for await (const slice of store.readAll(position)) all.push(...slice);
    return all;
  }
  async function appendOne(store: EventStoreDbEventStore, size = 1) {
    const stream = newStream();
    return { stream, ...(await store.append(stream, 'no-stream', sampleEvents(stream, size))) };
  }

  test('readers skip the server’s own events', async () => {
    const store = await open();
    const start = await store.head();
    const first = await appendOne(store);
    await client.setStreamMetadata(first.stream, { maxAge: 1_000_000 });
    const second = await appendOne(store, 2);
    const abort = new AbortController();
    const following = store.subscribe(second.position, { signal: abort.signal })[Symbol.asyncIterator]();
    const next = following.next();
    for (let n = 0; n < 100; n++) {
      await client.appendToStream('$statistics', jsonEvent({ type: '$stats', data: {} }), { expectedRevision: ANY });
    }
    await client.appendToStream('links', jsonEvent({ type: '$>', data: {} }));
    expect(await store.head()).toBe(second.position);
    expect(await (await open()).head()).toBe(second.position);
    expect(await store.countAfter(start)).toBe(3);
    expect(await store.countAfter(second.position)).toBe(0);
    expect((await everythingAfter(store, start)).map(({ stream }) => stream)).toEqual([
      first.stream,
      second.stream,
      second.stream,
    ]);
    expect(await Promise.race([next, sleep(600)])).toBeUndefined();
    const third = await appendOne(store);
    expect((await next).value).toMatchObject([{ stream: third.stream }]);
    expect(await store.head()).toBe(third.position);
    abort.abort();
    await following.next();
  });

  test('a stream of which an operator has deleted events is refused, not taken for what is left of it', async () => {
    const store = await open();
    const { stream } = await appendOne(store, 3);
    await client.setStreamMetadata(stream, { maxCount: 1 });
    await expect(store.readStream(stream)).rejects.toMatchObject({ code: 'history_unreadable' });
    await expect(store.readStream(stream, { from: 1, limit: 1 })).rejects.toMatchObject({ code: 'history_unreadable' });
    expect(await store.readStream(stream, { from: 2 })).toHaveLength(1);
    await client.tombstoneStream(stream);
    await expect(store.readStream(stream)).rejects.toMatchObject({ code: 'history_unreadable' });
    const append = store.append(stream, 2, sampleEvents(stream, 1));
    await expect(append).rejects.toMatchObject({ code: 'history_unreadable' });
  });

  test('a subscription reads what is appended within 20 ms together, and everything in order', async () => {
    const store = await open();
    const abort = new AbortController();
    const slices: RecordedEvent[][] = [];
    const head = await store.head();
    const following = (async () => {
      for await (const slice of store.subscribe(head, { signal: abort.signal })) slices.push(slice);
    })();
    const appended: number[] = [];
    const began = performance.now();
    for (let n = 0; n < 60; n++) appended.push((await appendOne(store)).position);
    await eventually(() => slices.flat().length >= appended.length, 'every event');
    const took = performance.now() - began;
    abort.abort();
    await following;
    expect(slices.flat().map(({ position }) => position)).toEqual(appended);
    expect(slices.length).toBeLessThanOrEqual(took / 20 + 2);
  });

  test('a stream or type of the server’s, and an id that is no UUID, are refused before they are sent', async () => {
    const store = await open();
    const append = (stream: string, change: Partial<NewEvent>) =>
      store.append(stream, 'any', [{ ...sampleEvents(stream)[0]!, ...change }]);
    await expect(append('$all', {})).rejects.toThrow(AppendRefused);
    await expect(append('credence-log', {})).rejects.toThrow(AppendRefused);
    await expect(append(newStream(), { type: '$metadata' })).rejects.toThrow(AppendRefused);
    await expect(append(newStream(), { id: 'x' })).rejects.toThrow(AppendRefused);
    await expect(append(newStream(), { id: randomUUID().toUpperCase() })).rejects.toThrow(AppendRefused);
    await appendOne(store);
  });

  test('an unknown position has no event, and a read from it finds everything after it', async () => {
    const store = await open();
    const { position } = await appendOne(store);
    const { stream } = await appendOne(store, 2);
    for (const odd of [position + 1, position + 7]) {
      expect(await store.readAt(odd)).toBeUndefined();
      expect((await everythingAfter(store, odd)).map((event) => event.stream)).toEqual([stream, stream]);
      expect(await store.countAfter(odd)).toBe(2);
    }
    expect(await everythingAfter(store, Number.MAX_SAFE_INTEGER)).toEqual([]);
    for (const none of [-1, 0.5, NaN, Infinity, Number.MAX_SAFE_INTEGER]) {
      expect(await store.readAt(none)).toBeUndefined();
    }
  });

  test('counts a thousand events, and estimates more', async () => {
    const store = await open();
    const start = await store.head();
    for (let n = 0; n < 5; n++) {
      await Promise.all(Array.from({ length: 250 }, () => appendOne(store, 2)));
    }
    const positions = (await everythingAfter(store, start)).map(({ position }) => position);
    expect(positions).toHaveLength(2_500);
    for (const index of [2_499, 2_498, 2_000, 1_500]) {
      expect(await store.countAfter(positions[index]!)).toBe(2_499 - index);
    }
    for (const index of [0, 1, 999]) {
      expect(Math.abs((await store.countAfter(positions[index]!)) / (2_499 - index) - 1)).toBeLessThan(0.2);
    }
    expect(Math.abs((await store.countAfter(start)) / 2_500 - 1)).toBeLessThan(0.2);
  });

  test('estimates how many events there are also if the first ones are larger than the others', async () => {
    const store = await open();
    const start = await store.head();
    for (const [appends, text] of [
      [10, 'x'.repeat(3_000)],
      [30, ''],
    ] as const) {
      for (let n = 0; n < appends; n++) {
        const stream = newStream();
        const events = sampleEvents(stream, 100).map((event) => ({ ...event, data: { ...event.data, text } }));
        await store.append(stream, 'no-stream', events);
      }
    }
    expect(Math.abs((await store.countAfter(start)) / 4_000 - 1)).toBeLessThan(0.2);
  });

  test('an estimate reads a small part of the log: every build begins with one', async () => {
    const other = await anotherServer();
    const proxy = await Proxy.to(Number(new URL(other.url).port));
    try {
      const store = await open({ url: other.url.replace(`:${new URL(other.url).port}`, `:${proxy.port}`) });
      for (let n = 0; n < 200; n++) {
        const stream = newStream();
        await store.append(stream, 'no-stream', sampleEvents(stream, 50));
      }
      const bytesOf = async (work: () => Promise<unknown>) => {
        const before = proxy.answered;
        await work();
        return proxy.answered - before;
      };
      const all = await bytesOf(() => everythingAfter(store, 0));
      expect(await bytesOf(() => store.countAfter(0))).toBeLessThan(all / 2);
    } finally {
      await Promise.all(stores.splice(0).map((store) => store.close()));
      await proxy.close();
    }
  });

  test('the progress of a build is in events, not in the server’s positions', async () => {
    const store = await open();
    const applied = await appendOne(store, 3);
    await appendOne(store, 2);
    const total = await store.countAfter(0);
    const models = await LmdbReadModels.open(folder.path, { clock: Date.now });
    const { views } = await ensureManifest(PROJECTIONS, store, models);
    const id = views['identities']!;
    const query = { get: { view: 'identities', key: 'somebody' } };
    const asked = new Views(store, models);
    const progress = async (): Promise<unknown> => {
      const told = await asked.read([query]).catch((error: Problem) => error.extra.members?.['progress']);
      // Nothing is told while the count takes longer than a refusal should.
      return told ?? progress();
    };
    expect(await progress()).toEqual({ done: 0, total });
    await models.acquireLease(id, 'test', LONG);
    const base = { log: store.logId, position: 0, event_id: null };
    const next = { ...base, position: applied.position, event_id: randomUUID() };
    await models.apply(id, { id: randomUUID(), base, holder: 'test', next, puts: new EncodedRows(), deletes: [] });
    expect(await progress()).toEqual({ done: total - 2, total });
    await models.close();
  });

  test('reports the duration of each append', async () => {
    const commits: { events: number; milliseconds: number }[] = [];
    const store = await open({ onCommit: (commit) => commits.push(commit) });
    await appendOne(store, 3);
    expect(commits).toEqual([{ events: 3, milliseconds: expect.any(Number) }]);
  });

  describe('on a database of its own, in this order,', () => {
    let own: EventStored;
    beforeAll(async () => void (own = await startEventStored()), LONG);
    afterAll(() => own?.stop());

    test('an empty database in place of a full one is refused, and stays empty', async () => {
      const marker = join(folder.path, 'eventstore.marker.json');
      await writeFile(marker, JSON.stringify({ log_id: 'lost', position: 5 }));
      for (let n = 0; n < 2; n++) {
        await expect(open({ url: own.url, marker })).rejects.toThrow('should contain the log lost but contains no log');
      }
    });

    test('is empty at first, and processes that start on it together agree on its id', async () => {
      const all = await Promise.all([1, 2, 3].map(() => open({ url: own.url })));
      expect(await all[0]!.head()).toBe(0);
      expect(await everythingAfter(all[0]!, 0)).toEqual([]);
      expect(await all[0]!.countAfter(0)).toBe(0);
      expect(new Set(all.map(({ logId }) => logId)).size).toBe(1);
    });

    test('imports an export of the embedded log with ids, times and order, also after an interruption', async () => {
      const embedded = await LmdbEventStore.open(join(folder.path, 'log'));
      for (let n = 0; n < 150; n++) {
        const stream = `transfer-${n % 40}-${folder.path}`;
        const last = (await embedded.readStream(stream)).at(-1);
        const events = sampleEvents(stream, 1 + (n % 3), { n });
        await embedded.append(stream, last ? last.revision : 'no-stream', events);
      }
      const lines: string[] = [];
      for await (const event of exportEvents(embedded)) lines.push(`${JSON.stringify(event)}\n`);
      await embedded.close();
      const [part, whole] = [join(folder.path, 'part'), join(folder.path, 'whole')];
      await writeFile(part, lines.slice(0, 150).join(''));
      await writeFile(whole, lines.join(''));

      const store = await open({ url: own.url });
      expect(await importEvents(appendsIn(part), store)).toEqual({ events: 150, appended: 150 });
      expect(await importEvents(appendsIn(whole), store)).toEqual({ events: 300, appended: 150 });
      expect(await importEvents(appendsIn(whole), store)).toEqual({ events: 300, appended: 0 });
      const withoutPosition = (event: RecordedEvent) => ({ ...event, position: undefined });
      expect((await everythingAfter(store, 0)).map(withoutPosition)).toEqual(
        lines.map((line) => withoutPosition(JSON.parse(line) as RecordedEvent)),
      );
    });

    test('an event that Credence did not write stops readers with an error message', async () => {
      const store = await open({ url: own.url });
      const raw = EventStoreDBClient.connectionString(own.url);
      await raw.appendToStream('orders-1', jsonEvent({ type: 'OrderPlaced', data: {} }));
      await raw.dispose();
      await expect(everythingAfter(store, 0)).rejects.toThrow(/OrderPlaced.*orders-1.*needs a database of its own/);
    });
  });

  describe('the marker', () => {
    test('it knows what a process has read that appends nothing, such as a worker', async () => {
      const marker = join(folder.path, 'reader.marker.json');
      const reader = await open({ marker });
      const writer = await open();
      const { position } = await appendOne(writer);
      await everythingAfter(reader, 0);
      await reader.close();
      await writer.close();
      expect(JSON.parse(await readFile(marker, 'utf8'))).toEqual({ log_id: writer.logId, position });
    });

    test('a different or shorter database is refused with one sentence', async () => {
      const marker = join(folder.path, 'eventstore.marker.json');
      const store = await open({ marker });
      const { position } = await appendOne(store);
      await store.close();
      expect(JSON.parse(await readFile(marker, 'utf8'))).toEqual({ log_id: store.logId, position });
      await (await open({ marker })).close();

      await writeFile(marker, JSON.stringify({ log_id: store.logId, position: position + 1 }));
      const lost = `The log in EventStoreDB at 127.0.0.1:${server.port} ends at position ${position} but has reached`;
      await expect(open({ marker })).rejects.toThrow(lost);
      await writeFile(marker, JSON.stringify({ log_id: 'another', position: 0 }));
      await expect(open({ marker })).rejects.toThrow(
        `should contain the log another but contains the log ${store.logId}`,
      );
    });
  });

  describe('the connection string', () => {
    const withTls = isOnPath('openssl') ? test : test.skip;
    withTls(
      'TLS and credentials are those of the client',
      async () => {
        const { authority, authorities, node, key } = makeCertificates(folder.path);
        const secure = await anotherServer([
          `--certificate-file=${node}`,
          `--certificate-private-key-file=${key}`,
          `--trusted-root-certificates-path=${authorities}`,
        ]);
        const url = (credentials: string, query = `tlsCAFile=${authority}`) =>
          `esdb://${credentials}127.0.0.1:${secure.port}?${query}`;
        // The server makes its first user a moment after it answers.
        let store: EventStoreDbEventStore | undefined;
        for (let tries = 0; !store; tries++) {
          store = await open({ url: url('admin:changeit@') }).catch(async (error) => {
            if (tries > 50) throw error;
            await sleep(200);
            return undefined;
          });
        }
        const { stream } = await appendOne(store, 2);
        expect(await store.readStream(stream)).toHaveLength(2);
        for (const credentials of ['admin:s3cret@', '']) {
          const refused = await open({ url: url(credentials) }).catch((error: Error) => error);
          expect(refused).toBeInstanceOf(StartError);
          expect((refused as Error).message).toMatch(/refuses the credentials/);
          expect((refused as Error).message).not.toContain('s3cret');
        }
        const patience = { answerMs: 500, patienceMs: 1_500 };
        await expect(open({ url: url('admin:changeit@', 'tls=true'), ...patience })).rejects.toThrow(/certificate/);
        await expect(open({ url: url('admin:changeit@', 'tls=false'), ...patience })).rejects.toThrow(StartError);
      },
      LONG,
    );

    test('nodes of a cluster are found by gossip, whichever of them is unavailable', async () => {
      const store = await open({ url: `esdb://127.0.0.1:1,127.0.0.1:${server.port}?tls=false&gossipTimeout=1` });
      const { stream } = await appendOne(store);
      expect(await store.readStream(stream)).toHaveLength(1);
      const discover = await open({
        url: `esdb+discover://127.0.0.1:${server.port}?tls=false&nodePreference=follower`,
      });
      expect(await discover.readStream(stream)).toHaveLength(1);
      const renamed = await open({ url: `kurrentdb://127.0.0.1:${server.port}?tls=false` });
      expect(await renamed.readStream(stream)).toHaveLength(1);
      await expect(
        open({ url: 'esdb://127.0.0.1:1,127.0.0.1:2?tls=false&maxDiscoverAttempts=1', patienceMs: 1_000 }),
      ).rejects.toThrow(/EventStoreDB at 127.0.0.1:1,127.0.0.1:2 gives no definite answer/);
    });

    test('nothing at the address: the reason is that of the operating system', async () => {
      await expect(open({ url: 'esdb://127.0.0.1:1?tls=false', patienceMs: 1_000 })).rejects.toThrow(
        /^EventStoreDB at 127.0.0.1:1 gives no definite answer: connect ECONNREFUSED 127.0.0.1:1\.$/,
      );
    });

    test('is never shown, and warnings are passed on without it', async () => {
      const shown: unknown[] = [];
      const { warn } = console;
      console.warn = (...args: unknown[]) => shown.push(...args);
      try {
        const warnings: string[] = [];
        const url = server.url.replace('//', '//admin:s3cret@');
        const store = await open({ url: `${url}&colour=blue&tlsVerifyCert=false`, onWarning: (w) => warnings.push(w) });
        await appendOne(store);
        expect(warnings.join()).toMatch(/Unknown option key "colour".*tlsVerifyCert/);
        const failures = await Promise.all(
          [
            'http://admin:s3cret@x',
            'esdb://admin:s3cret@',
            'esdb://admin:s3cret@x:y',
            'esdb://admin:s3cret@x?tls=maybe',
          ].map((bad) => open({ url: bad }).catch((error: Error) => error)),
        );
        for (const failure of failures) expect(failure).toBeInstanceOf(StartError);
        const away = await open({ url: 'esdb://admin:s3cret@127.0.0.1:1?tls=false', patienceMs: 300 }).catch(
          (e: Error) => e,
        );
        expect(away).toBeInstanceOf(StartError);
        const everything = [...shown, ...warnings, ...failures, away].map((said) =>
          said instanceof Error ? said.stack : said,
        );
        expect(everything.join('\n')).not.toContain('s3cret');
      } finally {
        console.warn = warn;
      }
    });
  });
});

// After the tests that begin with an empty database. The server in EVENTSTORE_URL may hold anything.
describeWithEventStored(
  'the cluster’s log',
  () => {
    let url: string;
    beforeAll(async () => void (url = process.env['EVENTSTORE_URL'] ?? (await sharedServer()).url), LONG);

    describeEventStore('EventStoreDB', async () => ({
      open: () => EventStoreDbEventStore.open({ url }),
      destroy: async () => undefined,
    }));
  },
  noEventStore,
);
