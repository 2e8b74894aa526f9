import { spawnSync } from 'node:child_process';
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { LmdbEventStore } from '../../src/stores/lmdb/lmdb-event-store.js';
import { LmdbJobs } from '../../src/stores/lmdb/lmdb-jobs.js';
import { LmdbKeyValue } from '../../src/stores/lmdb/lmdb-key-value.js';
import { LmdbReadModels } from '../../src/stores/lmdb/lmdb-read-models.js';
import { temporaryFolder } from './temporary-folder.js';

/**
 * What another process was told is stored is seen by every read that begins after its message has arrived, however soon:
 * the library by itself keeps a snapshot for a millisecond, and for as long as the event loop is busy.
 */

const LOADER = fileURLToPath(new URL('./processes/typescript.mjs', import.meta.url));
const STORER = fileURLToPath(new URL('./processes/storer.ts', import.meta.url));

/** Runs to its end, without a turn of this process's event loop: its exit is the message. */
function storeInAnotherProcess(folder: string): void {
  const { status, stderr } = spawnSync(process.execPath, ['--import', LOADER, STORER, folder], {
    env: { ...process.env, NODE_OPTIONS: '' },
  });
  if (status !== 0) throw new Error(stderr.toString());
}

/** The phases of the event loop in which messages arrive, each with one that follows before its timers and its end. */
const PHASES = {
  'after input, before what was deferred': { begin: () => stat('.'), message: () => setImmediate() },
  'after what was deferred, before its next turn': { begin: () => setImmediate(), message: () => stat('.') },
};

test.each(Object.entries(PHASES))('reads see what another process has stored: %s', async (_name, phase) => {
  const folder = await temporaryFolder();
  const clock = Date.now;
  const log = await LmdbEventStore.open(join(folder.path, 'log'));
  const models = await LmdbReadModels.open(join(folder.path, 'views'), { clock });
  const keyValue = await LmdbKeyValue.open(join(folder.path, 'state'), { clock });
  const jobs = await LmdbJobs.open(join(folder.path, 'state'), { clock });
  const seen = async () => {
    const [head, read, manifest, value, job] = await Promise.all([
      log.head(),
      models.read('one', [{ get: { view: 'people', key: 'a' } }]),
      models.manifest(),
      keyValue.get('key'),
      jobs.get('work', 'one'),
    ]);
    const { status, results } = read!;
    return { head, status, results, revision: manifest?.revision, value, job: job?.status };
  };
  try {
    await models.createGeneration('one', { people: 1 }, 'log');

    await phase.begin();
    const before = seen();
    const message = phase.message();
    storeInAnotherProcess(folder.path);
    await message;
    const after = seen();

    expect(await before).toEqual({ head: 0, status: 'building', results: [undefined] });
    expect(await after).toEqual({ head: 1, status: 'ready', results: [1], revision: 1, value: 'value', job: 'queued' });
  } finally {
    await Promise.all([log.close(), models.close(), keyValue.close(), jobs.close()]);
    await folder.remove();
  }
});
