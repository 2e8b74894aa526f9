import { crc32 } from 'node:zlib';
import { Problem } from '../../src/kernel/problems.js';
import type { RecordedEvent } from '../../src/kernel/event.js';
import { StoreUnavailable, WrongExpectedRevision } from '../../src/stores/ports/event-store.js';
import { LmdbEnvironment } from '../../src/stores/lmdb/environment.js';
import { LmdbEventStore } from '../../src/stores/lmdb/lmdb-event-store.js';
import { INDEX_DATABASES } from '../../src/stores/lmdb/stream-index.js';
import { decodeEvent } from '../../projections/events.js';
import { temporaryFolder } from './temporary-folder.js';
import { sampleEvents } from '../contracts/sample-events.js';

/** What was stored and is not what was stored any more: it is noticed, named, and stops nobody who reads on. */

const EVENTS = { keyEncoding: 'uint32', encoding: 'string' } as const;

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
async function log(events: number, indexBulk?: number): Promise<void> {
  const store = await LmdbEventStore.open(folder.path, { indexBulk });
  for (let n = 1; n <= events; n++) await append(store, n);
  await store.close();
}

/** Changes what stands in the closed log. */
async function change(action: (env: LmdbEnvironment) => void): Promise<void> {
  const env = await LmdbEnvironment.open(folder.path, { databases: { events: EVENTS, ...INDEX_DATABASES } });
  await env.write(() => action(env));
  await env.close();
}
const texts = (env: LmdbEnvironment) => env.database<string, number>('events');
const changeText = (position: number, how: (text: string) => string) =>
  change((env) => texts(env).putSync(position, how(texts(env).get(position)!)));

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

describe('an event whose stored text has changed', () => {
  test.each([
    ['a letter', (text: string) => text.replace('lender', 'lendor')],
    ['a quote', (text: string) => text.replace('"platform_id"', '"platform_id ')],
    [
      'a digit of its checksum',
      (text: string) => text.replace(/"crc":"./, (start) => start.slice(0, -1) + (start.endsWith('0') ? '1' : '0')),
    ],
    ['its end, which is missing', (text: string) => text.slice(0, -30)],
  ])('(%s) is given out as damaged, in its place, and the others as they are', async (_what, how) => {
    await log(3);
    await changeText(2, how);
    const store = await LmdbEventStore.open(folder.path);
    const events = await readAll(store);
    expect(events.map(({ position }) => position)).toEqual([1, 2, 3]);
    expect(events.map(({ damage }) => damage === undefined)).toEqual([true, false, true]);
    await store.close();
  });

  test('names its identity only if that is certain', async () => {
    await log(3);
    await changeText(1, (text) => text.replace('lender', 'lendor'));
    await changeText(2, (text) => text.replaceAll('member-2', 'member-3'));
    const store = await LmdbEventStore.open(folder.path);
    expect((await readAll(store)).map(({ damage }) => damage?.tris_id)).toEqual(['tris:member-1', null, undefined]);
    const letter = decodeEvent((await store.readAt(1))!);
    expect(letter).toMatchObject({
      type: 'Undecodable',
      position: 1,
      data: { tris_id: 'tris:member-1', reason: 'its stored text is damaged: its checksum is that of another text' },
    });
    expect(letter.id).toMatch(/^[0-9a-f]{8}-/);
    await store.close();
  });

  test('cannot be read for a decision, and its revision cannot be used again', async () => {
    await log(2);
    await changeText(1, (text) => text.replace('lender', 'lendor'));
    const store = await LmdbEventStore.open(folder.path);
    await expect(store.readStream('action-1')).rejects.toThrow(Problem);
    await expect(store.readStream('action-1')).rejects.toMatchObject({ code: 'history_unreadable' });
    await expect(append(store, 1)).rejects.toThrow(WrongExpectedRevision);
    expect(await store.readStream('action-2')).toHaveLength(1);
    expect(await store.head()).toBe(2);
    await store.close();
  });

  test('is detected if a valid event is stored at another position', async () => {
    await log(3);
    await change((env) => texts(env).putSync(2, texts(env).get(3)!));
    expect(await reasons()).toEqual([undefined, 'its checksum is that of another text', undefined]);
  });

  test('is detected if its checksum is missing', async () => {
    await log(2);
    await changeText(1, (text) => text.replace(/,"crc".*/, '}'));
    expect(await reasons()).toEqual(['it has no checksum', undefined]);
  });
});

test('an event is stored as its text with the checksums of text and position, and of its identity', async () => {
  const store = await LmdbEventStore.open(folder.path);
  const data = { tris_id: 'tris:größe', note: 'naïve – 漢字 "quoted"' };
  for (let n = 1; n <= 3; n++) await store.append(`action-${n}`, 'no-stream', sampleEvents(`action-${n}`, 2, data));
  expect(await readAll(store)).toMatchObject(Array.from({ length: 6 }, () => ({ data })));
  await store.close();
  await change((env) => {
    for (let position = 1; position <= 6; position++) {
      const [, body, checksum, subject] = /^(.*),"crc":"(.{8})(.{8})"\}$/.exec(texts(env).get(position)!)!;
      expect(JSON.parse(`${body}}`)).toMatchObject({ stream: `action-${Math.ceil(position / 2)}`, data });
      expect(parseInt(checksum!, 16)).toBe(crc32(body!, position));
      expect(parseInt(subject!, 16)).toBe(crc32(''));
    }
  });
});

