import { randomUUID } from 'node:crypto';
import { readdir, rm } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import { MODELS } from '../scoring/models/all.js';
import { EncodedRows } from '../stores/ports/encoded-rows.js';
import { Problem } from '../kernel/problems.js';
import type { EventStore } from '../stores/ports/event-store.js';
import {
  CopyFailed,
  startOf,
  type Batch,
  type Checkpoint,
  type ReadModels,
  type RowKey,
} from '../stores/ports/read-models.js';
import { keyOf } from '../stores/ports/row-key.js';
import {
  type Snapshot,
  SnapshotDamaged,
  readSnapshot,
  snapshotAt,
  writeSnapshot,
} from '../stores/ports/snapshot-file.js';
import { takeLease } from './lease.js';
import { createGeneration, findGeneration, isInLog, isSound } from './manifest.js';
import { OWN_VERSIONS, projectionsOf } from './own-views.js';

/**
 * Snapshots: the rows of a generation as of one checkpoint, in one file each. A generation that is filled from a
 * snapshot needs only the events after it, not the whole log.
 */

const ENDING = '.snapshot';
/** Rows written at once where a store has no preference. */
const ROWS_PER_BATCH = 10_000;
const BATCHES_IN_FLIGHT = 8;
const MAX_PAUSE_MS = 50;

/** A snapshot cannot be saved or used. The message is one sentence. */
export class SnapshotRefused extends Problem {
  constructor(message: string) {
    super('snapshot_refused', message);
    this.name = 'SnapshotRefused';
  }
}

/** A file in a folder of snapshots: its content, or what is wrong with it, as a clause. */
export type Listed = { path: string } & ({ snapshot: Snapshot } | { damage: string });

export interface SnapshotOptions {
  onProgress?: (rows: number, total: number) => void;
  signal?: AbortSignal;
}

/**
 * Saves a generation while it is used: written beside its final name, read back, synced and renamed. Then all but the
 * newest snapshots of this log and these views are deleted.
 * @param kept the number of snapshots to keep
 * @param options gently: uses the store at most half of the time, and so takes twice as long
 * @throws SnapshotRefused unless the generation is ready and was built from this log by this build; Error if the file
 * cannot be written
 */
export async function saveSnapshot(
  id: string,
  folder: string,
  kept: number,
  store: EventStore,
  readModels: ReadModels,
  { onProgress, signal, gently = false }: SnapshotOptions & { gently?: boolean } = {},
): Promise<Snapshot> {
  const generation = await findGeneration(id, readModels);
  if (generation?.status !== 'ready' || !(await isSound(generation, store))) {
    const why =
      generation && generation.status !== 'ready' ? `is ${generation.status}` : 'is not of this log and build';
    throw new SnapshotRefused(`${id} ${generation ? why : 'does not exist'}: it cannot be saved.`);
  }
  const { views } = generation;
  const created_at = new Date().toISOString();
  const name = `${store.logId}-${created_at.replace(/\W/g, '')}-${id}-${randomUUID().slice(0, 8)}${ENDING}`;
  const path = join(folder, name);
  const total = await rowsOf(id, views, readModels);
  const models = Object.fromEntries(MODELS.map((model) => [model.id, model.hash]));
  const header = { log: store.logId, generation: id, views, models, created_at };
  let snapshot: Snapshot;
  try {
    const copy = interrupted(readModels.copy(id), gently, signal);
    snapshot = await writeSnapshot(path, header, copy, (rows) => onProgress?.(rows, total));
  } catch (error) {
    if (error instanceof CopyFailed) throw new SnapshotRefused(`${id} was not saved: ${error.message}.`);
    throw error;
  }
  if (!(await isInLog(snapshot.checkpoint, store))) {
    await rm(path, { force: true });
    throw new SnapshotRefused(`${id} was not saved: the log was replaced meanwhile.`);
  }
  await deleteOlder(folder, snapshot, kept, store);
  return snapshot;
}

