import { jest } from '@jest/globals';
import { readFileSync, writeFileSync } from 'node:fs';
import { constants } from 'node:os';
import { join } from 'node:path';
import { crc32 } from 'node:zlib';
import { Problem } from '../../src/kernel/problems.js';
import type { RecordedEvent } from '../../src/kernel/event.js';
import { Logger } from '../../src/kernel/logger.js';
import { closeStores, openStores } from '../../src/stores/open.js';
import { StoreUnavailable, WrongExpectedRevision } from '../../src/stores/ports/event-store.js';
import { LmdbEnvironment } from '../../src/stores/lmdb/environment.js';
import { LmdbEventStore, type LmdbEventStoreOptions } from '../../src/stores/lmdb/lmdb-event-store.js';
import { INDEX_DATABASES } from '../../src/stores/lmdb/stream-index.js';
import { decodeEvent } from '../../projections/events.js';
import { temporaryFolder } from './temporary-folder.js';
import { sampleEvents } from '../contracts/sample-events.js';

/** What was stored and is not what was stored any more: it is noticed, named, and stops nobody who reads on. */

const EVENTS = { keyEncoding: 'uint32', encoding: 'binary' } as const;

let folder: { path: string; remove(): Promise<void> };
beforeEach(async () => void (folder = await temporaryFolder()));
afterEach(() => folder.remove());

const append = (store: LmdbEventStore, n: number) =>
  store.append(
    `action-${n}`,
    'no-stream',
    sampleEvents(`action-${n}`, 1, { tris_id: `tris:member-${n}`, platform_id: 'lender' }),
  );

/** A log of so many events, closed. */
async function log(events: number, indexBulk?: number, path = folder.path): Promise<void> {
  const store = await LmdbEventStore.open(path, { indexBulk });
  for (let n = 1; n <= events; n++) await append(store, n);
  await store.close();
}

/** Changes what stands in the closed log. */
async function change(action: (env: LmdbEnvironment) => void, path = folder.path): Promise<void> {
  const env = await LmdbEnvironment.open(path, { databases: { events: EVENTS, ...INDEX_DATABASES } });
  await env.write(() => action(env));
  await env.close();
}
const entries = (env: LmdbEnvironment) => env.database<Buffer, number>('events');
/** Changes an entry, as a text with a character for each byte. */
const changeEntry = (position: number, how: (entry: string) => string) =>
  change((env) => {
    const entry = entries(env).get(position)!.toString('latin1');
    entries(env).putSync(position, Buffer.from(how(entry), 'latin1'));
  });

async function readAll(store: LmdbEventStore): Promise<RecordedEvent[]> {
  const events: RecordedEvent[] = [];
  for await (const slice of store.readAll(0)) events.push(...slice);
  return events;
}

async function reasons(): Promise<(string | undefined)[]> {
  const store = await LmdbEventStore.open(folder.path);
  const events = await readAll(store);
  await store.close();
  return events.map(({ damage }) => damage?.reason);
}

describe('an event whose entry has changed', () => {
  test.each([
    ['a letter', (entry: string) => entry.replace('lender', 'lendor')],
    ['its first byte', (entry: string) => `|${entry.slice(1)}`],
    ['its first byte, which is that of a text', (entry: string) => `{${entry.slice(1)} `],
    ['its end, which is missing', (entry: string) => entry.slice(0, -30)],
    ['everything but its first byte', (entry: string) => entry[0]!],
    ['everything', () => ''],
  ])('(%s) is given out as damaged, in its place, and the others as they are', async (_what, how) => {
    await log(3);
    await changeEntry(2, how);
    const store = await LmdbEventStore.open(folder.path);
    const events = await readAll(store);
    expect(events.map(({ position }) => position)).toEqual([1, 2, 3]);
    expect(events.map(({ damage }) => damage === undefined)).toEqual([true, false, true]);
    await store.close();
  });

  test('names its identity only if that is certain', async () => {
    await log(3);
    await changeEntry(1, (entry) => entry.replace('lender', 'lendor'));
    await changeEntry(2, (entry) => entry.replaceAll('member-2', 'member-3'));
    const store = await LmdbEventStore.open(folder.path);
    expect((await readAll(store)).map(({ damage }) => damage?.tris_id)).toEqual(['tris:member-1', null, undefined]);
    const letter = decodeEvent((await store.readAt(1))!);
    expect(letter).toMatchObject({
      type: 'Undecodable',
      stream: 'action-1',
      position: 1,
      data: { tris_id: 'tris:member-1', reason: 'its stored text is damaged: its checksum is that of another text' },
    });
    expect(letter.id).toMatch(/^[0-9a-f]{8}-/);
    await store.close();
  });

  test('cannot be read for a decision, and its revision cannot be used again', async () => {
    await log(2);
    await changeEntry(1, (entry) => entry.replace('lender', 'lendor'));
    const store = await LmdbEventStore.open(folder.path);
    await expect(store.readStream('action-1')).rejects.toThrow(Problem);
    await expect(store.readStream('action-1')).rejects.toMatchObject({ code: 'history_unreadable' });
    await expect(append(store, 1)).rejects.toThrow(WrongExpectedRevision);
    expect(await store.readStream('action-2')).toHaveLength(1);
    expect(await store.head()).toBe(2);
    await store.close();
  });

  test.each([1, 2])('is missed in its stream if it names another one: event %d of three', async (position) => {
    const store = await LmdbEventStore.open(folder.path);
    await store.append('action-1', 'no-stream', sampleEvents('action-1', 3, { tris_id: 'tris:a' }));
    await store.close();
    await changeEntry(position, (entry) => entry.replace('action-1', 'action-7'));
    // So that the index is made from what is there.
    await change((env) => {
      env.database('meta').removeSync('indexed');
      env.database('index').clearSync();
    });
    const damaged = await LmdbEventStore.open(folder.path);
    await expect(damaged.readStream('action-1')).rejects.toMatchObject({ code: 'history_unreadable' });
    await expect(append(damaged, 1)).rejects.toThrow(WrongExpectedRevision);
    const further = sampleEvents('action-1-further', 1, { tris_id: 'tris:a' });
    await expect(damaged.append('action-1', 0, further)).rejects.toThrow(WrongExpectedRevision);
    expect(await damaged.readStream('action-2')).toEqual([]);
    await damaged.close();
  });

  test('is detected if a valid event is stored at another position', async () => {
    await log(3);
    await change((env) => entries(env).putSync(2, entries(env).get(3)!));
    expect(await reasons()).toEqual([undefined, 'its checksum is that of another text', undefined]);
  });
});

