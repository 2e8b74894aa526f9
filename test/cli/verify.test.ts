import { setTimeout as sleep } from 'node:timers/promises';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { applyAll } from '../../src/cli/read-models.js';
import { MODULES } from '../../src/kernel/config.js';
import { PROJECTIONS } from '../../src/read-side/all-projections.js';
import { Follower } from '../../src/read-side/follower.js';
import { ensureManifest } from '../../src/read-side/manifest.js';
import { decorated } from '../../src/kernel/decorated.js';
import type { Json } from '../../src/kernel/json.js';
import { sortByPosition } from '../../src/kernel/positions.js';
import { verify } from '../../src/read-side/verify.js';
import { EncodedRows } from '../../src/stores/ports/encoded-rows.js';
import type { RowKey } from '../../src/stores/ports/read-models.js';
import { type Stores, closeStores, openStores } from '../../src/stores/open.js';
import { action, actions, SLOW, Store } from './credence.js';
import { importActions } from './importing.js';
import { eventually } from '../contracts/harness.js';
import { plantAction } from '../contracts/sample-events.js';
import { Server } from '../e2e/server.js';

let store: Store;
beforeAll(async () => {
  store = await Store.create();
  expect((await store.run('orgs', 'register', 'tris:org:a', '--platforms', 'platform-1,platform-2')).code).toBe(0);
  expect((await store.run('orgs', 'vet', 'tris:org:a')).code).toBe(0);
  const own = action(1, { tris_id: 'tris:org:a', external_id: 'own' });
  expect((await store.run('import', store.file('actions.ndjson', [...actions(400), own]))).code).toBe(0);
}, SLOW);
afterAll(() => store.remove());

async function withStores<T>(work: (stores: Stores) => Promise<T>): Promise<T> {
  const stores = await openStores(store.data, Date.now);
  try {
    return await work(stores);
  } finally {
    await closeStores(stores);
  }
}

/** Stores a row behind the projector's back; undefined deletes it. */
async function put({ readModels }: Stores, row: RowKey, value: Json | undefined): Promise<void> {
  const { id, checkpoint } = (await readModels.generations())[0]!;
  const changed =
    value === undefined
      ? { puts: new EncodedRows(), deletes: [row] }
      : { puts: EncodedRows.of([{ row, value }]), deletes: [] };
  const batch = { id: `planted ${Math.random()}`, base: checkpoint, next: checkpoint, holder: 'test', ...changed };
  expect(await readModels.acquireLease(id, 'test', 60_000)).toBe(true);
  expect(await readModels.apply(id, batch)).toBe('applied');
  await readModels.releaseLease(id, 'test');
}

async function stored({ readModels }: Stores, row: RowKey): Promise<Json | undefined> {
  const { id } = (await readModels.generations())[0]!;
  return (await readModels.read(id, [{ get: row }]))!.results[0] as Json | undefined;
}

/** Changes a row behind the projector's back, does something, and puts the row back. */
async function planted<T>(
  stores: Stores,
  row: RowKey,
  change: (before: Json | undefined) => Json | undefined,
  work: (before: Json | undefined, planted: Json | undefined) => Promise<T>,
): Promise<T> {
  const before = await stored(stores, row);
  const value = change(structuredClone(before));
  await put(stores, row, value);
  try {
    return await work(before, value);
  } finally {
    await put(stores, row, before);
  }
}

test('verify --index says how many events the stored index does not contain yet', async () => {
  const { code, stdout } = await store.run('verify', '--index');
  expect(code).toBe(0);
  expect(stdout).toMatch(/^0 events and 0 entries of the index compared/);
  expect(stdout).toMatch(/the newest [\d,]{3,} events are not in it yet: each process reads them from the log/);
  expect(stdout).toMatch(/^identical$/m);
});

test('verify never reports a generation that is still being built as identical', async () => {
  const other = await Store.create();
  try {
    expect((await other.run('import', other.file('actions.ndjson', actions(20)))).code).toBe(0);
    await rm(join(other.data, 'views'), { recursive: true });
    const stores = await openStores(other.data, Date.now);
    await ensureManifest(PROJECTIONS, stores.eventStore, stores.readModels);
    await closeStores(stores);
    const { code, stdout } = await other.run('verify');
    expect(code).toBe(1);
    expect(stdout).toMatch(/STILL BUILDING: g1 has not applied \d\d events of the log yet/);
    expect(stdout).not.toMatch(/^identical/m);
    expect(JSON.parse((await other.run('verify', '--json')).stdout)).toMatchObject({ identical: false });
  } finally {
    await other.remove();
  }
});

