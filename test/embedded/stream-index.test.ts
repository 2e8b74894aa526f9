import { join } from 'node:path';
import { storedText } from '../../src/stores/ports/event-encoding.js';
import { INDEX_DATABASES, StreamIndex } from '../../src/stores/lmdb/stream-index.js';
import { LmdbEnvironment } from '../../src/stores/lmdb/environment.js';
import { temporaryFolder } from './temporary-folder.js';

const DATABASES = { events: { keyEncoding: 'uint32', encoding: 'string' }, ...INDEX_DATABASES } as const;

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
const append = (stream: string, revision: number) =>
  env.write(() => {
    env.database<string, number>('events').putSync(++head, storedText(stream, revision, '{"id":"x"}'));
  });

/** The environment as one of several processes sees it whose writes wait for `release`. */
function withSlowWrites(): { slow: LmdbEnvironment; release: () => void } {
  let release!: () => void;
  const gate = new Promise<void>((resolve) => (release = resolve));
  const slow = new Proxy(env, {
    get(target, name) {
      if (name === 'writeIf')
        return async (...args: Parameters<typeof env.writeIf>) => gate.then(() => env.writeIf(...args));
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
  index.catchUp();
  const storing = index.store();
  // Another process goes on with the stream, and is the first to have its bulk stored.
  await append('s', 1);
  const other = new StreamIndex(env);
  other.catchUp();
  await other.store();
  index.catchUp();
  expect([index.last('s'), index.last('t'), index.position('s', 1)]).toEqual([1, 0, 3]);
  release();
  await storing;
  expect([index.last('s'), index.last('t'), index.position('s', 0), index.position('s', 1)]).toEqual([1, 0, 1, 3]);
});

test('a stream longer than a slice is stored whole', async () => {
  await env.write(() => {
    const events = env.database<string, number>('events');
    for (let n = 0; n < 5_000; n++) events.putSync(++head, storedText('long', n, '{"id":"x"}'));
  });
  const index = new StreamIndex(env);
  index.catchUp();
  await index.store();
  const again = new StreamIndex(env);
  expect([again.known, again.last('long'), again.position('long', 0), again.position('long', 4_999)]).toEqual([
    5_000, 4_999, 1, 5_000,
  ]);
});
