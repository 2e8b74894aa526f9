import { closeSync, openSync, readdirSync, readSync } from 'node:fs';
import { join } from 'node:path';
import { StartError } from '../../kernel/start-error.js';

const MAGIC_AT = 24;
const MAGIC = 0xbeefc0de;

/**
 * Looks at the first bytes of each database file: the library ends the process on a file that it cannot read.
 * @throws StartError naming the file and what to do
 */
export function checkDatabases(data: string): void {
  checkDatabase(join(data, 'log'), 'restore the log from a backup');
  checkDatabase(join(data, 'state'), 'restore it from a backup');
  const views = join(data, 'views');
  for (const name of foldersIn(views)) {
    checkDatabase(join(views, name), `delete ${views} to have the read models built again from the log`);
  }
}

function checkDatabase(folder: string, advice: string): void {
  const path = join(folder, 'data.mdb');
  const header = Buffer.alloc(MAGIC_AT + 4);
  let length: number;
  try {
    const file = openSync(path, 'r+');
    length = readSync(file, header, 0, header.length, 0);
    closeSync(file);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ENOTDIR') return;
    throw new StartError(`${path} cannot be read and written (${code}).`);
  }
  if (length === 0 || (length === header.length && header.readUInt32LE(MAGIC_AT) === MAGIC)) return;
  throw new StartError(`${path} is not a database that this build can read: ${advice}.`);
}

function foldersIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') return [];
    throw new StartError(`${folder} cannot be read (${code}).`);
  }
}
