import { accessSync, constants } from 'node:fs';
import { delimiter, resolve } from 'node:path';

/**
 * Whether a program is on the PATH, or where it says if it is itself a path. Asking it for its version takes eventstored
 * a third of a second, in every file of tests.
 */
export function isOnPath(program: string): boolean {
  const folders = (process.env['PATH'] ?? '').split(delimiter);
  return folders.some((folder) => isExecutable(resolve(folder, program)));
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