test('an event of a form that this build does not know stops the reader, who says which build can read it', async () => {
  await log(2);
  await change((env) => {
    const entry = entries(env).get(2)!;
    entry[0] = 9;
    entry.writeUInt32LE(crc32(entry.subarray(0, -4), 2), entry.length - 4);
    entries(env).putSync(2, entry);
  });
  const store = await LmdbEventStore.open(folder.path);
  await expect(readAll(store)).rejects.toThrow(
    'the event at position 2 has form 9, which this build cannot read: run a build that is at least as new',
  );
  await store.close();
});

test('a gap in the log is detected, and nothing is written into it', async () => {
  await log(4);
  await change((env) => void [2, 3].map((position) => entries(env).removeSync(position)));
  expect(await reasons()).toEqual([
    undefined,
    'there is nothing at its place',
    'there is nothing at its place',
    undefined,
  ]);
  const store = await LmdbEventStore.open(folder.path);
  expect(await append(store, 5)).toEqual({ position: 5, revision: 0 });
  expect((await readAll(store)).map(({ position }) => position)).toEqual([1, 2, 3, 4, 5]);
  expect((await store.readStream('action-4'))[0]!.position).toBe(4);
  await store.close();
});

test('a log of events in the text form of an earlier build is refused with one sentence, and left as it is', async () => {
  await log(2);
  const text = '{"stream":"action-1","revision":0,"data":{"note":"two\\nlines"},"crc":"0123456789abcdef"}';
  await change((env) => void entries(env).putSync(1, Buffer.from(text)));
  for (let n = 0; n < 2; n++) {
    await expect(LmdbEventStore.open(folder.path)).rejects.toThrow(
      /^The log in \S+ has events in the form of an earlier build, which this one cannot read: export .* empty folder\.$/,
    );
  }
  await change((env) => expect(entries(env).get(1)!.toString()).toBe(text));
});

