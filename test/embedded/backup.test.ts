import { jest } from '@jest/globals';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { keepText, keptText } from '../../src/commands/kept-texts.js';
import { sha256Hex } from '../../src/kernel/hash.js';
import { backup } from '../../src/stores/backup.js';
import { LmdbEnvironment } from '../../src/stores/lmdb/environment.js';
import { LmdbKeyValue } from '../../src/stores/lmdb/lmdb-key-value.js';
import { closeStores, openStores } from '../../src/stores/open.js';
import { rootOfLog } from '../../src/stores/transfer.js';
import { plantEvent } from '../contracts/sample-events.js';
import { temporaryFolder } from './temporary-folder.js';

test('a backup has the texts of all events in it, also of those recorded while the state was being copied', async () => {
  const place = await temporaryFolder();
  const [data, target] = [join(place.path, 'data'), join(place.path, 'copy')];
  const stores = await openStores(data, Date.now);
  const record = async (text: string) => {
    await keepText(stores.keyValue, text);
    await plantEvent(stores.eventStore, `text-${text}`, 'Named', { hash: sha256Hex(text) });
  };
  const late = Array.from({ length: 2_500 }, (_, n) => `late-${n}`);
  await record('early');
  const copyState = LmdbEnvironment.prototype.backup;
  const copying = jest.spyOn(LmdbEnvironment.prototype, 'backup').mockImplementationOnce(async function (
    this: LmdbEnvironment,
    folder,
  ) {
    await copyState.call(this, folder);
    await Promise.all(late.map(record));
  });
  const told: number[] = [];
  await backup(data, target, { onProgress: (done) => told.push(done) });
  copying.mockRestore();
  await closeStores(stores);

  const restored = await openStores(target, Date.now);
  const lost: string[] = [];
  for (const text of ['early', ...late]) {
    if ((await keptText(restored.keyValue, sha256Hex(text))) === null) lost.push(text);
  }
  const events = await restored.eventStore.countAfter(0);
  await closeStores(restored);
  await place.remove();
  expect(told.at(-1)).toBe(events);
  expect({ events, lost }).toEqual({ events: 2_501, lost: [] });
});

test('a backup says whether the log begins with what was signed', async () => {
  const place = await temporaryFolder();
  const data = join(place.path, 'data');
  const stores = await openStores(data, Date.now);
  for (const n of [1, 2, 3]) await plantEvent(stores.eventStore, `stream-${n}`, 'Named', { n });
  const { events: size, root } = await rootOfLog(stores.eventStore);
  await plantEvent(stores.eventStore, 'later', 'Named', {});
  const other = Buffer.alloc(32).toString('base64');
  const cases = [undefined, { size, root }, { size, root: other }, { size: size + 2, root }];
  const found: boolean[] = [];
  for (const [n, signed] of cases.entries()) {
    found.push((await backup(data, join(place.path, `copy-${n}`), { signed })).isAsSigned);
  }
  await closeStores(stores);
  await place.remove();
  expect(found).toEqual([true, true, false, false]);
});

test.each(['while it copies', 'while it reads the copy'])(
  'a backup that is interrupted %s leaves nothing',
  async (when) => {
    const place = await temporaryFolder();
    const data = join(place.path, 'data');
    const stores = await openStores(data, Date.now);
    await plantEvent(stores.eventStore, 'one', 'Named', {});
    const interrupting = new AbortController();
    const { close } = LmdbKeyValue.prototype;
    const copyState = LmdbEnvironment.prototype.backup;
    const copying = jest.spyOn(LmdbEnvironment.prototype, 'backup');
    const reading = jest.spyOn(LmdbKeyValue.prototype, 'close');
    const interrupt = () => interrupting.abort(new Error('interrupted'));
    if (when === 'while it copies') {
      copying.mockImplementationOnce(async function (this: LmdbEnvironment, folder) {
        await copyState.call(this, folder);
        interrupt();
      });
    } else {
      reading.mockImplementationOnce(async function (this: LmdbKeyValue) {
        await close.call(this);
        interrupt();
      });
    }
    await expect(backup(data, join(place.path, 'copy'), interrupting)).rejects.toThrow(/^interrupted$/);
    copying.mockRestore();
    reading.mockRestore();
    await closeStores(stores);
    expect(await readdir(place.path)).toEqual(['data']);
    await place.remove();
  },
);
