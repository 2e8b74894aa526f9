import { join } from 'node:path';
import { sentenceFor } from '../../kernel/failures.js';
import { StartError } from '../../kernel/start-error.js';
import { flawOf } from './database-file.js';
import { LmdbEnvironment } from './environment.js';

/**
 * Checks the database files of the log and the state, since the library ends the process on one that it cannot read. Those
 * of the read models are checked when they are opened.
 * @throws StartError naming the file and what to do
 */
export async function checkDatabases(data: string): Promise<void> {
  const state = join(data, 'state');
  const remedies = {
    [join(data, 'log')]: 'restore the log from a backup',
    [state]: `restore it from a backup, or delete the folder ${state}, by which no fact is lost, but its jobs, all sign-ins and the texts behind hashes (evidence_uri) are`,
  };
  for (const [folder, remedy] of Object.entries(remedies)) {
    // Otherwise it was checked when it was opened, and its pages change.
    if (LmdbEnvironment.isOpenHere(folder)) continue;
    const path = join(folder, 'data.mdb');
    const flaw = await flawOf(path).catch((error: unknown) => {
      // A file is in the place of the folder: whatever opens the folder says so.
      if ((error as NodeJS.ErrnoException).code === 'ENOTDIR') return undefined;
      throw new StartError(sentenceFor(`${path} cannot be read and written`, error));
    });
    if (flaw) throw new StartError(`${path} ${flaw}: ${remedy}.`);
  }
}
