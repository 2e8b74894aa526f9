import { accessSync, constants } from 'node:fs';
import { resolve } from 'node:path';
import type { Config } from '../kernel/config.js';
import { sentenceFor } from '../kernel/failures.js';
import { makeFolder } from '../kernel/make-folder.js';
import { StartError } from '../kernel/start-error.js';
import { StoreUnavailable } from '../stores/ports/event-store.js';

/** Creates the data folder if it does not exist. @throws StartError if it is not a folder or not writable */
export function prepareFolder(folder: string): void {
  try {
    makeFolder(resolve(folder));
    accessSync(folder, constants.R_OK | constants.W_OK | constants.X_OK);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    const isFile = code === 'EEXIST' || code === 'ENOTDIR';
    const name = `CREDENCE_DATA names ${folder}, which`;
    throw new StartError(
      isFile ? `${name} is not a folder.` : sentenceFor(`${name} cannot be created or written`, error),
    );
  }
}

/** Turns a failure to listen into a StartError; returns any other error as it is. */
export function listenFailure(error: unknown, { host, port }: Config): unknown {
  const { code } = error as NodeJS.ErrnoException;
  if (code === 'EADDRINUSE') {
    return new StartError(`Port ${port} of ${host} is in use: stop what listens there, or set CREDENCE_PORT.`);
  }
  if (code === 'EACCES') return new StartError(`Listening on port ${port} is not permitted: set CREDENCE_PORT.`);
  if (code === 'EADDRNOTAVAIL' || code === 'ENOTFOUND' || code === 'EAI_AGAIN') {
    return new StartError(`CREDENCE_HOST names ${host}, which is not an address of this machine.`);
  }
  return error;
}

/** One sentence for an error of the file system or the database library at start; undefined for other errors. */
export function sentenceOf(error: unknown): string | undefined {
  if (error instanceof StartError) return error.message;
  if (error instanceof StoreUnavailable) return `A store is unavailable: ${error.explanation}.`;
  const { code, syscall, path, message } = error as NodeJS.ErrnoException & { code?: string | number };
  if (syscall !== undefined) return sentenceFor(`${path ?? 'A file in CREDENCE_DATA'} cannot be used`, error);
  // LMDB's errors have a number as `code`.
  if (typeof code === 'number') return `The databases in CREDENCE_DATA cannot be opened: ${message}.`;
  return undefined;
}
