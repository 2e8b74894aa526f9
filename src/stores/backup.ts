import { copyFile, mkdir, readdir, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { existsSync } from 'node:fs';
import { backupStores } from './open.js';

/** Files beside the stores that a restored service needs to be the same service. They hold secrets. */
const FILES = ['signing-keys.json', 'voucher-keys.json', 'api-keys.json', 'dev-api-key'];

/**
 * Copies a data folder while it is in use into a folder that does not exist yet: the log and the state by the store's
 * own backup, and the keys. The copy is a data folder: to restore, serve it. Read models are left out, since the first
 * start folds them again. The folder appears under its name only when it is complete.
 * @throws Error if the target exists
 */
export async function backup(data: string, target: string): Promise<void> {
  if (existsSync(target) && (await readdir(target)).length > 0) throw new Error(`${target} exists and is not empty.`);
  const unfinished = `${target}.unfinished`;
  await rm(unfinished, { recursive: true, force: true });
  await mkdir(unfinished, { recursive: true, mode: 0o700 });
  await backupStores(data, unfinished);
  for (const file of FILES) {
    if (existsSync(join(data, file))) await copyFile(join(data, file), join(unfinished, file));
  }
  await rm(target, { recursive: true, force: true });
  await rename(unfinished, target);
}
