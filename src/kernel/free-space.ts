import { statfsSync } from 'node:fs';

/** How long a reading of `FreeSpace` is valid, ms. */
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

/** Tells before each write whether a disk is almost full. */
export class FreeSpace {
  private enough = true;
  private until = -Infinity;

  /** @param reserved bytes of the disk of this folder that writes leave free */
  constructor(
    private readonly folder: string,
    private readonly reserved: number,
  ) {}

  isEnough(): boolean {
    const now = performance.now();
    if (now > this.until) {
      this.enough = freeBytes(this.folder) >= this.reserved;
      this.until = now + VALID_MS;
    }
    return this.enough;
  }
}
