import { existsSync, writeFileSync } from 'node:fs';
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { LmdbEventStore } from '../../src/stores/lmdb/lmdb-event-store.js';
import { LmdbJobs } from '../../src/stores/lmdb/lmdb-jobs.js';
import { LmdbKeyValue } from '../../src/stores/lmdb/lmdb-key-value.js';
import { LmdbReadModels } from '../../src/stores/lmdb/lmdb-read-models.js';
import { Child } from './processes/child.js';
import { temporaryFolder } from './temporary-folder.js';

/**
 * What another process was told is stored is seen by every read that begins after its message has arrived, however soon:
 * the library by itself keeps a snapshot for a millisecond, and for as long as the event loop is busy.
 */

/** Runs to its end, without a turn of this process's event loop: the file is the message. */
function storeInAnotherProcess(folder: string): void {
  writeFileSync(join(folder, 'store'), '');
  const moment = new Int32Array(new SharedArrayBuffer(4));
  while (!existsSync(join(folder, 'stored'))) Atomics.wait(moment, 0, 0, 1);
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
    const storer = new Child(new URL('./processes/storer.ts', import.meta.url), [folder.path]);
    await storer.printed(1);

    await phase.begin();
    const before = seen();
    const message = phase.message();
    storeInAnotherProcess(folder.path);
    await message;
    const after = seen();

    expect([await storer.exited, storer.stderr]).toEqual([0, '']);
    expect(await before).toEqual({ head: 0, status: 'building', results: [undefined] });
    expect(await after).toEqual({ head: 1, status: 'ready', results: [1], revision: 1, value: 'value', job: 'queued' });
  } finally {
    await Promise.all([log.close(), models.close(), keyValue.close(), jobs.close()]);
    await folder.remove();
  }
});
