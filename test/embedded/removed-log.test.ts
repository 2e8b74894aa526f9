import { cpSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { LmdbEventStore } from '../../src/stores/lmdb/lmdb-event-store.js';
import { newStream, sampleEvents } from '../contracts/sample-events.js';
import { eventually } from '../contracts/harness.js';
import { temporaryFolder } from './temporary-folder.js';

/** A log whose folder is removed or replaced while it is open: nothing is written to what takes its place. */

let place: { path: string; remove(): Promise<void> };
let store: LmdbEventStore;
let log: string;
const warnings: string[] = [];
beforeEach(async () => {
  place = await temporaryFolder();
  warnings.length = 0;
  log = join(place.path, 'log');
  store = await LmdbEventStore.open(log, { onWarning: (message) => warnings.push(message) });
  await append();
});
afterEach(async () => {
  await store.close();
  await place.remove();
});

function append() {
  const stream = newStream();
  return store.append(stream, 'no-stream', sampleEvents(stream));
}
const REPLACED = { name: 'StoreUnavailable', code: 'log_replaced' };

test('the next append is refused, reads too, and one line says what to do', async () => {
  rmSync(log, { recursive: true });
  await expect(append()).rejects.toMatchObject(REPLACED);
  await expect(append()).rejects.toMatchObject(REPLACED);
  await expect(store.head()).rejects.toMatchObject(REPLACED);
  await expect(store.readAt(1)).rejects.toMatchObject(REPLACED);
  expect(warnings).toEqual([
    expect.stringMatching(/^log_replaced: .* was removed or replaced .*restart every process/),
  ]);
});

test('nothing is written beside a process that locks another file, since the one that was open was removed', async () => {
  rmSync(join(log, 'lock.mdb'));
  await expect(append()).rejects.toMatchObject(REPLACED);
  writeFileSync(join(log, 'lock.mdb'), '');
  await expect(append()).rejects.toMatchObject(REPLACED);
});

test('it is noticed without a request', async () => {
  rmSync(log, { recursive: true });
  await eventually(() => store.refusal !== undefined, 'the refusal');
  expect(store.refusal).toMatchObject(REPLACED);
});

test('nothing is written to a copy that takes its place, nor to the marker beside it', async () => {
  await store.close();
  const marker = join(place.path, 'log.marker.json');
  cpSync(log, `${log}.copy`, { recursive: true });
  cpSync(marker, `${marker}.copy`);
  store = await LmdbEventStore.open(log);
  await append();
  rmSync(log, { recursive: true });
  renameSync(`${log}.copy`, log);
  renameSync(`${marker}.copy`, marker);
  const files = () => [readFileSync(join(log, 'data.mdb')), readFileSync(marker)];
  const before = files();
  await expect(append()).rejects.toMatchObject(REPLACED);
  await store.close();
  expect(files()).toEqual(before);
});

test('it continues when the folder is back', async () => {
  renameSync(log, `${log}.away`);
  await expect(append()).rejects.toMatchObject(REPLACED);
  renameSync(`${log}.away`, log);
  await eventually(() => store.refusal === undefined, 'the end of the refusal');
  expect(await append()).toEqual({ position: 2, revision: 0 });
  expect(warnings).toEqual([expect.stringMatching(/^log_replaced/), expect.stringMatching(/^the log is back in/)]);
});

test('a folder that may not be looked at is as one that is not there', async () => {
  renameSync(log, `${log}.away`);
  // As root, a test cannot lack a right.
  symlinkSync(log, log);
  await expect(append()).rejects.toMatchObject(REPLACED);
  renameSync(`${log}.away`, `${log}.back`);
  rmSync(log);
  renameSync(`${log}.back`, log);
  await eventually(() => store.refusal === undefined, 'the end of the refusal');
  expect(await append()).toEqual({ position: 2, revision: 0 });
});