test('verify finds the rows of the projector identical, in one part or in several', async () => {
  const { code, stdout } = await store.run('verify', '--json');
  const result = JSON.parse(stdout) as Awaited<ReturnType<typeof verify>>;
  expect(result).toMatchObject({ identical: true, difference: null });
  expect(result.rows).toBeGreaterThan(600);
  expect(code).toBe(0);

  const inParts = await withStores(({ eventStore, readModels }) =>
    verify(eventStore, readModels, { sizes: { eventsPerPartition: 120 } }),
  );
  expect(inParts.difference).toBeNull();
  expect(inParts.generations[0]!.passes).toBeGreaterThan(5);
  expect(inParts.rows).toBe(result.rows);
  expect(result.generations[0]!.disk_bytes).toBe(0);
  expect(inParts.generations[0]!.disk_bytes).toBeGreaterThan(10_000);
});

test('verify reads the log once for the rows, in however many parts it folds it, and once for the tree', async () => {
  await withStores(async ({ eventStore, readModels }) => {
    let read = 0;
    const counted = decorated(eventStore, {
      async *readAll(after, options) {
        for await (const slice of eventStore.readAll(after, options)) {
          read += slice.length;
          yield slice;
        }
      },
    });
    const { events, generations } = await verify(counted, readModels, { sizes: { eventsPerPartition: 300 } });
    expect(generations[0]!.passes).toBeGreaterThan(1);
    expect(read).toBe(2 * events);
  });
});

test('verify says in one sentence that the disk has no space for its files', async () => {
  await withStores(async ({ eventStore, readModels }) => {
    const sizes = { eventsPerPartition: 120, reservedBytes: Infinity };
    await expect(verify(eventStore, readModels, { sizes })).rejects.toThrow(/^The disk of .* is almost full: .*\.$/);
  });
});

const identity = { view: 'identities', key: 'tris:member-3' };
const listed = { view: 'organizations', key: 'all', sort: 'tris:org:a' };
const event = { view: 'timeline', key: 'tris:member-0', sort: sortByPosition(6) };

test.each<[string, RowKey, (row: Json | undefined) => Json | undefined]>([
  ['a wrong number', identity, (row) => ({ ...(row as object), actions: 1 })],
  ['a wrong flag in a small view', listed, (row) => ({ ...(row as object), vetted: false })],
  ['a missing row', identity, () => undefined],
  ['a missing row that no fold reads', event, () => undefined],
  [
    'a row too many',
    { view: 'credonations', key: 'tris:nobody', sort: sortByPosition(7) },
    () => ['tris:bob', 10, 0, 'social', 'e1'],
  ],
  ['an identity too many', { view: 'identities', key: 'tris:nobody' }, () => ({ actions: 1 })],
  ['a wrong change', { view: 'identities.changes', key: 'all', sort: sortByPosition(5) }, () => 'tris:member-9'],
])('%s is found', async (_name, row, change) => {
  await withStores(async (stores) => {
    const { eventStore, readModels } = stores;
    await planted(stores, row, change, async (before, value) => {
      for (const sizes of [{}, { eventsPerPartition: 240 }]) {
        const { difference } = await verify(eventStore, readModels, { sizes });
        expect(difference).toMatchObject({ ...row, expected: before ?? null, found: value ?? null });
      }
    });
    expect((await verify(eventStore, readModels)).difference).toBeNull();
  });
});

const ACTION = {
  metric: 'financial_loan',
  criticality: 'High',
  platform_id: 'platform-1',
  evidence_hash: null,
};

test('a row that was changed wrongly after its page was read is found', async () => {
  await withStores(async (stores) => {
    const { eventStore, readModels } = stores;
    let finish = () => {};
    const compared = new Promise<void>((resolve) => (finish = resolve));
    let changing: Promise<void> | undefined;
    const change = async () => {
      await plantAction(eventStore, { ...ACTION, tris_id: identity.key });
      const { signal } = new AbortController();
      await new Follower(eventStore, readModels).follow('g1', { signal, toHead: true });
      await new Promise<void>((planting) => {
        changing = planted(
          stores,
          identity,
          () => ({ wrong: true }),
          () => (planting(), compared),
        );
      });
    };
    // After the identities.
    const scan: typeof readModels.scan = async (id, view, ...page) => {
      if (view === 'timeline' && !changing) await change();
      return readModels.scan(id, view, ...page);
    };
    const { difference } = await verify(eventStore, decorated(readModels, { scan }));
    finish();
    await changing;
    expect(difference).toMatchObject({ view: 'identities', key: identity.key, found: { wrong: true } });
  });
});

