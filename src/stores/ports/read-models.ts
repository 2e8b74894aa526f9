import type { Position } from '../../kernel/event.js';
import type { Json } from '../../kernel/json.js';
import type { EncodedRows, PlacedRows } from './encoded-rows.js';

/**
 * The port to the read models: disposable rows folded from the log, in generations that exist side by side. An adapter
 * must pass `test/contracts/read-models.contract.ts`.
 */

/** A row's address. `key` groups rows that are read as one range ordered by `sort` (byte order of ASCII strings). */
export interface RowKey {
  view: string;
  key: string;
  /** Absent for a view with one row per key. */
  sort?: string;
}

/** How far a generation has applied the log. `event_id` is the id of the event at `position`, null at the start. */
export interface Checkpoint {
  log: string;
  position: Position;
  event_id: string | null;
}

/** The checkpoint of a generation to which nothing of a log was applied yet. */
export function startOf(log: string): Checkpoint {
  return { log, position: 0, event_id: null };
}

/** Rows and checkpoint that are stored in one step: all of it or nothing. */
export interface Batch {
  /** Unique per batch; repeating the batch that was applied last counts as success. */
  id: string;
  /** Applied only if the stored checkpoint equals this … */
  base: Checkpoint;
  /** … and the stored, unexpired lease holder is this. */
  holder: string;
  next: Checkpoint;
  puts: EncodedRows;
  deletes: RowKey[];
}

/** `damaged`: rows are lost, or differ from what was written. Nothing is applied to it or read from it again. */
export type GenerationStatus = 'building' | 'ready' | 'damaged' | 'dropped';

export interface Generation {
  id: string;
  /** Names and fold versions of its views: `{"identities": 1}`. */
  views: Record<string, number>;
  status: GenerationStatus;
  checkpoint: Checkpoint;
  /** The process that may apply batches now, and until when (ms since the epoch); null if none. */
  lease: { holder: string; expires_at: number } | null;
  /** If it is `damaged`: the damage found, if known. */
  damage?: string;
}

/** The only pointer from a view to the generation that serves it. Replaced as a whole by compare-and-set. */
export interface Manifest {
  /** Starts at 1 and increases by one with every swap. */
  revision: number;
  lens: { policy_id: string | null; content_hash: string };
  model_hash: string;
  /** Revision of the `lens-platform` stream this manifest reflects; -1 before any promotion. */
  lens_revision: number;
  /** View name → generation id. */
  views: Record<string, string>;
  /** View name → the version of the fold that made its rows. */
  versions?: Record<string, number>;
  /** The value of `views` before the last swap, for a rollback; null before the first swap. */
  previous_views: Record<string, string> | null;
  /** Generations that are being dropped and must not serve again. */
  dropping?: string[];
  /** The log that the serving generations were folded from. */
  log?: string;
  /** Made with the first manifest and kept by all later ones: the manifests of two stores are never confused. */
  incarnation?: string;
}

/** Rows of one key in sort order (or reverse), starting strictly beyond `after` in that order. */
export interface RowRange {
  view: string;
  key: string;
  after?: string;
  reverse?: boolean;
  limit: number;
}
export type RowQuery = { get: RowKey } | { range: RowRange };

export interface RangeRow {
  sort: string;
  /** JSON, of the type that the projection of its view wrote. */
  value: unknown;
}

export interface ReadResult {
  status: GenerationStatus;
  checkpoint: Checkpoint;
  /** In the order of the queries: the value or undefined for `get`, the rows for `range`. One consistent snapshot. */
  results: unknown[];
}

/** What a generation that is damaged returns. */
export function damagedResult(checkpoint: Checkpoint, queries: readonly RowQuery[]): ReadResult {
  return { status: 'damaged', checkpoint, results: queries.map((query) => ('get' in query ? undefined : [])) };
}

/**
 * Writes the rows of a new generation in the order of their addresses. Nothing of it is visible before `finish`, and no
 * batch is applied meanwhile. Each call does nothing and returns false if the lease is not held or the generation is
 * gone.
 */
export interface Load {
  /** Appends rows, in one atomic step. Each address must be beyond the one before. */
  append(rows: PlacedRows): Promise<boolean>;
  /** Stores the checkpoint: the rows are those of the log up to it. */
  finish(next: Checkpoint): Promise<boolean>;
}

/** Some rows of a view, and the cursor of the next page; null: there is none. */
export interface ScannedPage {
  rows: { row: RowKey; value: Json }[];
  cursor: string | null;
}

export interface ReadModels {
  /**
   * If large batches would delay readers: a batch should end with the append that brings it to this many changed rows.
   * It is one atomic step whatever its size.
   */
  readonly rowsPerBatch?: number;

  /** A folder for the temporary files of builds, which may not exist. */
  readonly buildFolder: string;

  /**
   * Changes whenever rows or checkpoints may have gone back, because another server or an older snapshot may have
   * replaced the previous one. Absent if that cannot happen under a running process.
   */
  readonly restarts?: number;

  manifest(): Promise<Manifest | null>;
  /**
   * Stores `next` if the stored revision is `next.revision - 1` (0: no manifest yet) and the incarnation is the same.
   * False: another swap was first, or this is the manifest of another store.
   */
  swapManifest(next: Manifest): Promise<boolean>;

  /** Creates an empty generation at checkpoint {log, 0, null}. An existing id: no effect. */
  createGeneration(id: string, views: Record<string, number>, log: string): Promise<void>;
  generations(): Promise<Generation[]>;
  /** @param log a generation of another log is not changed */
  setStatus(id: string, status: GenerationStatus, log?: string): Promise<void>;
  /** Marks the generation dropped, then frees its space. */
  dropGeneration(id: string): Promise<void>;

  /** Takes or renews the lease, the right to apply batches. False while another has it, or for another `log`. */
  acquireLease(id: string, holder: string, ttlMs: number, log?: string): Promise<boolean>;
  /** Releases the lease, if this holder has it. */
  releaseLease(id: string, holder: string): Promise<void>;

  /** `refused`: base, holder or log did not match, or the generation is gone or damaged. Nothing was written. */
  apply(id: string, batch: Batch): Promise<'applied' | 'refused'>;

  /**
   * Writes all rows of a generation in the order of their addresses, which is faster than applying batches. What an
   * interrupted load has left is removed. Undefined: something was applied already, the lease is not held, or the
   * generation is gone.
   */
  load(id: string, holder: string): Promise<Load | undefined>;

  /** Undefined: the generation does not exist or is dropped; read the manifest again. */
  read(id: string, queries: readonly RowQuery[]): Promise<ReadResult | undefined>;

  /** Pages through every row of a view, each once as long as the generation exists. `cursor` null: from the start. */
  scan(id: string, view: string, cursor: string | null, limit: number): Promise<ScannedPage>;

  /** The number of rows of a view; 0 in a generation that does not exist. @throws StoreUnavailable if it is damaged */
  count(id: string, view: string): Promise<number>;

  close(): Promise<void>;
}
export const READ_MODELS = Symbol('ReadModels');

/** Receives the rows that a fold writes, and keeps no reference to them. */
export interface RowSink {
  put(row: RowKey, value: unknown): void;
  /** Rows put so far. */
  readonly size: number;
}
