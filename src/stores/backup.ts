import { existsSync } from 'node:fs';
import { mkdir, readFile, readdir, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { type CheckedCopy, backupStores, checkCopy } from './open.js';
import { TargetRefused, writtenAside } from './written-aside.js';

/** Files beside the stores that a restored service needs. They contain secrets. */
const FILES = ['signing-keys.json', 'voucher-keys.json', 'api-keys.json', 'dev-api-key'];

/**
 * Copies a data folder while it is in use into a folder that does not exist yet: the log and the state with the store's
 * own backup, and the keys. The copy is a data folder: to restore, serve it. Read models are not copied, since the
 * first start folds them again. The folder gets its name once it is complete, has been read back, and is on disk.
 * @throws TargetRefused if the target exists, or another backup to it is running; Error for a copy that is not sound
 */
export async function backup(data: string, target: string): Promise<CheckedCopy> {
  // Checked before the work, and again by the rename.
  if (existsSync(target) && (await readdir(target).catch(() => ['a file'])).length > 0) {
    throw new TargetRefused(`${target} exists and is not empty.`);
  }
  await mkdir(dirname(target), { recursive: true });
  let checked: CheckedCopy | undefined;
  await writtenAside(target, async (aside) => {
    await mkdir(aside, { recursive: true, mode: 0o700 });
    const least = await backupStores(data, aside);
    for (const file of FILES) {
      if (existsSync(join(data, file)))
        await writeFile(join(aside, file), await readFile(join(data, file)), { mode: 0o600 });
    }
    checked = await checkCopy(aside, least);
    // The check created this file; a restored service does not need it.
    for (const name of ['log/lock.mdb', 'state/lock.mdb']) await rm(join(aside, name), { force: true });
  });
  return checked!;
}
