import { randomUUID } from 'node:crypto';
import { open } from 'lmdb';
import { encodeAppend, eventId, storedText } from '../dist/src/event-store/encoding.js';
import { LmdbEventStore } from '../dist/src/event-store/lmdb-event-store.js';
import { drop, rebuild } from '../dist/src/projector/generations.js';
import { closeStores, openStores } from '../dist/src/stores.js';
import { inTemporaryFolder, interleave, rssAnon } from './measure.mjs';
import { fillLog } from './population.mjs';

/** The log and the read models, without HTTP. */

const IN_FLIGHT = 256;

/** Durable appends of one event each, 256 in flight, through the port and as raw puts of the same bytes. */
export async function append(rounds, events = 200_000) {
  const appends = Array.from({ length: events }, (_, n) => {
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
  const texts = appends.map(({ stream, event }) => storedText(stream, 0, encodeAppend(stream, [event])[0]));
  const timed = async (put) => {
    const started = performance.now();
    let next = 0;
    const worker = async () => {
      while (next < events) await put(next++);
    };
    await Promise.all(Array.from({ length: IN_FLIGHT }, worker));
    return (1000 * events) / (performance.now() - started);
  };
  return interleave(rounds, {
    ours: () =>
      inTemporaryFolder(async (folder) => {
        const store = await LmdbEventStore.open(`${folder}/log`);
        const rate = await timed((n) => store.append(appends[n].stream, 'no-stream', [appends[n].event]));
        await store.close();
        return rate;
      }),
    peer: () =>
      inTemporaryFolder(async (folder) => {
        const db = open({
          path: folder,
          noSubdir: false,
          overlappingSync: false,
          encoding: 'string',
          keyEncoding: 'uint32',
        });
        const rate = await timed((n) => db.put(n + 1, texts[n]));
        await db.close();
        return rate;
      }),
  });
}

/** A full rebuild of all views, and a scan of the same log that decodes every event and does nothing. */
export function rebuildAll(rounds, identities = 20_000) {
  return inTemporaryFolder(async (data) => {
    const events = await fillLog(data, identities, 5);
    const stores = await openStores(data, Date.now);
    const rate = async (work) => {
      const started = performance.now();
      await work();
      return (1000 * events) / (performance.now() - started);
    };
    const result = await interleave(rounds, {
      ours: async () => {
        let built;
        const figure = await rate(async () => {
          built = await rebuild('all', stores.eventStore, stores.readModels, new AbortController().signal);
        });
        await drop(built.id, stores.readModels);
        return figure;
      },
      peer: () =>
        rate(async () => {
          for await (const slice of stores.eventStore.readAll(0, { sliceSize: 5_000 })) void slice.length;
        }),
    });
    await closeStores(stores);
    return result;
  });
}

/** Anonymous memory in MB after a rebuild of many identities, run in a process of its own. */
export async function memoryAfterRebuild(data) {
  const stores = await openStores(data, Date.now);
  await rebuild('all', stores.eventStore, stores.readModels, new AbortController().signal);
  const megabytes = await rssAnon();
  await closeStores(stores);
  return megabytes;
}
