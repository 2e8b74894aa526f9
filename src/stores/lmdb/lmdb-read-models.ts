import { existsSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Database } from 'lmdb';
import type { Clock } from '../../kernel/clock.js';
import type { Json } from '../../kernel/json.js';
import { LmdbEnvironment } from './environment.js';
import { LmdbGeneration } from './lmdb-generation.js';
import type {
  Batch,
  Generation,
  GenerationStatus,
  Manifest,
  RowQuery,
  ReadModels,
  ReadResult,
  RowKey,
} from '../ports/read-models.js';

/** The record of a generation in the control environment; the rest is stored beside its rows. */
interface GenerationRecord {
  id: string;
  views: Record<string, number>;
  status: GenerationStatus;
  log: string;
}

/**
 * Read models in LMDB: `<folder>/control` holds the manifest and the list of generations, `<folder>/g-<id>` the rows of
 * one generation. Several processes may share the folder.
 */
export class LmdbReadModels implements ReadModels {
  readonly #folder: string;
  readonly #clock: Clock;
  readonly #control: LmdbEnvironment;
  readonly #generations = new Map<string, LmdbGeneration>();
  /** The decoded content of the control environment, as read in this callback of the event loop. */
  readonly #seen = new Map<string, unknown>();

  static async open(folder: string, options: { clock: Clock }): Promise<LmdbReadModels> {
    return new LmdbReadModels(folder, options.clock);
  }

  private constructor(folder: string, clock: Clock) {
    this.#folder = folder;
    this.#clock = clock;
    this.#control = LmdbEnvironment.open(join(folder, 'control'), { databases: { control: { encoding: 'json' } } });
  }

  async manifest(): Promise<Manifest | null> {
    return this.#see<Manifest>('manifest') ?? null;
  }

  async swapManifest(next: Manifest): Promise<boolean> {
    return this.#change(() => {
      const stored = this.#records.get('manifest') as Manifest | undefined;
      if ((stored?.revision ?? 0) !== next.revision - 1) return false;
      this.#records.putSync('manifest', next);
      return true;
    });
  }

  async createGeneration(id: string, views: Record<string, number>, log: string): Promise<void> {
    if (this.#record(id)?.status === 'dropped') return;
    // The environment of the rows first, so that a record never exists without it.
    await this.#open(id).create(log);
    await this.#change(() => {
      if (!this.#record(id)) this.#putRecord({ id, views, status: 'building', log });
    });
  }

  async generations(): Promise<Generation[]> {
    const records: GenerationRecord[] = [];
    for (const { value } of this.#records.getRange({ start: recordKey(''), end: recordKey('\uffff') })) {
      records.push(value as GenerationRecord);
    }
    return records.map(({ id, views, status, log }) => {
      const generation = this.#generation(id);
      const checkpoint = generation?.checkpoint() ?? { log, position: 0, event_id: null };
      return { id, views, status, checkpoint, lease: generation?.lease(this.#clock()) ?? null };
    });
  }

  async setStatus(id: string, status: GenerationStatus, log?: string): Promise<void> {
    if (log !== undefined && this.#generation(id)?.checkpoint()?.log !== log) return;
    await this.#change(() => {
      const record = this.#record(id);
      if (record && record.status !== 'dropped') this.#putRecord({ ...record, status });
    });
  }

  async dropGeneration(id: string): Promise<void> {
    const generation = this.#generation(id);
    // Readers close a generation that they find dropped.
    this.#generations.delete(id);
    await this.setStatus(id, 'dropped');
    if (!generation) return;
    // Other processes may have the files open: they then find the generation empty, even with an old record.
    await generation.abandon();
    await generation.close();
    await this.#generations.get(id)?.close();
    this.#generations.delete(id);
    await rm(this.#path(id), { recursive: true, force: true });
  }

  async acquireLease(id: string, holder: string, ttlMs: number, log?: string): Promise<boolean> {
    const generation = this.#generation(id);
    if (log !== undefined && generation?.checkpoint()?.log !== log) return false;
    return (await generation?.acquireLease(holder, this.#clock, ttlMs)) ?? false;
  }

  async releaseLease(id: string, holder: string): Promise<void> {
    await this.#generation(id)?.releaseLease(holder);
  }

  async apply(id: string, batch: Batch): Promise<'applied' | 'refused'> {
    try {
      return (await this.#generation(id)?.apply(batch, this.#clock)) ?? 'refused';
    } catch (error) {
      // The generation was dropped and closed while the batch waited.
      if (this.#record(id)?.status === 'dropped') return 'refused';
      throw error;
    }
  }

  bulkRows(id: string): number {
    return this.#generation(id)?.bulkRows() ?? 1;
  }

  async read(id: string, queries: readonly RowQuery[]): Promise<ReadResult | undefined> {
    const record = this.#see<GenerationRecord>(recordKey(id));
    const found = record && this.#generation(id, record)?.read(queries);
    if (!found) {
      // The generation may have been dropped: the caller must read the manifest again.
      this.#seen.clear();
      return undefined;
    }
    return { status: record.status, checkpoint: found.checkpoint, results: found.results };
  }

  async scan(
    id: string,
    view: string,
    cursor: string | null,
    limit: number,
  ): Promise<{ rows: { row: RowKey; value: Json }[]; cursor: string | null }> {
    return this.#generation(id)?.scan(view, cursor, limit) ?? { rows: [], cursor: null };
  }

  async count(id: string, view: string): Promise<number> {
    return (await this.#generation(id)?.count(view)) ?? 0;
  }

  async close(): Promise<void> {
    await Promise.all([...this.#generations.values()].map((generation) => generation.close()));
    this.#generations.clear();
    await this.#control.close();
  }

  get #records(): Database<unknown, string> {
    return this.#control.database('control');
  }

  /**
   * A record as of this callback of the event loop, for reading only, since one request reads the same record several
   * times.
   */
  #see<T>(key: string): T | undefined {
    const seen = this.#seen;
    if (seen.has(key)) return seen.get(key) as T | undefined;
    if (seen.size === 0) process.nextTick(() => seen.clear());
    const value = this.#control.read(() => this.#records.get(key));
    seen.set(key, value);
    return value as T | undefined;
  }

  async #change<T>(action: () => T): Promise<T> {
    return this.#control.write(action).finally(() => this.#seen.clear());
  }

  #record(id: string): GenerationRecord | undefined {
    return this.#records.get(recordKey(id)) as GenerationRecord | undefined;
  }

  #putRecord(record: GenerationRecord): void {
    this.#records.putSync(recordKey(record.id), record);
  }

  /** The generation, also one that another process created; undefined if it does not exist or was dropped. */
  #generation(id: string, record = this.#record(id)): LmdbGeneration | undefined {
    const status = record?.status;
    const open = this.#generations.get(id);
    if (status === undefined || status === 'dropped') {
      if (open) {
        this.#generations.delete(id);
        void open.close().catch(() => undefined);
      }
      return undefined;
    }
    if (open) return open;
    return existsSync(join(this.#path(id), 'data.mdb')) ? this.#open(id) : undefined;
  }

  #open(id: string): LmdbGeneration {
    let generation = this.#generations.get(id);
    if (!generation) {
      generation = new LmdbGeneration(this.#path(id));
      this.#generations.set(id, generation);
    }
    return generation;
  }

  #path(id: string): string {
    return join(this.#folder, `g-${encodeURIComponent(id)}`);
  }
}

function recordKey(id: string): string {
  return `generation ${id}`;
}