test('a gap in the log is detected, and nothing is written into it', async () => {
  await log(4);
  await change((env) => void [2, 3].map((position) => texts(env).removeSync(position)));
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

describe('a log of a build that wrote no checksums', () => {
  /** As such a build leaves it. */
  async function oldLog(events: number): Promise<void> {
    await log(events);
    await change((env) => {
      for (let n = 1; n <= events; n++)
        texts(env).putSync(
          n,
          texts(env)
            .get(n)!
            .replace(/,"crc".*/, '}'),
        );
      env.database('meta').removeSync('checksums_from');
    });
  }

  test('is read, also what is written to it now, and upgraded by a command', async () => {
    await oldLog(3);
    let store = await LmdbEventStore.open(folder.path);
    await append(store, 4);
    const before = await readAll(store);
    expect(before.map(({ damage }) => damage)).toEqual(Array(4).fill(undefined));
    expect(await store.upgrade()).toBe(3);
    expect(await store.upgrade()).toBe(0);
    expect(await readAll(store)).toEqual(before);
    await store.close();
    await changeText(2, (text) => text.replace('lender', 'lendor'));
    expect(await reasons()).toEqual([undefined, 'its checksum is that of another text', undefined, undefined]);
    store = await LmdbEventStore.open(folder.path);
    expect(await store.upgrade()).toBe(0);
    await store.close();
  });

  test('leaves an event that was already damaged as it is', async () => {
    await oldLog(3);
    await changeText(2, (text) => text.replace('"lender"', '"lender'));
    expect(await reasons()).toEqual([undefined, 'it is not JSON', undefined]);
    const store = await LmdbEventStore.open(folder.path);
    expect(await store.upgrade()).toBe(2);
    await store.close();
    expect(await reasons()).toEqual([undefined, 'it has no checksum', undefined]);
  });
});

describe('the stored index of streams', () => {
  const BULK = 4;
  const open = () => LmdbEventStore.open(folder.path, { indexBulk: BULK });
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
    ['an entry of an older build', () => Buffer.from([3, 0, 0, 0])],
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
  await env.write(() => env.database<string>('meta').putSync('log_id', '"abc'));
  await env.close();
  await expect(LmdbEventStore.open(folder.path)).rejects.toThrow(
    /^The log in \S+ is damaged \(.*\): restore it from a backup\.$/,
  );
});
