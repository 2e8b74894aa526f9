import { spawnSync } from 'node:child_process';
import {
  closeSync,
  constants,
  fstatSync,
  ftruncateSync,
  openSync,
  readFileSync,
  rmSync,
  statSync,
  writeSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import { StartError } from './start-error.js';

type TryLock = (fd: number) => boolean;

const { O_RDWR, O_CREAT, O_NOFOLLOW } = constants;
const require = createRequire(import.meta.url);
let tryLock: TryLock | undefined;

/**
 * A lock on a file that the kernel keeps: it excludes every other process on this machine, whatever container it runs
 * in, and is free as soon as its process has ended, however that ended. Linux: an OFD lock; macOS: flock.
 */
export class FileLock {
  private constructor(
    readonly path: string,
    readonly fd: number,
  ) {}

  /**
   * Creates the file if it is absent, readable and writable for this user only.
   * @returns undefined while another process, or another part of this one, has the lock
   * @throws StartError where the system has no such locks; Error with a code of the file system
   */
  static take(path: string): FileLock | undefined {
    tryLock ??= kernelLock();
    for (;;) {
      const fd = openSync(path, O_RDWR | O_CREAT | (O_NOFOLLOW ?? 0), 0o600);
      let isLocked = false;
      try {
        isLocked = tryLock(fd);
        if (!isLocked) return undefined;
        // The holder before may have removed the file after it was opened here.
        if (statSync(path, { throwIfNoEntry: false })?.ino === fstatSync(fd).ino) return new FileLock(path, fd);
        isLocked = false;
      } finally {
        if (!isLocked) closeSync(fd);
      }
    }
  }

  /** What the holder has written into the file, for the sentences of others; undefined if it is no JSON (yet). */
  static noteIn(path: string): unknown {
    try {
      return JSON.parse(readFileSync(path, 'utf8'));
    } catch {
      return undefined;
    }
  }

  /** Replaces the content of the file. @param note as JSON */
  write(note: object): void {
    ftruncateSync(this.fd);
    writeSync(this.fd, `${JSON.stringify(note)}\n`, 0);
  }

  release({ removes = false }: { removes?: boolean } = {}): void {
    if (removes) rmSync(this.path, { force: true });
    closeSync(this.fd);
  }
}

function kernelLock(): TryLock {
  try {
    return (require('fs-native-extensions') as { tryLock: TryLock }).tryLock;
  } catch {
    // Its binary does not load, as with musl.
    return lockOfProgram;
  }
}

/** A lock of flock(2) belongs to the open file, which the program inherits: it stays when the program has ended. */
function lockOfProgram(fd: number): boolean {
  const { status, error, stderr } = spawnSync('flock', ['-n', '3'], { stdio: ['ignore', 'ignore', 'pipe', fd] });
  if (status === 0 || status === 1) return status === 0;
  const why = error ? error.message : stderr.toString().trim();
  throw new StartError(`This system cannot lock files (${why}): install the program flock, of util-linux or busybox.`);
}
