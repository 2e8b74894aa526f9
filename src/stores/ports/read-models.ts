import type { Position } from '../../kernel/event.js';
import type { Json } from '../../kernel/json.js';
import type { EncodedRows } from './encoded-rows.js';

/**
 * The port to the read models: disposable rows folded from the log, kept in generations that live side by side.
 * An adapter must pass `test/contracts/read-models.contract.ts`.
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

/** Rows and checkpoint of one step: all of it is applied or none. */
export interface Batch {
  /** Unique per attempt-to-apply; a repeat of the batch that was applied last counts as success. */
  id: string;
  /** Applied only if the stored checkpoint equals this … */
  base: Checkpoint;
  /** … and the stored, unexpired lease holder is this. */
  holder: string;
  next: Checkpoint;
  puts: EncodedRows;
  deletes: RowKey[];
}

/** `damaged`: rows of it are lost, or not what was written. Nothing is applied to it or read from it again. */
export type GenerationStatus = 'building' | 'ready' | 'damaged' | 'dropped';

export interface Generation {
  id: string;
  /** Names and fold versions of the views it holds: `{"identities": 1}`. */
  views: Record<string, number>;
  status: GenerationStatus;
  checkpoint: Checkpoint;
  /** Who may apply batches now, and until when (ms since the epoch); null if nobody. */
  lease: { holder: string; expires_at: number } | null;
  /** Where it is `damaged`, and that is known: what was found. */
  damage?: string;
}

/** The only pointer from a view to the generation that serves it. Swapped as a whole by compare-and-set. */
export interface Manifest {
  /** From 1, one more with every swap. */
  revision: number;
  lens: { policy_id: string | null; content_hash: string };
  model_hash: string;
  /** Revision of the `lens-platform` stream this manifest reflects; -1 before any promotion. */
  lens_revision: number;
  /** View name → generation id. */
  views: Record<string, string>;
  /** What `views` was before the last swap, for a rollback; null if nothing was swapped. */
  previous_views: Record<string, string> | null;
  /** Generations that are being dropped: nothing is to be served from them again. */
  dropping?: string[];
  /** The log that what serves was folded from. Absent in manifests of older builds. */
  log?: string;
  /** Made with the first manifest and kept by each that follows: those of two stores are never taken for one another. */
  incarnation?: string;
}

export type RowQuery =
  | { get: RowKey }
  | {
      /** Rows of one key in sort order (or reverse), starting strictly beyond `after` in that order. */
      range: { view: string; key: string; after?: string; reverse?: boolean; limit: number };
    };

export interface RangeRow {
  sort: string;
  value: Json;
}

export interface ReadResult {
  status: GenerationStatus;
  checkpoint: Checkpoint;
  /** In the order of the queries: the value or undefined for `get`, the rows for `range`. One consistent snapshot. */
  results: (Json | undefined | RangeRow[])[];
}

export interface ReadModels {
  /**
   * Where large batches would hold up readers: a batch should end with the append that brings it to so many changed
   * rows. It is one atomic step whatever its size.
   */
  readonly rowsPerBatch?: number;

  /** Elsewhere: how many changed rows make the next batch of a build, which nobody reads from. */
  bulkRows?(id: string): number;

  /**
   * Another number whenever rows or checkpoints may have gone back: another server, or another snapshot, may have taken
   * the place of the one before. Absent where that does not happen under a running process.
   */
  readonly restarts?: number;

  manifest(): Promise<Manifest | null>;
  /**
   * Stores `next` if the stored revision is `next.revision - 1` (0: no manifest yet) and the incarnation is the same.
   * False: somebody was faster, or this is the manifest of another store.
   */
  swapManifest(next: Manifest): Promise<boolean>;

  /** Creates an empty generation, `building`, at checkpoint {log, 0, null}. An existing id: no effect. */
  createGeneration(id: string, views: Record<string, number>, log: string): Promise<void>;
  generations(): Promise<Generation[]>;
  /** @param log nothing is done to a generation of another log */
  setStatus(id: string, status: GenerationStatus, log?: string): Promise<void>;
  /** Marks the generation dropped, then frees its space. */
  dropGeneration(id: string): Promise<void>;

  /**
   * Takes or renews the right to apply batches, for `ttlMs`. False while another holder's lease is unexpired.
   * @param log refused, too, on a generation of another log
   */
  acquireLease(id: string, holder: string, ttlMs: number, log?: string): Promise<boolean>;
  /** Gives the lease up, if it is this holder's. */
  releaseLease(id: string, holder: string): Promise<void>;

  /**
   * `refused`: base, holder or log did not match (or the generation is gone or damaged): nothing was written.
   */
  apply(id: string, batch: Batch): Promise<'applied' | 'refused'>;

  /** Undefined: the generation does not exist or is dropped; read the manifest again. */
  read(id: string, queries: readonly RowQuery[]): Promise<ReadResult | undefined>;

  /** Pages through every row of a view, each once while the generation stands. `cursor` null: the start/end. */
  scan(
    id: string,
    view: string,
    cursor: string | null,
    limit: number,
  ): Promise<{ rows: { row: RowKey; value: Json }[]; cursor: string | null }>;

  /** How many rows a view has, for showing progress; absent where that would take a pass over all of them. */
  count?(id: string, view: string): Promise<number>;

  close(): Promise<void>;
}
export const READ_MODELS = Symbol('ReadModels');

/** Takes the rows that a fold writes, and keeps nothing of what it is given. */
export interface RowSink {
  put(row: RowKey, value: unknown): void;
  /** Rows put so far. */
  readonly size: number;
}
