import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { StartError } from '../../kernel/start-error.js';
import { flawOf } from './database-file.js';

/**
 * Checks each database file, since the library ends the process on one that it cannot read.
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
  let flaw: string | undefined;
  try {
    flaw = flawOf(path);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ENOTDIR') return;
    throw new StartError(`${path} cannot be read and written (${code}).`);
  }
  if (flaw) throw new StartError(`${path} ${flaw}: ${advice}.`);
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
