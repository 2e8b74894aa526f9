import { mkdirSync, readFileSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { replaceFile } from '../../src/credentials/secret-file.js';
import { replaceBy } from '../../src/kernel/replace-file.js';
import { temporaryFolder } from '../embedded/temporary-folder.js';

let folder: Awaited<ReturnType<typeof temporaryFolder>>;
beforeEach(async () => void (folder = await temporaryFolder()));
afterEach(() => folder.remove());

const at = (name: string) => join(folder.path, name);

test('a file is replaced as a whole, with the permissions of the new one', async () => {
  writeFileSync(at('file'), 'old', { mode: 0o644 });
  await replaceBy(at('file'), at('aside'), () => writeFile(at('aside'), 'new', { mode: 0o600 }));
  expect(readFileSync(at('file'), 'utf8')).toBe('new');
  expect(statSync(at('file')).mode & 0o777).toBe(0o600);
  expect(readdirSync(folder.path)).toEqual(['file']);
});

test('a failure leaves what was there before, and nothing else', async () => {
  writeFileSync(at('file'), 'old');
  const failing = async () => {
    await writeFile(at('aside'), 'ne');
    throw new Error('disk full');
  };
  await expect(replaceBy(at('file'), at('aside'), failing)).rejects.toThrow('disk full');
  expect(readFileSync(at('file'), 'utf8')).toBe('old');
  expect(readdirSync(folder.path)).toEqual(['file']);
});

test('a secret that cannot get its name is not left behind', () => {
  mkdirSync(at('keys.json'));
  expect(() => replaceFile(at('keys.json'), 'secret')).toThrow(/EISDIR/);
  expect(readdirSync(folder.path)).toEqual(['keys.json']);
});
