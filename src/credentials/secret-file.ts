import { randomBytes } from 'node:crypto';
import { chownSync, linkSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { dirname } from 'node:path';
import type { Clock } from '../kernel/clock.js';
import { ConfigError } from '../kernel/config.js';
import { parseJsonText } from '../kernel/json.js';
import { FileLock } from '../kernel/file-lock.js';
import { makeFolder } from '../kernel/make-folder.js';
import { replaceBySync } from '../kernel/replace-file.js';

/**
 * Replaces a secret file in one step: readers see either the old or the new content, and only the owner may read it, who
 * stays the same. It is on the disk once this returns.
 */
export function replaceFile(file: string, content: string): void {
  const draft = draftOf(file);
  replaceBySync(file, draft, () => writeDraft(draft, file, content));
}

/**
 * Creates a secret file unless it exists; of several concurrent processes one wins.
 * @returns whether this one created it
 */
export function createFile(file: string, content: string): boolean {
  const draft = draftOf(file);
  try {
    writeDraft(draft, file, content);
    linkSync(draft, file);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  } finally {
    rmSync(draft, { force: true });
  }
}

/** Reads a secret file of JSON. @throws ConfigError, which quotes nothing of it */
export function readJsonFile(file: string): unknown {
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new ConfigError(`${file} ${code === 'ENOENT' ? 'does not exist' : `cannot be read (${code})`}.`);
  }
  try {
    return parseJsonText(text, true);
  } catch (error) {
    throw new ConfigError(`${file} cannot be read as JSON: ${(error as Error).message}.`);
  }
}

const CHECK_MS = 1_000;
const LOCK_POLL_MS = 20;
const LOCK_WAIT_MS = 5_000;

/**
 * Runs a read and change of a file while no other process runs one. The lock is on a file beside it.
 * @throws Error if another process holds the lock for longer than five seconds
 */
export async function exclusively<T>(file: string, change: () => T): Promise<T> {
  makeFolder(dirname(file));
  let lock: FileLock | undefined;
  for (let waited = 0; !(lock = FileLock.take(`${file}.lock`)); waited += LOCK_POLL_MS) {
    if (waited >= LOCK_WAIT_MS) throw new Error(`${file} is being changed by another process.`);
    await sleep(LOCK_POLL_MS);
  }
  try {
    return change();
  } finally {
    lock.release({ removes: true });
  }
}

/** Polls a file for changes, at most once a second. */
export class FileWatch {
  private version: string;
  private checkedAt = -Infinity;

  constructor(
    private readonly file: string,
    private readonly clock: Clock,
  ) {
    this.version = versionOf(file);
  }

  /** Whether the file has changed since this last returned true, or since the watch began. */
  changed(): boolean {
    const now = this.clock();
    // Also after the clock was set back: a revoked key must not stay valid until it catches up.
    if (now < this.checkedAt + CHECK_MS && now >= this.checkedAt) return false;
    this.checkedAt = now;
    const version = versionOf(this.file);
    if (version === this.version) return false;
    this.version = version;
    return true;
  }
}

/**
 * A text that changes when the file is replaced (inode), rewritten (size, ctime), given to another user (ctime),
 * created or removed, and when it cannot be looked at any more.
 */
function versionOf(file: string): string {
  try {
    const { ino, ctimeMs, size } = statSync(file);
    return `${ino}:${ctimeMs}:${size}`;
  } catch (error) {
    return String((error as NodeJS.ErrnoException).code);
  }
}

const draftOf = (file: string): string => `${file}.${randomBytes(6).toString('hex')}.tmp`;

function writeDraft(draft: string, file: string, content: string): void {
  makeFolder(dirname(draft));
  writeFileSync(draft, content, { mode: 0o600, flag: 'wx', flush: true });
  if (process.getuid?.() !== 0) return;
  // The service need not run as root, and could not read what a command of root has replaced.
  const { uid, gid } = statSync(file, { throwIfNoEntry: false }) ?? statSync(dirname(file));
  chownSync(draft, uid, gid);
}
