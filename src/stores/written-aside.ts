import { randomUUID } from 'node:crypto';
import { lstat, realpath, rm, rmdir } from 'node:fs/promises';
import { hostname } from 'node:os';
import { basename, dirname, resolve } from 'node:path';
import { FileLock } from '../kernel/file-lock.js';
import { freeBytes } from '../kernel/free-space.js';
import { replaceBy } from '../kernel/replace-file.js';

/** A target cannot be written; the message is one sentence. */
export class TargetRefused extends Error {
  override readonly name = 'TargetRefused';
}

/** Bytes that copies leave free on a disk: a log on it must still be able to grow. */
const RESERVED_BYTES = 64 * 2 ** 20;

/** The process that writes to a target, and its machine: for a sentence, and to remove what it left. */
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
  const aside = `${path}.unfinished-${randomUUID()}`;
  const lock = await takeLock(`${path}.lock`, { pid: process.pid, host: hostname(), aside }, target);
  try {
    await replaceBy(path, aside, async () => {
      await write(aside);
      // Fails, as the rename does, if the folder is not empty.
      if ((await lstat(aside)).isDirectory()) await rmdir(path).catch(ignoreMissing);
    });
  } catch (error) {
    // The new name, if a file could not be renamed.
    const { code = '', path: failed, dest = failed } = error as NodeJS.ErrnoException & { dest?: string };
    const refusal = dest === path ? REFUSALS[code] : undefined;
    throw refusal ? new TargetRefused(`${target} ${refusal}.`) : error;
  } finally {
    lock.release({ removes: true });
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

/** What the error of a rename or removal says of a target. */
const REFUSALS: Record<string, string> = {
  ENOTEMPTY: 'exists and is not empty',
  EEXIST: 'exists and is not empty',
  ENOTDIR: 'is a file',
  EISDIR: 'is a folder',
};

async function takeLock(path: string, own: Holder, target: string): Promise<FileLock> {
  let lock: FileLock | undefined;
  try {
    lock = FileLock.take(path);
  } catch (error) {
    const flaw = FLAWS[(error as NodeJS.ErrnoException).code ?? ''];
    throw flaw ? new TargetRefused(`${dirname(target)} ${flaw}.`) : error;
  }
  const holder = holderIn(path);
  if (!lock) {
    const who = holder ? `Process ${holder.pid} on ${holder.host}` : 'Another process';
    throw new TargetRefused(`${who} is writing to ${target}.`);
  }
  // Of a process that has ended. Only what it created under its own name is removed.
  if (holder && dirname(holder.aside) === dirname(path) && basename(holder.aside).includes('.unfinished-')) {
    await rm(holder.aside, { recursive: true, force: true });
  }
  try {
    lock.write(own);
  } catch (error) {
    lock.release({ removes: true });
    throw error;
  }
  return lock;
}

/** Undefined if there is none, or while it is being written. */
function holderIn(path: string): Holder | undefined {
  const { pid, host, aside } = (FileLock.noteIn(path) ?? {}) as Partial<Holder>;
  const isHolder = Number.isInteger(pid) && typeof host === 'string' && typeof aside === 'string';
  return isHolder ? ({ pid, host, aside } as Holder) : undefined;
}

function ignoreMissing(error: NodeJS.ErrnoException): void {
  if (error.code !== 'ENOENT') throw error;
}
