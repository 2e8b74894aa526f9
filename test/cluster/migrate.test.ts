import { appendFileSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { EventStoreDBClient } from '@eventstore/db-client';
import { parseRatings, toAction } from '../../examples/otc.mjs';
import { EventStoreDbEventStore } from '../../src/stores/eventstoredb/eventstoredb-event-store.js';
import type { EventStore } from '../../src/stores/ports/event-store.js';
import { LmdbEventStore } from '../../src/stores/lmdb/lmdb-event-store.js';
import { appendsOf, rootOfLog, importEvents } from '../../src/stores/transfer.js';
import { Store } from '../cli/credence.js';
import { ACTION } from '../e2e/server.js';
import { temporaryFolder } from '../embedded/temporary-folder.js';
import { type EventStored, describeWithEventStored, startEventStored } from '../servers/eventstored.js';

/** A log moves between the profiles and stays the same log. */

const LONG = 180_000;
/** Of members of Bitcoin-OTC about each other. */
const RATINGS = parseRatings(readFileSync('examples/bitcoin-otc-excerpt.csv', 'utf8'));
const ACTIONS = RATINGS.length;
/** Copied before the interruption. */
const COPIED = 70;
/** The first event of the log, and two for each action; one for flags, which give no credonation. */
const eventsIn = (actions: number) =>
  RATINGS.slice(0, actions).reduce((sum, { rating }) => sum + (rating > 0 ? 2 : 1), 1);

describeWithEventStored('migrate', () => {
  let server: EventStored;
  let store: Store;
  beforeAll(async () => {
    [server, store] = await Promise.all([startEventStored(), Store.create({ isBuilt: true })]);
    const file = join(store.folder, 'actions.ndjson');
    for (const rating of RATINGS) {
      appendFileSync(file, `${JSON.stringify({ ...toAction(rating), evidence_uri: 'https://a.example/1' })}\n`);
    }
    expect((await store.run('import', file)).code).toBe(0);
    store.variables['EVENTSTORE_URL'] = server.url;
  }, LONG);
  afterAll(async () => {
    await Promise.all([server.stop(), store.remove()]);
  }, LONG);

  async function anotherStore(): Promise<Store> {
    const other = await Store.create({ isBuilt: true });
    other.variables['EVENTSTORE_URL'] = server.url;
    return other;
  }

  interface Result {
    equal: boolean;
    copied: number;
    from: { events: number; root: string };
    to: { events: number; root: string };
  }
  const there = ['migrate', '--from', 'embedded', '--to', 'cluster'] as const;

  // The first of these tests: the server is still empty.
  test(
    'the status of an empty EventStoreDB is refused, and gives it no log',
    async () => {
      const other = await anotherStore();
      Object.assign(other.variables, {
        CREDENCE_PROFILE: 'cluster',
        REDIS_URL: 'redis://127.0.0.1:1',
        CREDENCE_DATABASE_URL: 'postgres://credence@127.0.0.1:1/credence',
      });
      const { code, stderr } = await other.run('status');
      expect([code, stderr]).toEqual([1, expect.stringContaining('holds no log yet: start the service, or import.')]);
      const client = EventStoreDBClient.connectionString(server.url);
      const streams: string[] = [];
      for await (const { event } of client.readAll()) if (event) streams.push(event.streamId);
      expect(streams.filter((name) => !name.startsWith('$'))).toEqual([]);
      await client.dispose();
      await other.remove();
    },
    LONG,
  );

  test(
    'what was interrupted goes on; there and back every event is the same, and a repetition copies nothing',
    async () => {
      const source = await LmdbEventStore.open(join(store.data, 'log'), {});
      const target = await EventStoreDbEventStore.open({ url: server.url });
      const interrupted = importEvents(firstOf(appendsOf(source), 1 + COPIED), target);
      expect((await interrupted).appended).toBe(eventsIn(COPIED));
      await Promise.all([source.close(), target.close()]);

      const first = await store.json<Result>(...there);
      expect(first).toMatchObject({
        equal: true,
        copied: eventsIn(ACTIONS) - eventsIn(COPIED),
        from: { events: eventsIn(ACTIONS) },
      });
      expect(first.to).toEqual(first.from);
      expect(await store.json<Result>(...there)).toMatchObject({ equal: true, copied: 0, from: first.from });

      const other = await anotherStore();
      const back = await other.json<Result>('migrate', '--from', 'cluster', '--to', 'embedded');
      expect(back).toMatchObject({ equal: true, copied: eventsIn(ACTIONS), from: first.from, to: first.from });
      await other.remove();
    },
    LONG,
  );

  test(
    'another log is refused, and a longer one is found',
    async () => {
      const other = await anotherStore();
      const file = join(other.folder, 'other.ndjson');
      appendFileSync(file, JSON.stringify({ ...ACTION, external_id: 'other' }));
      await other.run('import', file);
      const refused = await other.run(...there);
      expect([refused.code, refused.stderr]).toEqual([
        1,
        expect.stringContaining('The log contains a different event'),
      ]);
      await other.remove();

      const more = join(store.folder, 'more.ndjson');
      appendFileSync(more, JSON.stringify({ ...ACTION, external_id: 'more' }));
      await store.run('import', more);
      const longer = await store.run('migrate', '--from', 'cluster', '--to', 'embedded');
      expect([longer.code, longer.stdout]).toEqual([1, expect.stringMatching(/DIFFERENT\n$/)]);
    },
    LONG,
  );

  test('the hash depends on every part of an event, and on its order', async () => {
    const place = await temporaryFolder();
    const source = await LmdbEventStore.open(join(store.data, 'log'), {});
    const hashes = new Set<string>();
    for (const change of [
      (event: any) => event,
      (event: any) => ({ ...event, data: { ...event.data, criticality: 'Low' } }),
      (event: any) => ({ ...event, metadata: { ...event.metadata, actor: 'key:other' } }),
      (event: any) => ({ ...event, type: 'Other' }),
    ]) {
      const copy: EventStore = await LmdbEventStore.open(join(place.path, String(hashes.size)), {});
      const changed = (async function* () {
        for await (const append of firstOf(appendsOf(source), 10)) yield append.map(change);
      })();
      await importEvents(changed, copy);
      hashes.add((await rootOfLog(copy)).root);
      await copy.close();
    }
    expect(hashes.size).toBe(4);
    await source.close();
    await place.remove();
  });
});

async function* firstOf<T>(items: AsyncIterable<T>, count: number): AsyncIterable<T> {
  let taken = 0;
  for await (const item of items) {
    if (taken++ === count) return;
    yield item;
  }
}
