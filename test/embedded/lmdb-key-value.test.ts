import { LmdbEnvironment } from '../../src/stores/lmdb/environment.js';
import { LmdbKeyValue } from '../../src/stores/lmdb/lmdb-key-value.js';
import { describeKeyValue } from '../contracts/key-value.contract.js';
import { temporaryFolder } from './temporary-folder.js';

describeKeyValue('LMDB', async (clock) => {
  const folder = await temporaryFolder();
  return { open: () => LmdbKeyValue.open(folder.path, { clock }), destroy: folder.remove };
});

test('a sweep removes only expired entries', async () => {
  let now = 1_000;
  const folder = await temporaryFolder();
  const store = await LmdbKeyValue.open(folder.path, { clock: () => now });
  const keys = Array.from({ length: 2_500 }, (_, n) => `key-${n}`);
  await Promise.all(keys.map((key, n) => store.put(key, n, n % 5 === 0 ? 10_000 : 100)));
  now += 100;
  expect(await store.sweep()).toBe(2_000);
  expect(await store.sweep()).toBe(0);
  expect(await store.get('key-5')).toBe(5);
  await store.close();
  await folder.remove();
});

test('an entry that is not what was written is absent, and removed by a sweep, which says so', async () => {
  const folder = await temporaryFolder();
  const warnings: string[] = [];
  const onWarning = (message: string) => void warnings.push(message);
  const store = await LmdbKeyValue.open(folder.path, { clock: () => 1_000, onWarning });
  // One user of the folder in a process shares the environment with the others.
  const env = await LmdbEnvironment.open(folder.path, { databases: { entries: { encoding: 'string' } } });
  const change = (key: string, part: string, other: string) =>
    env.write(() => {
      const entries = env.database<string>('entries');
      entries.putSync(key, entries.get(key)!.replace(part, other));
    });
  try {
    for (const key of ['text', 'time', 'form', 'whole']) await store.put(key, { text: 'hello' }, 100);
    await change('=text', 'hello', 'hallo');
    await change('=time', '1100', '9100');
    await change('=form', '"text":', '"text";');
    const read = async () => Promise.all(['text', 'time', 'form', 'whole'].map((key) => store.get(key)));
    expect(await read()).toEqual([undefined, undefined, undefined, { text: 'hello' }]);
    expect(await store.putIfAbsent('text', 1, 100)).toBe(true);
    expect(await store.increment('time', 100)).toMatchObject({ count: 1 });
    expect(await store.sweep()).toBe(1);
    expect(warnings).toEqual([expect.stringMatching(/ were not what was written, and are lost: =form$/)]);
    expect(await read()).toEqual([1, 1, undefined, { text: 'hello' }]);
  } finally {
    await env.close();
    await store.close();
    await folder.remove();
  }
});

test('an entry without a checksum is absent', async () => {
  const folder = await temporaryFolder();
  const env = await LmdbEnvironment.open(folder.path, { databases: { entries: { encoding: 'json' } } });
  await env.write(() => env.database('entries').putSync('=key', { value: 'kept', expires_at: 2_000 }));
  await env.close();
  const store = await LmdbKeyValue.open(folder.path, { clock: () => 1_000 });
  expect(await store.get('key')).toBeUndefined();
  await store.close();
  await folder.remove();
});
