import { cpSync, mkdirSync, readFileSync, readdirSync } from 'node:fs';
import { register } from 'node:module';
import { join } from 'node:path';
import { GetIdentities, IdentityReader } from '../dist/src/features/disc/identity-reader.js';
import { score } from '../dist/src/features/disc/score.js';
import { Lenses } from '../dist/src/features/lenses/lenses.js';
import { Views } from '../dist/src/read-side/views.js';
import { LmdbEventStore } from '../dist/src/stores/lmdb/lmdb-event-store.js';
import { closeStores, openStores } from '../dist/src/stores/open.js';
import { newAppends } from './log.mjs';
import { populate } from './look-up.mjs';
import { costOf, fetchReady, keyOf, lookUpOptions, relayOptions } from './http.mjs';
import { ROOT, inTemporaryFolder, interleave, load, median, startServer } from './measure.mjs';
import { fillLog } from './population.mjs';

/** The cost of the checksums of the embedded log and of its read models: the same code with and without them, in turn. */

/**
 * Without them: the query of the import replaces the function in the files that compute them. Of a row that is followed
 * by its checksum, any content has this one.
 */
const STAND_INS = { 'node:zlib': 'export const crc32 = () => 0x2144df1c;' };
const WITHOUT = ['./stream-index.js', './stored-event.js', './log-reader.js', './lmdb-generation.js'];
const HOOKS = `
  const standIns = ${JSON.stringify(STAND_INS)};
  export function resolve(specifier, context, next) {
    if (!context.parentURL?.endsWith('?plain')) return next(specifier, context);
    if (standIns[specifier]) {
      return { url: 'data:text/javascript,' + encodeURIComponent(standIns[specifier]), shortCircuit: true };
    }
    return next(${JSON.stringify(WITHOUT)}.includes(specifier) ? specifier + '?plain' : specifier, context);
  }`;

const moduleOf = (text) => `data:text/javascript,${encodeURIComponent(text)}`;
/** The environment of a server that computes no checksums of rows. It checks the events that it starts with. */
const WITHOUT_CHECKSUMS_OF_ROWS = {
  NODE_OPTIONS: `--import ${moduleOf(`
    import { register } from 'node:module';
    register(${JSON.stringify(
      moduleOf(`
        export function resolve(specifier, context, next) {
          const isOfRows = specifier === 'node:zlib' && context.parentURL?.endsWith('/lmdb-generation.js');
          return isOfRows ? { url: ${JSON.stringify(moduleOf(STAND_INS['node:zlib']))}, shortCircuit: true } : next(specifier, context);
        }`),
    )});`)}`,
};

const SERVER = join(ROOT, 'dist/src/main.js');
const EVENTS = 60_000;
const IN_FLIGHT = 256;
const IDENTITIES = 20_000;
/** The difference is small: many short turns, which other work on the machine disturbs alike. */
const LOOK_UPS = 5_000;
const LOOK_UP_ROUNDS = 40;
const HTTP_ROUNDS = 10;
const PROFILED_SECONDS = 20;
let isRegistered = false;

function plain(file) {
  if (!isRegistered) register(moduleOf(HOOKS));
  isRegistered = true;
  return import(`../dist/src/stores/lmdb/${file}?plain`);
}

/**
 * Microseconds of processor time per event: of durable appends, 256 in flight, and of reads of one event.
 * @returns {Promise<{ append: { ours: number, peer: number }, look: { ours: number, peer: number } }>} `peer`: without
 */
export async function checksums(rounds) {
  const without = await plain('lmdb-event-store.js');
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
      const append = await processorTime(EVENTS, () => Promise.all(Array.from({ length: IN_FLIGHT }, worker)));
      looks.push(
        await processorTime(EVENTS, async () => {
          for (let n = 0; n < EVENTS; n++) await store.readAt(1 + ((n * 7_919) % EVENTS));
        }),
      );
      await store.close();
      return append;
    });
  const append = await interleave(rounds, {
    ours: () => run(LmdbEventStore, looks.ours),
    peer: () => run(without.LmdbEventStore, looks.peer),
  });
  return { append, look: { ours: median(looks.ours), peer: median(looks.peer) } };
}

/**
 * Microseconds of processor time of a score as the query answers it: of a random one of many identities, none of it
 * cached. @returns {Promise<{ ours: number, peer: number }>} `peer`: without the checksum of its row
 */
