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