/** As a copy, but ends with the signal; `gently`: waits after each page for as long as it took, at most 50 ms. */
async function* interrupted(
  copy: ReturnType<ReadModels['copy']>,
  gently: boolean,
  signal: AbortSignal | undefined,
): ReturnType<ReadModels['copy']> {
  try {
    for (;;) {
      const started = performance.now();
      const page = await copy.next();
      if (page.done) return page.value;
      yield page.value;
      if (signal?.aborted) throw new CopyFailed('it was interrupted');
      if (gently) await sleep(Math.min(MAX_PAUSE_MS, performance.now() - started));
    }
  } finally {
    await copy.return(undefined as never);
  }
}

async function deleteOlder(folder: string, saved: Snapshot, kept: number, store: EventStore): Promise<void> {
  const viewsOf = ({ views }: Snapshot) => Object.keys(views).sort();
  const same = (await snapshotsOf(folder, store)).filter((other) => isDeepStrictEqual(viewsOf(other), viewsOf(saved)));
  for (const { path } of same.slice(kept)) await rm(path, { force: true });
}

/**
 * The snapshots of a log, the newest first. One that ends at an event that the log does not have is not among them: it
 * was saved before an older copy of the log was restored.
 */
export async function snapshotsOf(folder: string, store: EventStore): Promise<Snapshot[]> {
  const found: Snapshot[] = [];
  for (const listed of await listSnapshots(folder)) {
    if ('snapshot' in listed && (await isInLog(listed.snapshot.checkpoint, store))) found.push(listed.snapshot);
  }
  return found;
}

/** The snapshots in a folder, the newest first; those that are damaged come last. An absent folder has none. */
export async function listSnapshots(folder: string): Promise<Listed[]> {
  const names = await readdir(folder).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return [];
    throw error;
  });
  const listed: Listed[] = [];
  for (const name of names.filter((name) => name.endsWith(ENDING)).sort()) {
    const path = join(folder, name);
    try {
      listed.push({ path, snapshot: await snapshotAt(path) });
    } catch (error) {
      const { code, message } = error as NodeJS.ErrnoException;
      // Deleted meanwhile, by a process that has saved another.
      if (code !== 'ENOENT') listed.push({ path, damage: message });
    }
  }
  return listed.sort((a, b) => Number('snapshot' in b) - Number('snapshot' in a) || newerFirst(a, b));
}

function newerFirst(a: Listed, b: Listed): number {
  if (!('snapshot' in a && 'snapshot' in b)) return 0;
  const { position } = a.snapshot.checkpoint;
  return b.snapshot.checkpoint.position - position || (a.snapshot.created_at < b.snapshot.created_at ? 1 : -1);
}

/** Why a snapshot cannot be used with this log by this build, as a clause; undefined if it can. */
export async function misfitOf(
  { log, views, models, checkpoint }: Snapshot,
  store: EventStore,
): Promise<string | undefined> {
  if (log !== store.logId) return `it is of the log ${log}, not of ${store.logId}`;
  for (const [view, version] of Object.entries(views)) {
    if (!OWN_VERSIONS.has(view)) return `it has a view ${view}, which this build does not have`;
    if (OWN_VERSIONS.get(view) !== version)
      return `its view ${view} has version ${version}, and that of this build ${OWN_VERSIONS.get(view)}`;
  }
  const other = MODELS.find(({ id, hash }) => (models[id] ?? hash) !== hash);
  if (other) return `it was saved by a build with another model ${other.id}`;
  const head = await store.head();
  if (checkpoint.position > head) return `it ends at position ${checkpoint.position}, beyond the log's head ${head}`;
  if (!(await isInLog(checkpoint, store))) return `the log has another event at its position ${checkpoint.position}`;
  return undefined;
}

/**
 * Fills a new generation from a snapshot. It then lacks the events after the snapshot, which a follower applies.
 * @returns its id
 * @throws SnapshotRefused if the snapshot does not fit or is damaged, or if the generation was lost meanwhile; nothing
 * is left of it
 */