test('a wrong row that no event changes is found while events change others', async () => {
  await withStores(async (stores) => {
    const { eventStore, readModels } = stores;
    let isChanged = false;
    const scan: typeof readModels.scan = async (id, view, ...page) => {
      if (view === event.view && !isChanged) {
        isChanged = true;
        await plantAction(eventStore, { ...ACTION, tris_id: 'tris:zz' });
        const { signal } = new AbortController();
        await new Follower(eventStore, readModels).follow('g1', { signal, toHead: true });
      }
      return readModels.scan(id, view, ...page);
    };
    const { difference } = await planted(
      stores,
      event,
      () => undefined,
      () => verify(eventStore, decorated(readModels, { scan })),
    );
    expect([isChanged, difference]).toMatchObject([true, { ...event, found: null }]);
  });
});

test('verify ends although more rows are written than it compares meanwhile', async () => {
  await withStores(async (stores) => {
    const { eventStore, readModels } = stores;
    let [pages, reads] = [0, 0];
    const grow = async () => {
      const actions = Array.from({ length: 300 }, () => plantAction(eventStore, { ...ACTION, tris_id: 'tris:zz' }));
      await Promise.all(actions);
      const { signal } = new AbortController();
      await new Follower(eventStore, readModels).follow('g1', { signal, toHead: true });
    };
    const scan: typeof readModels.scan = async (id, view, cursor) => {
      if (view === 'timeline' && pages++ === 0) await grow();
      return readModels.scan(id, view, cursor, 100);
    };
    const read: typeof readModels.read = async (id, rows) => {
      if (rows.length > 0) {
        if (++reads > 20) throw new Error('rows are compared that were written meanwhile');
        await grow();
      }
      return readModels.read(id, rows);
    };
    const { difference } = await verify(eventStore, decorated(readModels, { read, scan }));
    expect(difference).toBeNull();
    expect(reads).toBeGreaterThan(2);
  });
});

test('verify prints the difference and exits with 1', async () => {
  const before = await withStores((stores) => stored(stores, identity));
  await withStores((stores) => put(stores, identity, { wrong: true }));
  const { code, stdout } = await store.run('verify');
  await withStores((stores) => put(stores, identity, before));
  expect(stdout).toMatch(
    /DIFFERENT: identities tris:member-3 of g1, at position \d+\n {2}expected \{"events".*\n {2}found {4}\{"wrong":true\}\n$/,
  );
  expect(code).toBe(1);
});

test(
  'beside a server under load nothing differs',
  async () => {
    const server = await Server.start({ data: store.data });
    let running = true;
    let sent = 0;
    const load = async (worker: number) => {
      for (let n = 0; running; n++) {
        expect((await server.relay(action(n, { external_id: `load-${worker}-${n}` }))).status).toBe(202);
        sent++;
        // Each of the passes below reads the whole log.
        await sleep(20);
      }
    };
    const workers = Array.from({ length: 8 }, (_, worker) => load(worker));
    try {
      const first = await store.run('verify', '--json');
      const before = sent;
      await eventually(async () => sent > Math.max(50, before + workers.length), 'further relays');
      const runs = [first, await store.run('verify', '--json')];
      const results = runs.map(({ stdout }) => JSON.parse(stdout) as Awaited<ReturnType<typeof verify>>);
      expect(results.map(({ difference }) => difference)).toEqual([null, null]);
      expect(runs.map(({ code }) => code)).toEqual([0, 0]);
      expect(results[1]!.events).toBeGreaterThan(results[0]!.events);
    } finally {
      running = false;
      await Promise.allSettled(workers);
      await server.stop();
    }
    expect(sent).toBeGreaterThan(50);
  },
  SLOW,
);

test(
  'in parts, while the read models move on between every two pages, nothing differs',
  () =>
    withStores(async (stores) => {
      const { eventStore, readModels } = stores;
      const more = actions(400).map((one, n) => ({ ...one, external_id: `later-${n}` }));
      const files = Array.from({ length: 20 }, (_, n) => store.file(`later-${n}`, more.slice(20 * n, 20 * (n + 1))));
      let pages = 0;
      const scan: typeof readModels.scan = async (id, view, cursor) => {
        const file = files[pages++];
        if (file !== undefined) {
          await importActions(stores, file);
          await applyAll(stores, { modules: MODULES });
        }
        return readModels.scan(id, view, cursor, 300);
      };
      const { difference } = await verify(eventStore, decorated(readModels, { scan }), {
        sizes: { eventsPerPartition: 500 },
      });
      expect(difference).toBeNull();
      expect(pages).toBeGreaterThan(files.length);
    }),
  SLOW,
);
