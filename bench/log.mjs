import { randomUUID } from 'node:crypto';
import { open } from 'lmdb';
import { eventId } from '../dist/src/stores/ports/event-encoding.js';
import { LmdbEventStore } from '../dist/src/stores/lmdb/lmdb-event-store.js';
import { mostBytes, writeEntry } from '../dist/src/stores/lmdb/stored-event.js';
import { drop, rebuild } from '../dist/src/read-side/generations.js';
import { closeStores, openStores } from '../dist/src/stores/open.js';
import { inTemporaryFolder, interleave, median } from './measure.mjs';
import { fillLog } from './population.mjs';

/** The log and the read models, without HTTP. */

const IN_FLIGHT = 256;
/** How our log opens LMDB. */
export const ENVIRONMENT = { noSubdir: false, overlappingSync: false };
export const LOG = { encoding: 'binary', keyEncoding: 'uint32' };

/** Appends of one event each, to different streams. */
export function newAppends(count) {
  return Array.from({ length: count }, (_, n) => {
    const stream = `action-${randomUUID()}`;
    const body_hash = randomUUID().replaceAll('-', '').repeat(2);
    const now = new Date().toISOString();
    const metadata = {
      schema: 1,
      occurred_at: now,
      recorded_at: now,
      correlation_id: randomUUID(),
      actor: 'key:bench',
      body_hash,
      index: 0,
      size: 1,
    };
    const data = {
      tris_id: `tris:${n}`,
      metric: 'financial_loan_repayment',
      criticality: 'High',
      platform_id: 'lender',
      evidence_hash: null,
    };
    return { stream, event: { id: eventId(stream, body_hash, 0), type: 'ActionRelayed', data, metadata } };
  });
}

/** The bytes that our log stores for an event. */
export function entryOf({ stream, revision, position, ...event }) {
  const bytes = Buffer.alloc(mostBytes(stream, JSON.stringify(event).length));
  const length = writeEntry(bytes, 0, { ...event, stream, revision, position });
  return Buffer.from(bytes.subarray(0, length));
}

/** What is stored for them, with the keys. */
export function rawEntries(appends, before) {
  return appends.map(({ stream, event }, n) => {
    const key = before + n + 1;
    return { key, stream, entry: entryOf({ ...event, stream, revision: 0, position: key }) };
  });
}

/** Runs `one` for each item, so many at a time. */
export async function inFlight(items, one, atATime = IN_FLIGHT) {
  let next = 0;
  const worker = async () => {
    while (next < items.length) await one(items[next++]);
  };
  await Promise.all(Array.from({ length: atATime }, worker));
}

/**
 * Durable appends of one event each, 256 in flight, through the port and as raw puts of the same bytes: of the events
 * alone, and of the events and their entries in an index of streams. What is to be appended is made beforehand, a part
 * at a time, so that it does not fill the memory of any.
 */
export async function append(rounds, events = 200_000, part = 20_000) {
  const timed = async (put) => {
    let milliseconds = 0;
    for (let done = 0; done < events; done += part) {
      const prepared = put.prepare(newAppends(part), done);
      const started = performance.now();
      await inFlight(prepared, put.one);
      milliseconds += performance.now() - started;
    }
    return (1000 * events) / milliseconds;
  };
  return interleave(rounds, {
    ours: () =>
      inTemporaryFolder(async (folder) => {
        const store = await LmdbEventStore.open(`${folder}/log`);
        const rate = await timed({
          prepare: (appends) => appends,
          one: ({ stream, event }) => store.append(stream, 'no-stream', [event]),
        });
        await store.close();
        return rate;
      }),
    peer: () =>
      inTemporaryFolder(async (folder) => {
        const log = open({ ...ENVIRONMENT, ...LOG, path: folder });
        const rate = await timed({ prepare: rawEntries, one: ({ key, entry }) => log.put(key, entry) });
        await log.close();
        return rate;
      }),
    indexed: () =>
      inTemporaryFolder(async (folder) => {
        const root = open({ ...ENVIRONMENT, path: folder });
        const log = root.openDB({ name: 'log', ...LOG });
        const index = root.openDB({ name: 'index', encoding: 'binary' });
        const position = Buffer.alloc(4);
        const rate = await timed({
          prepare: rawEntries,
          one: ({ key, entry, stream }) => {
            position.writeUInt32LE(key);
            void index.put([stream, 0], Buffer.from(position));
            return log.put(key, entry);
          },
        });
        await root.close();
        return rate;
      }),
  });
}

/**
 * A full rebuild of all views, and a scan of the same log that parses every event and does nothing: events/s, and
 * processor time of all threads per event, in microseconds.
 */
export function rebuildAll(rounds, identities) {
  return inTemporaryFolder(async (data) => {
    const events = await fillLog(data, identities, 5);
    const stores = await openStores(data, Date.now);
    const cpu = { ours: [], peer: [] };
    const timed = (name, work) => async () => {
      const [started, used] = [performance.now(), process.cpuUsage()];
      const clear = await work();
      const { user, system } = process.cpuUsage(used);
      const rate = (1000 * events) / (performance.now() - started);
      cpu[name].push((user + system) / events);
      await clear?.();
      return rate;
    };
    const rates = await interleave(rounds, {
      ours: timed('ours', async () => {
        const built = await rebuild('all', stores.eventStore, stores.readModels, new AbortController().signal);
        return () => drop(built.id, stores.readModels);
      }),
      peer: timed('peer', async () => {
        for await (const slice of stores.eventStore.readAll(0, { sliceSize: 5_000 })) void slice.length;
      }),
    });
    await closeStores(stores);
    return { events, rates, cpu: { ours: median(cpu.ours), peer: median(cpu.peer) } };
  });
}
