import { jest } from '@jest/globals';
import { join } from 'node:path';
import { INDEX_DATABASES, StreamIndex, StreamPositions } from '../../src/stores/lmdb/stream-index.js';
import { LmdbEnvironment } from '../../src/stores/lmdb/environment.js';
import { writeEntry } from '../../src/stores/lmdb/stored-event.js';
import { sampleEvents } from '../contracts/sample-events.js';
import { temporaryFolder } from './temporary-folder.js';

const DATABASES = { events: { keyEncoding: 'uint32', encoding: 'binary' }, ...INDEX_DATABASES } as const;

let folder: Awaited<ReturnType<typeof temporaryFolder>>;
let env: LmdbEnvironment;
beforeEach(async () => {
  folder = await temporaryFolder();
  env = await LmdbEnvironment.open(join(folder.path, 'log'), { databases: DATABASES });
});
afterEach(async () => {
  await env.close();
  await folder.remove();
});

let head = 0;
beforeEach(() => void (head = 0));
const put = (stream: string, revision: number) => {
  const [event] = sampleEvents(stream);
  const entry = Buffer.alloc(2_000);
  const end = writeEntry(entry, 0, { ...event!, stream, revision, position: ++head });
  env.database<Buffer, number>('events').putSync(head, entry.subarray(0, end));
};
const append = (stream: string, revision: number) => env.write(() => put(stream, revision));

/** The environment as one sees it whose writes wait for `release`. */
function withSlowWrites(): { slow: LmdbEnvironment; release: () => void } {
  let release!: () => void;
  const gate = new Promise<void>((resolve) => (release = resolve));
  const slow = new Proxy(env, {
    get(target, name) {
      if (name === 'batch') return async (...args: Parameters<typeof env.batch>) => gate.then(() => env.batch(...args));
      const value: unknown = Reflect.get(target, name);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
  return { slow, release };
}

test('entries being written to the stored index are never taken for the end of a stream', async () => {
  const { slow, release } = withSlowWrites();
  await append('s', 0);
  await append('t', 0);
  const index = new StreamIndex(slow);
  await index.catchUpTo(head);
  const storing = index.store();
  await append('s', 1);
  await index.catchUpTo(head);
  expect([index.last('s'), index.last('t'), index.position('s', 1)]).toEqual([1, 0, 3]);
  release();
  await storing;
  expect([index.last('s'), index.last('t'), index.position('s', 0), index.position('s', 1)]).toEqual([1, 0, 1, 3]);
});

test('no entry is lost by a failed write, although others were committed meanwhile', async () => {
  await append('s', 0);
  const index = new StreamIndex(env);
  await index.catchUpTo(head);
  jest.spyOn(env, 'batch').mockRejectedValueOnce(new Error('the disk is full'));
  const storing = index.store();
  await append('s', 1);
  const committed = new StreamPositions();
  committed.add('s', 1, 2);
  index.add(committed, 1);
  await expect(storing).rejects.toThrow('the disk is full');
  await append('t', 0);
  const later = new StreamPositions();
  later.add('t', 0, 3);
  index.add(later, 1);
  const found = (of: StreamIndex) => [of.known, of.last('s'), of.position('s', 0), of.last('t')];
  expect(found(index)).toEqual([3, 1, 1, 0]);
  await index.store();
  expect(found(new StreamIndex(env))).toEqual([3, 1, 1, 0]);
});

test('a stream longer than a slice is stored whole', async () => {
  await env.write(() => {
    for (let n = 0; n < 5_000; n++) put('long', n);
  });
  const index = new StreamIndex(env);
  await index.catchUpTo(head);
  await index.store();
  const again = new StreamIndex(env);
  expect([again.known, again.last('long'), again.position('long', 0), again.position('long', 4_999)]).toEqual([
    5_000, 4_999, 1, 5_000,
  ]);
});

test('the events of a stream need not follow each other in the log', async () => {
  const places = ['a 0', 'a 1', 'b 0', 'a 2', 'a 3', 'b 1', 'c 0', 'c 1', 'c 2'];
  const index = new StreamIndex(env);
  for (const place of places) {
    const [stream, revision] = place.split(' ') as [string, string];
    await append(stream, Number(revision));
    await index.catchUpTo(head);
  }
  const found = (of: StreamIndex) => {
    return ['a', 'b', 'c'].flatMap((stream) =>
      Array.from({ length: 5 }, (_, revision) => of.position(stream, revision)).filter(Boolean),
    );
  };
  const expected = [1, 2, 4, 5, 3, 6, 7, 8, 9];
  expect(found(index)).toEqual(expected);
  expect(['a', 'b', 'c', 'd'].map((stream) => index.last(stream))).toEqual([3, 1, 2, undefined]);
  await index.store();
  expect(found(index)).toEqual(expected);
  expect(['a', 'b', 'c', 'd'].map((stream) => index.last(stream))).toEqual([3, 1, 2, undefined]);
});
