import { lstatSync, realpathSync, statfsSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { FileLock } from '../kernel/file-lock.js';
import { sentenceFor } from '../kernel/failures.js';
import { makeFolder } from '../kernel/make-folder.js';
import { StartError } from '../kernel/start-error.js';
import { VERSION } from '../kernel/version.js';

/** Types of file systems, as statfs(2) numbers them, whose locks do not hold between all who use them. */
const REFUSED_TYPES = new Map([
  [0x6969, 'NFS'],
  [0x517b, 'SMB'],
  [0xff534d42, 'SMB'],
  [0xfe534d42, 'SMB'],
  [0x01021997, '9p'],
]);

/** Characters of a command that are written down. */
const MAX_COMMAND = 200;

/** What an owner writes into the file that it has locked: it only words sentences. */
export interface OwnerNote {
  pid: number;
  host: string;
  version: string;
  /** RFC 3339. */
  since: string;
  /** Such as `serve` or `import`. */
  command: string;
}

/** Another process owns the folder. The message is one sentence that names it. */
export class FolderOwned extends StartError {
  constructor(
    readonly folder: string,
    /** Null: it has not written it yet. */
    readonly owner: OwnerNote | null,
  ) {
    super(`${folder} is in use by ${describeOwner(owner)}: only one process at a time may open it.`);
  }
}

/**
 * The right of this process to open the stores of a data folder. One process at a time has it: the kernel arbitrates by
 * a lock on `owner.lock`, which is never removed or replaced. Taken again in the same process, it is shared.
 */
export class Ownership {
  private static readonly held = new Map<string, Ownership>();
  private users = 0;

  private constructor(
    private readonly folder: string,
    private readonly lock: FileLock,
  ) {}

  /**
   * @param data the folder; created, for this user only, if it is absent
   * @param command what this process does with it, as arguments of `credence`
   * @throws FolderOwned; StartError for a folder that cannot be locked
   */
  static take(data: string, command = ''): Ownership {
    makeFolder(data);
    const folder = realpathSync(data);
    let ownership = Ownership.held.get(folder);
    if (!ownership) {
      ownership = new Ownership(folder, lockOf(folder));
      Ownership.held.set(folder, ownership);
      ownership.write(command);
    }
    ownership.users++;
    return ownership;
  }

  /** Call it after everything in the folder is closed. */
  async close(): Promise<void> {
    if (--this.users > 0) return;
    Ownership.held.delete(this.folder);
    this.lock.release();
  }

  private write(command: string): void {
    const note: OwnerNote = {
      pid: process.pid,
      host: hostname(),
      version: VERSION,
      since: new Date().toISOString(),
      command: command.slice(0, MAX_COMMAND),
    };
    try {
      this.lock.write(note);
    } catch {
      // The disk is full, say: it is owned all the same, and others are told of "another process".
    }
  }
}

export function describeOwner(owner: OwnerNote | null): string {
  if (!owner) return 'another process';
  const { pid, host, version, since, command } = owner;
  return `process ${pid} on ${host} (credence ${[command, version].join(' ').trim()}, since ${since})`;
}

function lockOf(folder: string): FileLock {
  const type = REFUSED_TYPES.get(statfsSync(folder).type);
  if (type !== undefined) {
    throw new StartError(
      `${folder} is on a file system of the type ${type}, on which no store may be: use a local disk.`,
    );
  }
  const path = join(folder, 'owner.lock');
  if (lstatSync(path, { throwIfNoEntry: false })?.isFile() === false) {
    throw new StartError(`${path} is no regular file, and Credence did not create it: remove it.`);
  }
  let lock: FileLock | undefined;
  try {
    lock = FileLock.take(path);
  } catch (error) {
    if (error instanceof StartError) throw error;
    throw new StartError(sentenceFor(`${path} cannot be opened and locked`, error));
  }
  if (!lock) throw new FolderOwned(folder, noteIn(path));
  return lock;
}

/** What the owner has written; null while it is being written. */
function noteIn(path: string): OwnerNote | null {
  const note = FileLock.noteIn(path) as Partial<OwnerNote> | null | undefined;
  return Number.isInteger(note?.pid) && typeof note?.command === 'string' ? (note as OwnerNote) : null;
}