export async function loadSnapshot(
  snapshot: Snapshot,
  store: EventStore,
  readModels: ReadModels,
  { signal, onProgress }: SnapshotOptions = {},
): Promise<string> {
  const misfit = await misfitOf(snapshot, store);
  if (misfit !== undefined) throw refused(snapshot, misfit);
  const id = await createGeneration(snapshot.views, store, readModels, 'loading');
  const holder = randomUUID();
  const lease = id === undefined ? undefined : await takeLease(id, holder, readModels, store.logId);
  if (id === undefined || !lease) throw refused(snapshot, 'another process has begun a generation at the same time');
  try {
    const stop = signal ? AbortSignal.any([signal, lease.lost]) : lease.lost;
    const rows = new Loading(id, holder, store.logId, readModels);
    for await (const { entries } of readSnapshot(snapshot.path, (...row) => rows.add(...row))) {
      await rows.flush(false);
      if (stop.aborted) throw new SnapshotRefused(`${basename(snapshot.path)} was not loaded: it was interrupted.`);
      onProgress?.(entries, snapshot.entries);
    }
    await rows.flush(true);
    const found = await rowsOf(id, snapshot.views, readModels);
    if (found !== snapshot.rows) throw refused(snapshot, `${found} of its ${snapshot.rows} rows were stored`);
    await rows.finish(snapshot.checkpoint);
    await readModels.setStatus(id, 'building', store.logId);
    return id;
  } catch (error) {
    await readModels.dropGeneration(id).catch(() => undefined); // A worker drops it later.
    if (error instanceof SnapshotDamaged) throw refused(snapshot, error.message);
    throw error;
  } finally {
    await lease.release().catch(() => undefined); // It expires by itself.
  }
}

function refused({ path }: Snapshot, why: string): SnapshotRefused {
  return new SnapshotRefused(`${basename(path)} cannot be loaded: ${why}.`);
}

/** Writes rows to a generation that is being loaded. Its checkpoint is valid only once all of them are there. */
class Loading {
  private puts = new EncodedRows();
  private deletes: RowKey[] = [];
  private checkpoint: Checkpoint;
  private readonly unfinished: Checkpoint;
  private readonly applying: Promise<unknown>[] = [];
  private readonly rowsPerBatch: number;

  constructor(
    private readonly id: string,
    private readonly holder: string,
    log: string,
    private readonly readModels: ReadModels,
  ) {
    this.rowsPerBatch = readModels.rowsPerBatch ?? ROWS_PER_BATCH;
    this.checkpoint = startOf(log);
    // In no log: a store that loses its last step in a crash then has no generation that looks complete.
    this.unfinished = { log, position: 0, event_id: 'loading' };
  }

  add(bytes: Buffer, start: number, middle: number, end: number): void {
    if (middle === end) {
      // A batch deletes before it puts.
      if (this.puts.size > 0) this.apply(this.unfinished);
      this.deletes.push(keyOf(bytes.toString('utf8', start, middle)));
      return;
    }
    this.puts.copy(bytes, start, middle, end);
    if (this.puts.size >= this.rowsPerBatch) this.apply(this.unfinished);
  }

  /** Waits until few batches are in flight; `all`: until everything is written. */
  async flush(all: boolean): Promise<void> {
    if (all && this.puts.size + this.deletes.length > 0) this.apply(this.unfinished);
    while (this.applying.length > (all ? 0 : BATCHES_IN_FLIGHT)) await this.applying.shift();
  }

  async finish(checkpoint: Checkpoint): Promise<void> {
    this.apply(checkpoint);
    await this.flush(true);
  }

  private apply(next: Checkpoint): void {
    const { puts, deletes } = this;
    const batch: Batch = { id: randomUUID(), base: this.checkpoint, holder: this.holder, next, puts, deletes };
    const applied = this.readModels.apply(this.id, batch).then((outcome) => {
      if (outcome === 'refused') throw new SnapshotRefused(`${this.id} was lost while a snapshot was loaded into it.`);
    });
    applied.catch(() => undefined); // thrown where it is awaited
    this.applying.push(applied);
    this.checkpoint = next;
    this.puts = new EncodedRows();
    this.deletes = [];
  }
}

/** The number of rows of all views of a generation. */
async function rowsOf(id: string, views: Record<string, number>, readModels: ReadModels): Promise<number> {
  let rows = 0;
  for (const projection of projectionsOf(views)) {
    for (const view of projection.views) rows += await readModels.count(id, view);
  }
  return rows;
}
