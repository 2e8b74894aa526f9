import { accessSync, constants, existsSync, mkdirSync, openSync, statSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { asBinary, open, type Database, type DatabaseOptions, type Key, type RangeOptions } from 'lmdb';
import { StoreUnavailable } from '../ports/event-store.js';
import { awaitingCall } from './lmdb-exit.js';
import { failureOf, sentenceFor } from '../../kernel/failures.js';
import { FreeSpace, freeBytes, unwritable } from '../../kernel/free-space.js';
import { ARE_FEW_PAGES_KEPT } from '../../kernel/memory.js';
import { StartError } from '../../kernel/start-error.js';
import { endOfTurn } from '../../kernel/turn.js';

/**
 * Writes that need space are refused if less than this is free: if many writers meet a full disk, the library corrupts
 * its memory while it reports the failure, and ends the process.
 */
const RESERVED_BYTES = 32 * 2 ** 20;
/** What a new environment takes, and more. */
const NEW_BYTES = 2 ** 20;

export interface EnvironmentOptions {
  /** The databases inside, by name. They are opened (and created) with the environment. */
  databases: Record<string, DatabaseOptions>;
  /**
   * Syncs the meta page of a commit only with the next commit: a crash of the machine may undo the last transaction as
   * a whole, and nothing else. For rows that are folded again from the log.
   */
  relaxed?: boolean;
}

/** Writes that share a transaction, or at least the outcome of one. */
interface WriteGroup {
  /** Whether another write may still join. */
  isOpen: boolean;
  writes: Promise<unknown>[];
  /** Resolves once all of them are settled, and the environment is open again where one has failed. */
  settled: Promise<void>;
}

/**
 * One LMDB environment (a folder), with the settings that make "durable" mean durable and a defined behaviour when a
 * commit fails. Every folder has one instance per process, which its users share and count, since two handles of the
 * library on one folder can deadlock.
 *
 * Reading: `environment.database('x').get(...)`. All reads within one synchronous piece of code see one snapshot, with
 * every write that has resolved before.
 */
export class LmdbEnvironment {
  private static readonly opened = new Map<string, LmdbEnvironment>();

  readonly folder: string;
  private readonly options: EnvironmentOptions;
  private users = 0;
  private root: ReturnType<typeof open> | undefined;
  /** Whether it is open for reads only, since its disk was read-only. */
  private isReadOnly = false;
  private opening: Promise<void> | undefined;
  /** The files that were opened: others may take their place. */
  private files: string | undefined;
  private databases: Record<string, Database> = {};
  private reopening: Promise<void> | undefined;
  private group: WriteGroup | undefined;
  /** Backups under way, which read the open file. */
  private backups: Promise<unknown> = Promise.resolve();
  private readonly space: FreeSpace;

  /**
   * @throws if the folder cannot be opened as an environment; StoreUnavailable for a failure that is not damage, and if a
   * new one needs space that the disk does not have
   */
  static async open(folder: string, options: EnvironmentOptions): Promise<LmdbEnvironment> {
    const path = resolve(folder);
    let environment = LmdbEnvironment.opened.get(path);
    if (!environment) {
      environment = new LmdbEnvironment(path, options);
      LmdbEnvironment.opened.set(path, environment);
    }
    environment.users++;
    try {
      await (environment.opening ??= environment.openFiles());
      Object.assign(environment.options.databases, options.databases);
      if (environment.root) environment.openDatabases();
      return environment;
    } catch (error) {
      await environment.close();
      throw orUnavailable(environment.folder, error);
    }
  }

  static isOpenHere(folder: string): boolean {
    return LmdbEnvironment.opened.has(resolve(folder));
  }

  private constructor(folder: string, options: EnvironmentOptions) {
    this.folder = folder;
    this.space = new FreeSpace(folder, RESERVED_BYTES);
    this.options = { ...options, databases: { ...options.databases } };
  }

  /** Are the files that were opened still in their folder? */
  get isInPlace(): boolean {
    return this.files === undefined || filesIn(this.folder) === this.files;
  }

  /** Waits until it is open again after a failed write. @throws StoreUnavailable if it cannot be opened */
  async ready(): Promise<void> {
    if (!this.root) await this.reopen().catch(() => undefined);
    if (!this.root) throw new StoreUnavailable(`${this.folder} is not open`);
  }

  /**
   * A database, to be used at once and not stored, since reopening replaces it.
   * @throws StoreUnavailable while closed
   */
  database<V, K extends Key = string>(name: string): Database<V, K> {
    if (!this.root) throw new StoreUnavailable(`${this.folder} is not open`);
    return this.databases[name] as Database<V, K>;
  }

  /**
   * Runs `action`, which reads. After a commit has failed at its meta page, and until the environment is reopened, the
   * library refuses every read.
   * @throws StoreUnavailable in that case, while closed, and for a failure that is not damage
   */
  read<T>(action: () => T): T {
    try {
      return action();
    } catch (error) {
      const isClosed = error instanceof Error && error.message.includes('MDB_PANIC');
      if (isClosed) throw new StoreUnavailable(`${this.folder} is not open`, { cause: error });
      throw orUnavailable(this.folder, error);
    }
  }

  /** The entries of a range of a database, `size` at a time, between which other work can run. */
  async *pages<V, K extends Key = string>(
    name: string,
    size: number,
    range: RangeOptions = {},
  ): AsyncGenerator<{ key: K; value: V }[]> {
    for (let rest = range; ;) {
      const page = this.read(() => [...this.database<V, K>(name).getRange({ ...rest, limit: size })]);
      if (page.length > 0) yield page;
      if (page.length < size) return;
      rest = { ...range, start: page.at(-1)!.key, exclusiveStart: true };
      await setImmediate();
    }
  }

  /**
   * Runs `action` (synchronous) in one write transaction; resolves once it is committed and synced, and readers see
   * nothing of it before. If `action` throws, nothing of it is written.
   * @throws StoreUnavailable if the transaction could not be committed; the environment was reopened, or will be
   * before the next write
   */
  write<T>(action: () => T): Promise<T> {
    // A child transaction, because the library commits what a throwing `transaction` callback has put so far.
    return awaitingCall(this.inGroup(() => this.root!.childTransaction(action) as Promise<T>));
  }

  /** Does what `write` does, for writes that need more space. @throws StoreUnavailable also if the disk is almost full */
  async grow<T>(action: () => T): Promise<T> {
    this.requireSpace();
    return this.write(action);
  }

  /**
   * Runs `queue`, which puts and removes with the library's asynchronous methods. The library's own thread executes
   * them in one transaction, while this thread continues. Resolves as `write` does.
   * @param queue must not throw, since what it has already queued could not be undone
   * @throws StoreUnavailable as `grow`
   */
  async batch(queue: () => void): Promise<void> {
    this.requireSpace();
    await this.inGroup(() => this.root!.batch(queue));
  }

  /**
   * Starts a write, together with all others of this turn of the event loop. Writes that arrive during their commit
   * wait, and start together after it. If the library queued them instead and the commit failed, the library would end
   * the process with a rejection that nobody can handle, or never settle the queued writes.
   */
  private async inGroup<T>(start: () => Promise<T>): Promise<T> {
    while (this.group?.isOpen === false || !this.root) {
      if (this.group?.isOpen === false) await this.group.settled;
      else await this.ready();
    }
    if (!this.group) {
      // A commit that fails on a read-only disk would leave nothing open to read from, and may end the process: its
      // library has 100 bytes for a message that can be longer.
      const failure = unwritable(join(this.folder, 'lock.mdb'));
      if (failure !== undefined) throw new StoreUnavailable(`${this.folder}: ${failure}`);
      if (this.isReadOnly) {
        await this.reopen().catch(() => undefined);
        return this.inGroup(start);
      }
    }
    this.group ??= this.openGroup();
    const write = start().catch(async (error: unknown) => {
      throw await this.failed(error);
    });
    this.group.writes.push(write);
    return write;
  }

  private openGroup(): WriteGroup {
    const group: WriteGroup = { isOpen: true, writes: [], settled: Promise.resolve() };
    // It closes before the library's batch, which is scheduled later for the same phase of the event loop.
    group.settled = endOfTurn().then(async () => {
      group.isOpen = false;
      await Promise.allSettled(group.writes);
      this.group = undefined;
    });
    return group;
  }

  /** Copies the environment into another, existing folder while it is in use. */
  async backup(folder: string): Promise<void> {
    if (!this.root) throw new StoreUnavailable(`${this.folder} is not open`);
    const backup = this.root.backup(folder, false);
    this.backups = Promise.allSettled([this.backups, backup]);
    await backup;
  }

  /** Waits for running writes; closes when the last user of the folder has called it. */
  async close(): Promise<void> {
    if (--this.users > 0) return;
    LmdbEnvironment.opened.delete(this.folder);
    while (this.group) await this.group.settled;
    await this.opening?.catch(() => undefined);
    await this.reopening?.catch(() => undefined);
    const root = this.root;
    this.root = undefined;
    await this.backups;
    await root?.close();
  }

  // Asynchronous, so that it rejects.
  private async openFiles(isReadOnly = false): Promise<void> {
    this.requireSpaceIfNew();
    this.databases = {};
    mkdirSync(this.folder, { recursive: true });
    if (!isReadOnly) this.requireLocks();
    this.root = open({
      path: this.folder,
      noSubdir: false,
      readOnly: isReadOnly,
      // With it, readers see a commit before its sync, and a failed sync leaves it there.
      overlappingSync: false,
      // Both are present in the library, absent from its type declarations. Where few pages stay in memory, those that
      // the system reads ahead take the place of pages that are needed again.
      ...({ noMetaSync: this.options.relaxed ?? false, noReadAhead: ARE_FEW_PAGES_KEPT } as object),
    });
    this.isReadOnly = isReadOnly;
    this.openDatabases();
    this.files ??= filesIn(this.folder);
  }

  private openDatabases(): void {
    for (const [name, options] of Object.entries(this.options.databases)) {
      this.databases[name] ??= this.root!.openDB({ ...options, name });
    }
  }

  private requireSpace(): void {
    if (this.space.isEnough()) return;
    throw new StoreUnavailable(
      `less than ${RESERVED_BYTES / 2 ** 20} MB are free on the disk of ${this.folder}: no further data is written there`,
      { code: 'store_full' },
    );
  }

  /** The library ends the process if it cannot open its file of locks, which another user may have made. @throws StartError */
  private requireLocks(): void {
    const path = join(this.folder, 'lock.mdb');
    try {
      const found = statSync(path, { throwIfNoEntry: false });
      // A file is not opened: closing it would end the locks that this process has in it.
      if (found?.isDirectory()) openSync(path, 'r+');
      accessSync(found ? path : this.folder, constants.R_OK | constants.W_OK);
    } catch (error) {
      throw new StartError(sentenceFor(`${path} cannot be opened`, error));
    }
  }

  /** On a full file system in memory, the first write to a new file of locks, which is mapped, would end the process. */
  private requireSpaceIfNew(): void {
    if (['data.mdb', 'lock.mdb'].every((name) => existsSync(join(this.folder, name)))) return;
    let place = this.folder;
    while (!existsSync(place)) place = dirname(place);
    if (freeBytes(place) >= NEW_BYTES) return;
    throw new StoreUnavailable(`less than 1 MB is free on the disk of ${this.folder}: no database is created there`, {
      code: 'store_full',
    });
  }

  /** The error that callers get for a failed commit. */
  private async failed(failure: unknown): Promise<StoreUnavailable> {
    // The reason arrives in a second promise. It must be handled, or it would end the process.
    const reason = await (failure as { commitError?: Promise<unknown> }).commitError?.catch((e: unknown) => e);
    // After a failed commit the library may never settle the next one, so the environment is reopened.
    await this.reopen().catch(() => undefined);
    const why = reason ?? failure;
    const clause = failureOf(why);
    const cause = clause === undefined ? why : new Error(clause);
    return new StoreUnavailable(`a write to ${this.folder} failed`, { cause });
  }

  private reopen(): Promise<void> {
    this.reopening ??= (async () => {
      const root = this.root;
      this.root = undefined;
      await this.backups;
      await root?.close().catch(() => undefined);
      // Never a file that has taken its place, nor a new one in the place of a folder that was removed.
      if (this.users === 0 || !this.isInPlace) return;
      // On a disk that has become read-only, reads go on.
      await this.openFiles().catch((error: NodeJS.ErrnoException) => {
        if (unwritable(join(this.folder, 'lock.mdb')) === undefined) throw error;
        return this.openFiles(true);
      });
    })().finally(() => (this.reopening = undefined));
    return this.reopening;
  }
}

/** The library's errors for an invalid page, or one with another number than requested. */
const DAMAGE_CODES = new Set([-30796, -30797, -30793]);

export function isDamage(error: unknown): boolean {
  return DAMAGE_CODES.has((error as { code?: number } | undefined)?.code ?? 0);
}

/** A failure for which the data is not to blame, with its place and a remedy; any other error as it is. */
export function orUnavailable(place: string, error: unknown): unknown {
  const failure = failureOf(error);
  return failure === undefined ? error : new StoreUnavailable(`${place}: ${failure}`);
}

/** The identity of an environment's files, of its data and of its locks, or why it cannot be seen. */
function filesIn(folder: string): string {
  const ids = ['data.mdb', 'lock.mdb'].map((name) => {
    try {
      const { dev, ino } = statSync(join(folder, name));
      return `${dev} ${ino}`;
    } catch (error) {
      return (error as NodeJS.ErrnoException).code;
    }
  });
  return ids.join();
}

/**
 * Bytes of a buffer as a value. They must be put before the next call for the same buffer, and must not change until
 * they are written. As its own encoders do, the library uses the `start` and `end` of a buffer as the bounds of its
 * value, so no buffer is needed for each value.
 */
export function bytesAsValue(buffer: Buffer & { start?: number; end?: number }, start: number, end: number): never {
  buffer.start = start;
  buffer.end = end;
  return asBinary(buffer) as never;
}