export async function checksumsOfLookUps(rounds) {
  const without = await plain('lmdb-read-models.js');
  return inTemporaryFolder(async (folder) => {
    const stores = await openStores(folder, Date.now);
    const { eventStore, readModels } = stores;
    await populate(stores, IDENTITIES);
    const others = await without.LmdbReadModels.open(join(folder, 'views'), { clock: Date.now });
    const run = (models) => {
      const views = new Views(eventStore, models);
      const reader = new IdentityReader(views, Date.now, new Lenses(eventStore));
      return () =>
        processorTime(LOOK_UPS, async () => {
          for (let n = 0; n < LOOK_UPS; n++) {
            const query = new GetIdentities({
              trisIds: [`tris:identity-${(n * 7_919) % IDENTITIES}`],
              coordinates: {},
            });
            const [snapshot] = await reader.execute(query);
            score(snapshot, eventStore.logId);
          }
        });
    };
    const [ours, peer] = [run(readModels), run(others)];
    for (let n = 0; n < 5; n++) for (const warmUp of [ours, peer]) await warmUp();
    const figures = await interleave(LOOK_UP_ROUNDS * rounds, { ours, peer });
    await others.close();
    await closeStores(stores);
    return figures;
  });
}

/**
 * Microseconds of processor time of a server for each score over HTTP, 64 connections: of one of many identities in
 * turn, so that no answer is cached. @returns {Promise<{ ours: number, peer: number }>} `peer`: without the checksums
 */
export function checksumsOverHttp(rounds) {
  const names = Array.from({ length: IDENTITIES }, (_, n) => `tris:identity-${(n * 7_919) % IDENTITIES}`);
  const started = [];
  const start = async (data, env = {}) => {
    const server = await startServer(SERVER, { CREDENCE_DATA: data, ...env });
    started.push(server);
    await fetchReady(`${server.url}/health/ready`);
    const run = () => costOf(server.pid, { ...lookUpOptions(server.url, names), connections: 64, seconds: 2 });
    for (let n = 0; n < 3; n++) await run();
    return run;
  };
  return inTemporaryFolder(async (folder) => {
    const [data, copy] = ['with', 'without'].map((name) => join(folder, name));
    mkdirSync(data);
    await fillLog(data, IDENTITIES, 5);
    cpSync(data, copy, { recursive: true });
    try {
      const ours = await start(data);
      const peer = await start(copy, WITHOUT_CHECKSUMS_OF_ROWS);
      return await interleave(HTTP_ROUNDS * rounds, { ours, peer });
    } finally {
      await Promise.all(started.map(({ stop }) => stop()));
    }
  });
}

/** The functions of a relay that compute, write or compare checksums. */
const OF_CHECKSUMS = new Set(['crc32', 'subjectChecksum', 'writeChecksum', 'readChecksum', 'checkedValue']);

/**
 * Relays over 256 connections to a server that is profiled: microseconds of its main thread for each, and of these the
 * share of the checksums. Two servers, with and without them, differ by more than that.
 */
export function checksumsOfRelays() {
  return inTemporaryFolder(async (folder) => {
    const [data, profiles] = ['data', 'profiles'].map((name) => join(folder, name));
    const profiling = ['--cpu-prof', '--cpu-prof-interval=200', `--cpu-prof-dir=${profiles}`];
    const server = await startServer(SERVER, { CREDENCE_DATA: data }, profiling);
    await fetchReady(`${server.url}/health/ready`);
    const relays = { ...relayOptions(server.url, keyOf(data)), connections: 256, seconds: PROFILED_SECONDS };
    const { requests } = await load(relays);
    await server.stop();
    let [all, share] = [0, 0];
    // That of the main thread is the longest.
    const texts = readdirSync(profiles).map((name) => readFileSync(join(profiles, name), 'utf8'));
    const { nodes, samples, timeDeltas } = JSON.parse(texts.sort((a, b) => b.length - a.length)[0]);
    const names = new Map(nodes.map(({ id, callFrame }) => [id, callFrame.functionName]));
    samples.forEach((id, n) => {
      const name = names.get(id);
      if (name === '(idle)') return;
      all += timeDeltas[n];
      if (OF_CHECKSUMS.has(name)) share += timeDeltas[n];
    });
    return { relay: all / requests, checksums: share / requests };
  });
}

/** Microseconds per item, of all threads. */
async function processorTime(items, work) {
  globalThis.gc?.();
  const before = process.cpuUsage();
  await work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / items;
}
