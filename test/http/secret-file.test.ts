import { chmodSync, chownSync, existsSync, readFileSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { FileWatch, createFile, exclusively, replaceFile } from '../../src/credentials/secret-file.js';
import { Child } from '../embedded/processes/child.js';
import { temporaryFolder } from '../embedded/temporary-folder.js';

let folder: Awaited<ReturnType<typeof temporaryFolder>>;
beforeEach(async () => void (folder = await temporaryFolder()));
afterEach(() => folder.remove());

test('a change of a key file waits for a running one in another process, and then reads its result', async () => {
  const file = join(folder.path, 'keys.json');
  const other = new Child(new URL('../embedded/processes/lock-holder.ts', import.meta.url), [`${file}.lock`, '']);
  expect(await other.printed(1)).toEqual(['locked']);
  replaceFile(file, 'first');
  const refused = exclusively(file, () => replaceFile(file, 'second'));
  await expect(refused).rejects.toThrow(/is being changed by another process/);
  expect(readFileSync(file, 'utf8')).toBe('first');

  // It is gone without having given its lock back.
  await other.kill();
  await exclusively(file, () => replaceFile(file, `${readFileSync(file, 'utf8')} and second`));
  expect(readFileSync(file, 'utf8')).toBe('first and second');
  expect(readdirSync(folder.path)).toEqual(['keys.json']);
});

test('a failed change releases the lock', async () => {
  const file = join(folder.path, 'keys.json');
  const fail = () => {
    throw new Error('no');
  };
  await expect(exclusively(file, fail)).rejects.toThrow('no');
  expect(existsSync(`${file}.lock`)).toBe(false);
  expect(await exclusively(file, () => 7)).toBe(7);
});

test('a file that may be read again has changed, although its content has not', async () => {
  const file = join(folder.path, 'keys.json');
  replaceFile(file, '[]');
  let now = 0;
  const watch = new FileWatch(file, () => now);
  const changed = () => ((now += 1_000), watch.changed());
  expect(changed()).toBe(false);
  chmodSync(file, 0o640);
  expect(changed()).toBe(true);
  expect(changed()).toBe(false);
});

(process.getuid?.() === 0 ? test : test.skip)('a file that root writes belongs to whom its service runs as', () => {
  const [keys, others] = ['keys.json', 'others.json'].map((name) => join(folder.path, name)) as [string, string];
  chownSync(folder.path, 1234, 1235);
  createFile(keys, '[1]');
  replaceFile(others, '[1]');
  chownSync(others, 1236, 1237);
  for (const file of [keys, others]) replaceFile(file, '[2]');
  const owners = [keys, others].map((file) => statSync(file)).map(({ uid, gid, mode }) => [uid, gid, mode & 0o777]);
  expect(owners).toEqual([
    [1234, 1235, 0o600],
    [1236, 1237, 0o600],
  ]);
});
