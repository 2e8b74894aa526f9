import { register } from 'node:module';
import { LmdbEventStore } from '../dist/src/stores/lmdb/lmdb-event-store.js';
import { newAppends } from './log.mjs';
import { inTemporaryFolder, interleave, median } from './measure.mjs';

/** The cost of the embedded log's checksums: the same code with and without them, in turn. */

/** Without them: the query of the import replaces the function in the files that compute them. */
const STAND_INS = { 'node:zlib': 'export const crc32 = () => 0;' };
const HOOKS = `
  const standIns = ${JSON.stringify(STAND_INS)};
  export function resolve(specifier, context, next) {
    if (!context.parentURL?.endsWith('?plain')) return next(specifier, context);
    if (standIns[specifier]) {
      return { url: 'data:text/javascript,' + encodeURIComponent(standIns[specifier]), shortCircuit: true };
    }
    return next(['./stream-index.js', './stored-event.js'].includes(specifier) ? specifier + '?plain' : specifier, context);
  }`;

const EVENTS = 60_000;
const IN_FLIGHT = 256;

/**
 * Microseconds of processor time per event: of durable appends, 256 in flight, and of reads of one event.
 * @returns {Promise<{ append: { ours: number, peer: number }, look: { ours: number, peer: number } }>} `peer`: without
 */
export async function checksums(rounds) {
  register(`data:text/javascript,${encodeURIComponent(HOOKS)}`);
  const plain = await import('../dist/src/stores/lmdb/lmdb-event-store.js?plain');
  const looks = { ours: [], peer: [] };
  const run = (Store, looks) =>
    inTemporaryFolder(async (folder) => {
      const store = await Store.open(`${folder}/log`);
      const appends = newAppends(EVENTS);
      let next = 0;
      const worker = async () => {
        while (next < EVENTS) {
          const { stream, event } = appends[next++];
          await store.append(stream, 'no-stream', [event]);
        }
      };
      const append = await processorTime(() => Promise.all(Array.from({ length: IN_FLIGHT }, worker)));
      looks.push(
        await processorTime(async () => {
          for (let n = 0; n < EVENTS; n++) await store.readAt(1 + ((n * 7_919) % EVENTS));
        }),
      );
      await store.close();
      return append;
    });
  const append = await interleave(rounds, {
    ours: () => run(LmdbEventStore, looks.ours),
    peer: () => run(plain.LmdbEventStore, looks.peer),
  });
  return { append, look: { ours: median(looks.ours), peer: median(looks.peer) } };
}

/** Microseconds per event, of all threads. */
async function processorTime(work) {
  globalThis.gc?.();
  const before = process.cpuUsage();
  await work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / EVENTS;
}