describe('the stored index of streams', () => {
  const BULK = 4;
  const warnings: string[] = [];
  const open = (options: LmdbEventStoreOptions = {}) =>
    LmdbEventStore.open(folder.path, { indexBulk: BULK, onWarning: (text) => warnings.push(text), ...options });
  const damageEntry = (how: (value: Buffer) => Buffer) =>
    change((env) => {
      const index = env.database<Buffer, Buffer>('index');
      const entries = [...index.getRange({})].filter(({ key }) => key.toString().startsWith('action-2\0'));
      expect(entries).toHaveLength(1);
      for (const { key, value } of entries) index.putSync(Buffer.from(key), how(Buffer.from(value)));
    });

  test.each([
    ['a bit of a position', (value: Buffer) => (value.writeUInt32LE(value.readUInt32LE() ^ 1), value)],
    ['a position beyond the log', (value: Buffer) => (value.writeUInt32LE(2 ** 31), value)],
    ['its checksum, which is missing', (value: Buffer) => value.subarray(0, 4)],
    ['its length', (value: Buffer) => value.subarray(0, 2)],
  ])('where it lies (%s), nothing counts twice, and it is repaired', async (_what, how) => {
    await log(9, BULK);
    await damageEntry(how);
    const store = await open();
    const [second, other] = await Promise.allSettled([append(store, 2), append(store, 10)]);
    expect(second).toMatchObject({ status: 'rejected', reason: expect.any(StoreUnavailable) });
    expect(other.status).toBe('fulfilled');
    // The same append again, once the entry is what it should be: it is the first one's.
    let again: unknown;
    do again = await append(store, 2).catch((error: unknown) => error);
    while (again instanceof StoreUnavailable);
    expect(again).toEqual({ position: 2, revision: 0 });
    expect(await store.readStream('action-2')).toHaveLength(1);
    expect(await store.checkIndex(false)).toMatchObject({ missing: 0, stray: 0 });
    await store.close();
  });

  /** A damaged key, in its place between its neighbours or not. */
  test.each([
    ['in its place', (key: Buffer) => (key[key.length - 5]! ^= 32)],
    ['elsewhere', (key: Buffer) => (key[7]! ^= 64)],
  ])(
    'is repaired at the start where the key of an entry is damaged (%s), so that nothing counts twice',
    async (_, how) => {
      await log(9, BULK);
      const path = join(folder.path, 'data.mdb');
      const bytes = readFileSync(path);
      const entry = Buffer.from('action-2\0\0\0\0\0');
      let changed = 0;
      // Not the event, which contains the name of its stream, too.
      for (let at = bytes.indexOf(entry); at >= 0; at = bytes.indexOf(entry, at + 1), changed++) {
        how(bytes.subarray(at, at + entry.length));
      }
      expect(changed).toBeGreaterThan(0);
      writeFileSync(path, bytes);
      warnings.length = 0;
      const store = await open({ checksIndex: true });
      expect(await append(store, 2)).toEqual({ position: 2, revision: 0 });
      expect(warnings).toEqual([
        expect.stringMatching(/^the index of streams was damaged, and is repaired: [12] missing, 1 stray entries$/),
      ]);
      expect((await store.readStream('action-3')).length).toBe(1);
      expect(await store.checkIndex(false)).toMatchObject({ missing: 0, stray: 0 });
      await store.close();
    },
  );

  test('is repaired where a worker starts on one with a missing entry, and is left alone where none is', async () => {
    const path = join(folder.path, 'log');
    await log(9, BULK, path);
    await change((env) => {
      const [first] = [...env.database<Buffer, Buffer>('index').getRange({ limit: 1 })];
      env.database<Buffer, Buffer>('index').removeSync(Buffer.from(first!.key));
    }, path);
    const lines: string[] = [];
    const logger = new Logger('warn', (line) => lines.push(line));
    const { eventStore, ...others } = await openStores(folder.path, Date.now, { logger, repairs: true });
    expect(await eventStore.checkIndex!(false)).toMatchObject({ missing: 0, stray: 0 });
    await closeStores({ eventStore, ...others });
    await closeStores(await openStores(folder.path, Date.now, { logger, checksIndex: true }));
    expect(lines).toEqual([expect.stringContaining('is repaired: 1 missing, 0 stray entries')]);
  });

  test('is compared with the log, and repaired if entries are missing or have no event', async () => {
    await log(9, BULK);
    await change((env) => {
      const index = env.database<Buffer, Buffer>('index');
      const [first] = [...index.getRange({ limit: 1 })];
      const [key, value] = [Buffer.from(first!.key), Buffer.from(first!.value)];
      index.removeSync(key);
      key[7]! ^= 64;
      index.putSync(key, value);
    });
    const store = await open();
    expect(await store.checkIndex(false)).toMatchObject({ missing: 1, stray: 1 });
    expect(await store.checkIndex(true)).toMatchObject({ missing: 1, stray: 1 });
    expect(await store.checkIndex(false)).toMatchObject({ missing: 0, stray: 0 });
    await store.close();
  });

  test.each([7, 10_000, 'x'])('is made again from the log where it says that it reaches to %p', async (indexed) => {
    await log(9, BULK);
    await change((env) => env.database<unknown>('meta').putSync('indexed', indexed));
    const store = await open();
    for (let n = 1; n <= 9; n++) expect(await store.readStream(`action-${n}`)).toHaveLength(1);
    await store.close();
    const again = await open();
    expect(await again.checkIndex(false)).toMatchObject({ missing: 0, stray: 0 });
    await again.close();
  });
});

test('a log whose metadata cannot be read is refused with one sentence', async () => {
  await log(1);
  const env = await LmdbEnvironment.open(folder.path, { databases: { meta: { encoding: 'string' } } });
  await env.write(() => env.database<string>('meta').putSync('log', '"abc'));
  await env.close();
  await expect(LmdbEventStore.open(folder.path)).rejects.toThrow(
    /^The log in \S+ is damaged \(.*\): restore it from a backup\.$/,
  );
});

test('a failure to read the metadata of a log is not called damage', async () => {
  await log(1);
  const failing = Object.assign(new Error('Resource temporarily unavailable'), { code: constants.errno.EAGAIN });
  const failed = jest.spyOn(LmdbEnvironment.prototype, 'database').mockImplementation(() => {
    throw failing;
  });
  const opening = LmdbEventStore.open(folder.path);
  await expect(opening).rejects.toThrow(
    `${folder.path}: its locks cannot be taken (EAGAIN): stop every process that uses the folder, and start again`,
  );
  failed.mockRestore();
  await (await LmdbEventStore.open(folder.path)).close();
});
