import { closeSync, constants, mkdtempSync, openSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** The longest path of a socket, in bytes: macOS has room for 104 with the final zero, Linux for 108. */
const MAX_PATH_BYTES = 103;

/** A path by which a socket can be bound and connected to. */
export interface SocketPath {
  path: string;
  /** Call it when the path is no longer used. */
  close(): void;
}

/** The path of a socket in a folder, or a short one that leads to it where that is too long. */
export function socketPath(folder: string, name: string): SocketPath {
  const isShort = (path: string) => Buffer.byteLength(path) <= MAX_PATH_BYTES;
  const path = join(folder, name);
  if (isShort(path)) return { path, close: () => undefined };
  if (process.platform === 'linux') {
    const fd = openSync(folder, constants.O_RDONLY | constants.O_DIRECTORY);
    return { path: `/proc/self/fd/${fd}/${name}`, close: () => closeSync(fd) };
  }
  // That of the system can be long, as it is on macOS.
  const place = [tmpdir(), '/tmp'].find((one) => isShort(join(one, 'c-XXXXXX/d', name))) ?? tmpdir();
  const shortcuts = mkdtempSync(join(place, 'c-'));
  symlinkSync(folder, join(shortcuts, 'd'));
  return { path: join(shortcuts, 'd', name), close: () => rmSync(shortcuts, { recursive: true, force: true }) };
}
