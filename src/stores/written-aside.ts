import { randomUUID } from 'node:crypto';
import { lstat, open, readFile, readdir, realpath, rename, rm, rmdir, writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { basename, dirname, join, resolve } from 'node:path';
import { freeBytes } from '../kernel/free-space.js';
import { isAlive } from '../kernel/processes.js';

/** A target cannot be written; the message is one sentence. */
export class TargetRefused extends Error {
  override readonly name = 'TargetRefused';
}

/** Bytes that copies leave free on a disk: a log on it must still be able to grow. */
const RESERVED_BYTES = 64 * 2 ** 20;

/** The process that writes to a target, and its machine. */
interface Holder {
  pid: number;
  host: string;
  aside: string;
}

/**
 * Lets `write` create a file or folder beside the target, syncs it, and renames it: the target is either complete and
 * on disk, or does not exist. One process at a time may write to a target. The next process removes the remains of one
 * that has ended. A file that exists is replaced; a folder must not exist, or be empty.
 * @throws TargetRefused while another process writes to the target, if it is a non-empty folder, or if its folder
 * cannot be written to
 */
export async function writtenAside(target: string, write: (aside: string) => Promise<void>): Promise<void> {
  // A symbolic link stays, and the file that it points to is replaced.
  const path = await realpath(target).catch(() => resolve(target));
  const lock = `${path}.lock`;
  const aside = `${path}.unfinished-${randomUUID()}`;
  await takeLock(lock, { pid: process.pid, host: hostname(), aside }, target);
  try {
    await write(aside);
    await syncAll(aside);
    await moveTo(path, aside, target);
    await sync(dirname(path), true);
  } catch (error) {
    await rm(aside, { recursive: true, force: true });
    throw error;
  } finally {
    await rm(lock, { force: true });
  }
}

/** @throws TargetRefused if a disk would be almost full once these bytes are written to a folder on it */
export function requireSpace(folder: string, bytes: number): void {
  const free = freeBytes(folder);
  if (free - bytes >= RESERVED_BYTES) return;
  const [needed, found] = [bytes + RESERVED_BYTES, free].map((amount) => Math.ceil(amount / 2 ** 20));
  throw new TargetRefused(
    `The disk of ${folder} is too full: ${found} MB are free, and ${needed} MB are needed, of which ` +
      `${RESERVED_BYTES / 2 ** 20} MB stay free.`,
  );
}

/** What is wrong with the folder of a target. */
const FLAWS: Record<string, string> = {
  ENOENT: 'does not exist',
  ENOTDIR: 'is not a folder',
  EACCES: 'is not writable',
  EROFS: 'is not writable',
};

async function takeLock(lock: string, own: Holder, target: string): Promise<void> {
  for (;;) {
    try {
      await writeFile(lock, JSON.stringify(own), { flag: 'wx', mode: 0o600 });
      return;
    } catch (error) {
      const { code = '' } = error as NodeJS.ErrnoException;
      if (code !== 'EEXIST') throw FLAWS[code] ? new TargetRefused(`${dirname(target)} ${FLAWS[code]}.`) : error;
    }
    const holder = await holderOf(lock);
    if (holder === 'gone') continue;
    if (!holder || isRunning(holder)) {
      const who = holder ? `Process ${holder.pid} on ${holder.host}` : 'Another process';
      throw new TargetRefused(`${who} is writing to ${target}; if there is no such process, delete ${lock}.`);
    }
    // If two processes get here at once, one fails at the rename, and neither damages the files of the other.
    await removeRemains(lock, holder);
  }
}

/** Removes only files that the ended process created under its own name. */
async function removeRemains(lock: string, { aside }: Holder): Promise<void> {
  if (dirname(aside) === dirname(lock) && basename(aside).includes('.unfinished-')) {
    await rm(aside, { recursive: true, force: true });
  }
  await rm(lock, { force: true });
}

/** Undefined if it cannot be read, for example while it is being written. */
async function holderOf(lock: string): Promise<Holder | 'gone' | undefined> {
  try {
    const { pid, host, aside } = JSON.parse(await readFile(lock, 'utf8')) as Holder;
    return Number.isInteger(pid) && typeof host === 'string' && typeof aside === 'string'
      ? { pid, host, aside }
      : undefined;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ENOENT' ? 'gone' : undefined;
  }
}

/** Whether the process may still run. For one on another machine, or in another container, this is unknown. */
function isRunning({ pid, host }: Holder): boolean {
  return host !== hostname() || isAlive(pid);
}

async function moveTo(path: string, aside: string, target: string): Promise<void> {
  try {
    // Fails, as the rename does, if the folder is not empty.
    if ((await lstat(aside)).isDirectory()) await rmdir(path).catch(ignoreMissing);
    await rename(aside, path);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOTEMPTY' || code === 'EEXIST') throw new TargetRefused(`${target} exists and is not empty.`);
    if (code === 'ENOTDIR') throw new TargetRefused(`${target} is a file.`);
    if (code === 'EISDIR') throw new TargetRefused(`${target} is a folder.`);
    throw error;
  }
}

function ignoreMissing(error: NodeJS.ErrnoException): void {
  if (error.code !== 'ENOENT') throw error;
}

/** Syncs a file, or a folder with all of its content. */
async function syncAll(path: string): Promise<void> {
  const isFolder = (await lstat(path)).isDirectory();
  if (isFolder) for (const name of await readdir(path)) await syncAll(join(path, name));
  await sync(path, isFolder);
}

async function sync(path: string, isFolder: boolean): Promise<void> {
  // Windows cannot sync a folder.
  if (isFolder && process.platform === 'win32') return;
  const file = await open(path, isFolder ? 'r' : 'r+');
  await file.sync().finally(() => file.close());
}
