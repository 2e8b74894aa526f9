import { statfsSync, utimesSync } from 'node:fs';
import { failureOf } from './failures.js';

/** How long `FreeSpace` goes by a reading of enough space, ms. */
const VALID_MS = 100;

/** Bytes that are free on the disk of a folder; Infinity if its file system does not tell. */
export function freeBytes(folder: string): number {
  try {
    const { blocks, bavail, bsize } = statfsSync(folder);
    return blocks === 0 ? Infinity : bavail * bsize;
  } catch {
    return Infinity; // The write itself will show it.
  }
}

/**
 * Why the disk of a file takes no writes, as a clause; undefined if it does. The times of the file are set, since after
 * an error ext4 refuses writes without being mounted read-only, which `access` does not see.
 */
export function unwritable(file: string): string | undefined {
  try {
    const now = new Date();
    utimesSync(file, now, now);
    return undefined;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    return code === 'EROFS' || code === 'EIO' ? failureOf(error) : undefined;
  }
}

/** Tells before each write whether a disk is almost full. */
export class FreeSpace {
  private until = -Infinity;

  /** @param reserved bytes of the disk of this folder that writes leave free */
  constructor(
    private readonly folder: string,
    private readonly reserved: number,
  ) {}

  isEnough(): boolean {
    const now = performance.now();
    if (now <= this.until) return true;
    const enough = freeBytes(this.folder) >= this.reserved;
    if (enough) this.until = now + VALID_MS;
    return enough;
  }
}
