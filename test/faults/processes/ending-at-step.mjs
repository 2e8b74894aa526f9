import { writeSync } from 'node:fs';
import files from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';
import { isMainThread } from 'node:worker_threads';

/**
 * Preloaded into the built service (`--import`), kills it at a step of making a checkpoint of the log, END_AT, the first
 * time that it comes to it after the signal SIGUSR2. The steps, in their order:
 *   append, appending, appended  of LogCheckpointed: before it, while it is on its way, and once it is in the log
 *   fold, folding, folded        the same of the rows of the tree that have its leaf
 *   sign                         before it is signed
 *   keep, keeping                cluster profile: before the signed note is kept in PostgreSQL, and meanwhile
 *   draft, rename                half of the note is in a file beside the key; all of it is there, without its name
 *   kept                         it is kept, and nobody has seen it
 */
if (isMainThread) {
  let isArmed = false;
  process.on('SIGUSR2', () => (isArmed = true));
  const isAt = (step) => isArmed && step === process.env.END_AT;
  const reach = (step) => {
    if (!isAt(step)) return;
    writeSync(2, `ended at ${step}\n`);
    process.kill(process.pid, 'SIGKILL');
  };
  /** Reached with the request on its way: whether it succeeds, nobody can tell. */
  const whileOnItsWay = async (step, outcome) => {
    outcome.catch(() => undefined);
    await new Promise(setImmediate);
    reach(step);
    return outcome;
  };

  const built = (path) => import(new URL(`../../../dist/src/${path}`, import.meta.url));
  const isCluster = process.env.CREDENCE_PROFILE === 'cluster';
  const { prototype: log } = isCluster
    ? (await built('stores/eventstoredb/eventstoredb-event-store.js')).EventStoreDbEventStore
    : (await built('stores/lmdb/lmdb-event-store.js')).LmdbEventStore;
  const { prototype: models } = isCluster
    ? (await built('stores/postgres/postgres-read-models.js')).PostgresReadModels
    : (await built('stores/lmdb/lmdb-read-models.js')).LmdbReadModels;
  const { prototype: signed } = (await built('credentials/log-key.js')).SignedCheckpoints;

  /** The id of the event that was to be appended last. Nothing is recorded after it while its rows are folded. */
  let checkpoint;
  const { append } = log;
  log.append = async function (stream, expected, events) {
    if (events[0].type !== 'LogCheckpointed') return append.call(this, stream, expected, events);
    checkpoint = events[0].id;
    reach('append');
    const outcome = await whileOnItsWay('appending', append.call(this, stream, expected, events));
    reach('appended');
    return outcome;
  };

  const { apply } = models;
  models.apply = async function (id, batch) {
    if (batch.next.event_id !== checkpoint) return apply.call(this, id, batch);
    reach('fold');
    const outcome = await whileOnItsWay('folding', apply.call(this, id, batch));
    reach('folded');
    return outcome;
  };

  const { sign } = signed;
  signed.sign = async function (...args) {
    reach('sign');
    const isSigned = await sign.apply(this, args);
    reach('kept');
    return isSigned;
  };

  const isDraft = (path) => /\.checkpoint(\.[\w-]+)?\.tmp$/.test(String(path));
  const { writeFile, rename } = files;
  files.writeFile = async (path, text, ...rest) => {
    if (!isDraft(path) || !isAt('draft')) return writeFile(path, text, ...rest);
    await writeFile(path, text.slice(0, text.length / 2));
    reach('draft');
  };
  files.rename = async (from, to) => {
    if (isDraft(from)) reach('rename');
    return rename(from, to);
  };
  syncBuiltinESMExports();

  if (isCluster) {
    const { prototype: entries } = (await built('stores/postgres/postgres-key-value.js')).PostgresKeyValue;
    for (const name of ['putIfAbsent', 'replace']) {
      const keep = entries[name];
      entries[name] = async function (key, ...rest) {
        if (key !== 'log-checkpoint') return keep.call(this, key, ...rest);
        reach('keep');
        return whileOnItsWay('keeping', keep.call(this, key, ...rest));
      };
    }
  }
}
