import { randomBytes } from 'node:crypto';
import { linkSync, mkdirSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';

/** Replaces a secret file in one step: a reader sees the old content or the new one, and only the owner sees either. */
export function replaceFile(file: string, content: string): void {
  const draft = writeDraft(file, content);
  renameSync(draft, file);
}

/** Creates a secret file unless there is one; of several processes at once, one wins. @returns whether it was this one */
export function createFile(file: string, content: string): boolean {
  const draft = writeDraft(file, content);
  try {
    linkSync(draft, file);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  } finally {
    rmSync(draft, { force: true });
  }
}

/** Changes when the file does: replaced (inode), rewritten (mtime, size), made or removed. */
export function fileVersion(file: string): string {
  const stat = statSync(file, { throwIfNoEntry: false });
  return stat ? `${stat.ino}:${stat.mtimeMs}:${stat.size}` : 'absent';
}

function writeDraft(file: string, content: string): string {
  mkdirSync(dirname(file), { recursive: true });
  const draft = `${file}.${randomBytes(6).toString('hex')}.tmp`;
  writeFileSync(draft, content, { mode: 0o600, flag: 'wx', flush: true });
  return draft;
}
