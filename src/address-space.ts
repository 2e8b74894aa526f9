import { processLimit } from './kernel/process-limit.js';

/**
 * Ends the process with one sentence if the system limits its address space (`ulimit -v`). WebAssembly reserves 10 GB for
 * each memory, and the databases are mapped: where that fails, a library ends the process with a stack trace, at the
 * start or later. Entry points import this before everything else.
 */
const NEEDED_GB = 32;

const limit = processLimit('Max address space') / 2 ** 30;
if (limit < NEEDED_GB) {
  process.stderr.write(
    `credence: This process can have ${limit.toFixed(1)} GB of address space, and Credence needs at least ${NEEDED_GB}, ` +
      'most of which takes no memory: remove the limit ("ulimit -v unlimited", LimitAS=infinity), and limit the memory ' +
      'of its container instead.\n',
  );
  process.exit(1);
}
