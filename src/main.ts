import './node-version.mjs';
import './address-space.js';
import { processLimit } from './kernel/process-limit.js';

/**
 * The entry point of the server. It loads the rest only where enough files can be open at once: Node opens many modules
 * at the same time, and fails to load them with misleading errors and a stack trace where it cannot.
 */

const MIN_OPEN_FILES = 256;

function refuse(reason: string): never {
  process.stderr.write(`credence: ${reason}: raise the limit ("ulimit -n", LimitNOFILE), best to 65536.\n`);
  process.exit(1);
}

const limit = processLimit('Max open files');
if (limit < MIN_OPEN_FILES) {
  refuse(`This process can have ${limit} files open, and Credence needs at least ${MIN_OPEN_FILES}`);
}
await import('./boot.js').catch((error: unknown) => {
  const { code } = error as NodeJS.ErrnoException;
  if (code !== 'EMFILE' && code !== 'ENFILE') throw error;
  refuse(`Too many files are open (${code})`);
});
