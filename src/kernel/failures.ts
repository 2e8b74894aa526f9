import { constants } from 'node:os';

const NO_MEMORY = 'raise the limit of memory of the process (ulimit -v) or of its container';
const NO_LOCKS = 'stop every process that uses the folder, and start again';
const RIGHTS = 'run this as the user to whom the data folder belongs';
const OTHER_DISK = 'put the folder on a local disk';

/**
 * Errors of the file system and of the database library for which the data is not to blame: what is wrong, and what to
 * do. None of them says that data is damaged.
 */
const FAILURES: Record<string, readonly [what: string, remedy: string]> = {
  EACCES: ['this user may not use it', RIGHTS],
  EPERM: ['this user may not use it', RIGHTS],
  EEXIST: ['a file is in the place of its folder', 'move that file away'],
  ENOTDIR: ['a file is in the place of its folder', 'move that file away'],
  EISDIR: ['a folder is in its place', 'move that folder away'],
  EROFS: ['its file system is read-only', 'make it writable; if the system made it read-only, check the disk'],
  EIO: ['the disk does not read or write it', 'check the disk, and the log of the system'],
  ENOSPC: ['its disk is full', 'free some space'],
  EDQUOT: ['the quota of its disk is used up', 'free some space, or raise the quota'],
  ENOMEM: ['there is not enough memory', NO_MEMORY],
  EMFILE: ['too many files are open in this process', 'raise the limit of open files (ulimit -n)'],
  ENFILE: ['too many files are open on this machine', 'raise the limit of the system (fs.file-max)'],
  EAGAIN: ['its locks cannot be taken', NO_LOCKS],
  EDEADLK: ['its locks cannot be taken', NO_LOCKS],
  EOWNERDEAD: ['its locks cannot be taken', NO_LOCKS],
  ENOTRECOVERABLE: ['its locks cannot be taken', NO_LOCKS],
  ENOLCK: ['its file system has no locks', OTHER_DISK],
  ENOTSUP: ['its file system cannot hold a database', OTHER_DISK],
  EINVAL: ['its file system cannot hold a database', OTHER_DISK],
  ESTALE: ['its file system is gone', OTHER_DISK],
  MDB_READERS_FULL: ['too many processes and threads read it at once', 'stop those that are not needed'],
  MDB_VERSION_MISMATCH: ['another build of the database library has written it', 'run the build that has written it'],
};

/** Of errors of the database library, which have numbers: negative ones of its own, and those of the system. */
const NAMES = new Map<number, string>([
  ...Object.entries(constants.errno).map(([name, number]) => [number, name] as const),
  [-30790, 'MDB_READERS_FULL'],
  [-30794, 'MDB_VERSION_MISMATCH'],
]);
// Numbers that have two names.
NAMES.set(constants.errno.EAGAIN, 'EAGAIN')
  .set(constants.errno.EDEADLK, 'EDEADLK')
  .set(constants.errno.ENOTSUP, 'ENOTSUP');
if (process.platform === 'linux') NAMES.set(130, 'EOWNERDEAD').set(131, 'ENOTRECOVERABLE');

/** The name of such an error; undefined for any other. */
function nameOf(error: unknown): string | undefined {
  const { code } = (error ?? {}) as { code?: unknown };
  if (typeof code === 'number') return NAMES.get(code);
  return typeof code === 'string' && (code in FAILURES || code in constants.errno) ? code : undefined;
}

/** What is wrong and what to do, as a clause; undefined for an error that is no such failure. */
export function failureOf(error: unknown): string | undefined {
  const name = nameOf(error);
  if (name === undefined) return undefined;
  const [what, remedy] = FAILURES[name] ?? ['it cannot be used', 'see the log of the system'];
  return `${what} (${name}): ${remedy}`;
}

/** A sentence: what cannot be done, with the error and what to do about it. */
export function sentenceFor(what: string, error: unknown): string {
  const name = nameOf(error) ?? (error as NodeJS.ErrnoException).code ?? (error as Error).message;
  const remedy = FAILURES[name]?.[1];
  return `${what} (${name})${remedy === undefined ? '' : `: ${remedy}`}.`;
}
