import { closeSync, fsyncSync, openSync, renameSync, rmSync } from 'node:fs';
import { lstat, open, readdir, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';

/**
 * Lets `write` create a file or folder under the name `aside`, in the same folder as `path`, syncs it, and gives it the
 * name `path`: there is what was there before or all that was written, also after a power cut. What was written is
 * removed if anything fails.
 */
export async function replaceBy(path: string, aside: string, write: () => Promise<void>): Promise<void> {
  try {
    await write();
    await syncAll(aside);
    await rename(aside, path);
    await sync(dirname(path));
  } catch (error) {
    await rm(aside, { recursive: true, force: true });
    throw error;
  }
}

/** Does what `replaceBy` does, for a small file that is replaced in one go. */
export function replaceBySync(path: string, aside: string, write: () => void): void {
  try {
    write();
    syncSync(aside);
    renameSync(aside, path);
    syncSync(dirname(path));
  } catch (error) {
    rmSync(aside, { force: true });
    throw error;
  }
}

/** Syncs a file, or a folder with all of its content. */
async function syncAll(path: string): Promise<void> {
  if ((await lstat(path)).isDirectory()) for (const name of await readdir(path)) await syncAll(join(path, name));
  await sync(path);
}

async function sync(path: string): Promise<void> {
  const file = await open(path);
  await file.sync().finally(() => file.close());
}

function syncSync(path: string): void {
  const file = openSync(path, 'r');
  try {
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
}
