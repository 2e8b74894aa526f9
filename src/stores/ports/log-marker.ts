import { readFile, writeFile } from 'node:fs/promises';
import { sentenceFor } from '../../kernel/failures.js';
import { FileLock } from '../../kernel/file-lock.js';
import { replaceBy } from '../../kernel/replace-file.js';
import { StartError } from '../../kernel/start-error.js';
import type { Position } from '../../kernel/event.js';

const WRITE_EVERY_MS = 1_000;

/** A log, and its last position at some moment. */
export interface LogExtent {
  log_id: string;
  position: Position;
}

/**
 * A small file with the id of a log and the position it had at least reached, so that a log that was emptied, lost or
 * replaced by an older copy is detected at start, and not when a position no longer exists. Written once a second while
 * the log grows, and at close: it may lag behind, but never contains more than was durable.
 */
export class LogMarker {
  private written: Position = -1;
  private readonly timer: NodeJS.Timeout;
  private writing = Promise.resolve();

  constructor(
    private readonly path: string,
    private readonly current: () => LogExtent,
  ) {
    this.timer = setInterval(() => this.writeNext(), WRITE_EVERY_MS).unref();
  }

  async close(): Promise<void> {
    clearInterval(this.timer);
    await this.writeNext();
  }

  private writeNext(): Promise<void> {
    this.writing = this.writing.then(() => this.write()).catch(() => undefined); // The next one tries again.
    return this.writing;
  }

  private async write(): Promise<void> {
    const marker = this.current();
    if (marker.position === this.written) return;
    // Another process of a cluster may be writing it: then the next call does.
    const temporary = FileLock.take(`${this.path}.tmp`);
    if (!temporary) return;
    try {
      await replaceBy(this.path, temporary.path, () => writeFile(temporary.path, `${JSON.stringify(marker)}\n`));
    } finally {
      temporary.release();
    }
    this.written = marker.position;
  }
}

/** The path of the marker of a log in a folder: beside the folder. */
export function markerPath(folder: string): string {
  return `${folder.replace(/\/+$/, '')}.marker.json`;
}

/** @param logId undefined if the log does not exist yet. @throws StartError if the log does not match the marker */
export async function checkMarker(
  path: string,
  place: string,
  logId: string | undefined,
  head: Position,
): Promise<void> {
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') return;
    throw new StartError(sentenceFor(`${path} cannot be read`, error));
  }
  const marker = parseMarker(text, path);
  const advice = `restore a complete copy, or delete ${path} to continue with what is there`;
  if (marker.log_id !== logId) {
    const found = logId ? `the log ${logId}` : 'no log';
    throw new StartError(`${place} should contain the log ${marker.log_id} but contains ${found}: ${advice}.`);
  }
  if (head < marker.position) {
    const lost = `ends at position ${head} but has reached ${marker.position} before`;
    throw new StartError(`The log in ${place} ${lost}: ${advice}.`);
  }
}

function parseMarker(text: string, path: string): LogExtent {
  try {
    const marker = JSON.parse(text) as Partial<LogExtent> | null;
    if (typeof marker?.log_id === 'string' && Number.isSafeInteger(marker.position)) return marker as LogExtent;
    throw new TypeError('not a marker');
  } catch {
    throw new StartError(`${path} is damaged: delete it if the log beside it is the right one.`);
  }
}
