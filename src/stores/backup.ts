import { existsSync, statSync } from 'node:fs';
import { mkdir, readFile, readdir, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { RecordedEvent } from '../kernel/event.js';
import { addLeaf, base64Of, leafOf, rootOfPeaks } from '../kernel/merkle.js';
import { checkDatabases } from './lmdb/check-databases.js';
import { LmdbEnvironment } from './lmdb/environment.js';
import { LmdbEventStore, copyLog } from './lmdb/lmdb-event-store.js';
import { LmdbKeyValue, copyMissing } from './lmdb/lmdb-key-value.js';
import { TEXT_KEY } from './ports/key-value.js';
import type { LogExtent } from './ports/log-marker.js';
import { TargetRefused, requireSpace, writtenAside } from './written-aside.js';

/** The content of a checked copy of a log. */
export interface CheckedCopy {
  events: number;
  /** Events that are damaged in the log and therefore in the copy. */
  damaged: RecordedEvent[];
  /** Whether the log begins with what was signed, as far as no event is damaged. */
  isAsSigned: boolean;
}

/** What follows a backup. */
interface Watch {
  /** Ends it between its steps; what was copied is removed. */
  signal?: AbortSignal;
  /** Events of the copy that were read back, and the number of those to read. */
  onProgress?(done: number, total: number): void;
  /** The last checkpoint of the log that was signed: its number of events, and their root in base64. */
  signed?: { size: number; root: string } | undefined;
}

/** Files beside the stores that a restored service needs. They contain secrets. */
const FILES = ['signing-keys.json', 'voucher-keys.json', 'api-keys.json', 'dev-api-key'];

/**
 * Copies a data folder while it is in use into a folder that does not exist yet: the log and the state with the store's
 * own backup, and the keys. The copy is a data folder: to restore, serve it. Read models are not copied, since the
 * first start folds them again. The folder gets its name once it is complete, has been read back, and is on disk.
 * @throws TargetRefused if the target exists, its disk is too full, or another backup to it is running; Error for a copy
 * that is not sound; the reason of the signal
 */
export async function backup(data: string, target: string, watch: Watch = {}): Promise<CheckedCopy> {
  // Checked before the work, and again by the rename.
  if (existsSync(target) && (!statSync(target).isDirectory() || (await readdir(target)).length > 0)) {
    throw new TargetRefused(`${target} exists and is not empty.`);
  }
  await mkdir(dirname(target), { recursive: true });
  let checked: CheckedCopy | undefined;
  await writtenAside(target, async (aside) => {
    await mkdir(aside, { recursive: true, mode: 0o700 });
    const least = await copyStores(data, aside, watch.signal);
    for (const file of FILES) {
      if (existsSync(join(data, file)))
        await writeFile(join(aside, file), await readFile(join(data, file)), { mode: 0o600 });
    }
    checked = await checkCopy(aside, least, watch);
    // The check created this file; a restored service does not need it.
    for (const name of ['log/lock.mdb', 'state/lock.mdb']) await rm(join(aside, name), { force: true });
  });
  return checked!;
}

/**
 * Copies the log and the state into `<target>/log` and `<target>/state` while they are in use.
 * @returns the state of the log before the copy, which the copy must contain
 */
async function copyStores(data: string, target: string, signal: AbortSignal | undefined): Promise<LogExtent> {
  const sizeOf = (name: string) => statSync(join(data, name, 'data.mdb'), { throwIfNoEntry: false })?.size ?? 0;
  requireSpace(target, sizeOf('log') + sizeOf('state'));
  await mkdir(join(target, 'state'));
  const state = await LmdbEnvironment.open(join(data, 'state'), { databases: {} });
  await state.backup(join(target, 'state')).finally(() => state.close());
  signal?.throwIfAborted();
  await mkdir(join(target, 'log'));
  // After the state: what it says has been read of the log, and of chains, must be in the copy of the log.
  const extent = await copyLog(join(data, 'log'), join(target, 'log'));
  // What was recorded in between may name texts that were stored in between.
  await copyMissing(join(data, 'state'), join(target, 'state'), TEXT_KEY);
  return extent;
}

/**
 * Opens a copy and reads every event of its log.
 * @throws Error if it does not contain the log as it was, or cannot be read
 */
async function checkCopy(
  copy: string,
  { log_id, position }: LogExtent,
  { signal, onProgress, signed = { size: 0, root: '' } }: Watch,
): Promise<CheckedCopy> {
  signal?.throwIfAborted();
  try {
    await checkDatabases(copy);
    const state = await LmdbKeyValue.open(join(copy, 'state'), { clock: Date.now });
    await state.close();
    const log = await LmdbEventStore.open(join(copy, 'log'));
    try {
      if (log.logId !== log_id) throw new Error(`it contains the log ${log.logId} instead of ${log_id}`);
      let [last, size] = [0, 0];
      const peaks: string[] = [];
      const damaged: RecordedEvent[] = [];
      for await (const slice of log.readAll(0, { sliceSize: 5_000 })) {
        signal?.throwIfAborted();
        last = slice.at(-1)!.position;
        onProgress?.(last, Math.max(last, position));
        for (const event of slice) {
          if (event.damage) damaged.push(event);
          else if (damaged.length === 0 && size < signed.size) addLeaf(peaks, size++, leafOf(event));
        }
      }
      if (last < position) throw new Error(`it ends at position ${last}, and the log was at ${position}`);
      const isSame = size === signed.size && (size === 0 || base64Of(rootOfPeaks(peaks)) === signed.root);
      return { events: last, damaged, isAsSigned: isSame || damaged.length > 0 };
    } finally {
      await log.close();
    }
  } catch (error) {
    signal?.throwIfAborted();
    throw new Error(`The copy is not sound, and was removed: ${(error as Error).message}.`, { cause: error });
  }
}
