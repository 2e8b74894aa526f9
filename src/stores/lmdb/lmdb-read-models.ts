import { statSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Database } from 'lmdb';
import type { Clock } from '../../kernel/clock.js';
import { StartError } from '../../kernel/start-error.js';
import { StoreUnavailable } from '../ports/event-store.js';
import { flawOf } from './database-file.js';
import { isDamage, LmdbEnvironment, orUnavailable } from './environment.js';
import { GenerationDamaged, LmdbGeneration } from './lmdb-generation.js';
import { sealedJson, unsealedJson } from '../ports/sealed-json.js';
import {
  damagedResult,
  startOf,
  type Batch,
  type Load,
  type Generation,
  type GenerationStatus,
  type Manifest,
  type RowQuery,
  type ReadModels,
  type ReadResult,
  type ScannedPage,
} from '../ports/read-models.js';

/** The record of a generation in the control environment; the rest is stored beside its rows. */
interface GenerationRecord extends Pick<Generation, 'id' | 'views' | 'status' | 'damage'> {
  log: string;
}

/**
 * Read models in LMDB: `<folder>/control` holds the manifest and the list of generations, `<folder>/g-<id>` the rows of
 * one generation. The leases of generations are in memory: they end with the process.
 *
 * A generation in which anything differs from what was written, or whose file has an invalid page, is `damaged` from
 * then on: nothing is read from it or added to it.
 */
export class LmdbReadModels implements ReadModels {
  private readonly opened = new Map<string, LmdbGeneration>();
  private readonly opening = new Map<string, Promise<void>>();
  /** By generation: the damage found, also if it could not be recorded. */
  private readonly damaged = new Map<string, string>();
  /** Records of the control environment as last decoded, by key: every request reads them, and they seldom change. */
  private readonly decoded = new Map<string, { text: string; record: object }>();

  /**
   * @param onGivenUp called with the damage if the list of generations itself is damaged: all read models are then deleted,
   * to be folded again
   * @throws StartError if it is damaged, without `onGivenUp`
   */
  static async open(
    folder: string,
    { clock, onGivenUp }: { clock: Clock; onGivenUp?: (what: string) => void },
  ): Promise<LmdbReadModels> {
    const control = join(folder, 'control');
    let flaw = await fileFlaw(control);
    if (flaw === undefined) {
      const models = await LmdbReadModels.create(folder, clock);
      try {
        // Throws if any of them is damaged.
        models.control.read(() => {
          for (const { key } of models.records.getRange({})) models.stored(key);
        });
        return models;
      } catch (error) {
        await models.close();
        const isOther = error instanceof StoreUnavailable && error.code === 'read_models_damaged';
        if (!isOther && !isDamage(error)) throw error;
        flaw = 'is damaged';
      }
    }
    const damage = `${join(control, 'data.mdb')} ${flaw}`;
    if (!onGivenUp) {
      throw new StartError(`${damage}: start the service, which builds the read models again, or delete ${folder}.`);
    }
    await rm(folder, { recursive: true });
    onGivenUp(damage);
    return LmdbReadModels.create(folder, clock);
  }

  private static async create(folder: string, clock: Clock): Promise<LmdbReadModels> {
    const databases = { control: { encoding: 'string' } } as const;
    return new LmdbReadModels(folder, clock, await LmdbEnvironment.open(join(folder, 'control'), { databases }));
  }

  private constructor(
    private readonly folder: string,
    private readonly clock: Clock,
    private readonly control: LmdbEnvironment,
  ) {}

  /** Beside the rows. */
  get buildFolder(): string {
    return join(dirname(this.folder), 'build');
  }

  async manifest(): Promise<Manifest | null> {
    return this.stored<Manifest>('manifest') ?? null;
  }

  async swapManifest(next: Manifest): Promise<boolean> {
    return this.control.write(() => {
      if ((this.stored<Manifest>('manifest')?.revision ?? 0) !== next.revision - 1) return false;
      this.put('manifest', next);
      return true;
    });
  }

  async createGeneration(id: string, views: Record<string, number>, log: string): Promise<void> {
    if (this.record(id)?.status === 'dropped') return;
    // The environment of the rows first, so that a record never exists without it.
    await this.openGeneration(id);
    await this.opened.get(id)?.create(log);
    await this.control.write(() => {
      if (!this.record(id)) this.putRecord({ id, views, status: 'building', log });
    });
  }

  async generations(): Promise<Generation[]> {
    const range = { start: recordKey(''), end: recordKey('\uffff') };
    const keys = this.control.read(() => [...this.records.getKeys(range)]);
    const found: Generation[] = [];
    for (const id of keys.map((key) => key.slice(recordKey('').length))) {
      const state = await this.ask(id, (generation) => ({
        checkpoint: generation.checkpoint(),
        lease: generation.lease(this.clock()),
      }));
      if (!state?.checkpoint) this.giveUpUnlessDropped(id);
      const record = this.record(id)!;
      const damage = this.damaged.get(id) ?? record.damage;
      found.push({
        id,
        views: record.views,
        status: this.statusOf(record),
        checkpoint: state?.checkpoint ?? startOf(record.log),
        lease: state?.lease ?? null,
        ...(damage !== undefined && { damage }),
      });
    }
    return found;
  }

  async setStatus(id: string, status: GenerationStatus, log?: string): Promise<void> {
    if (log !== undefined && (await this.ask(id, (generation) => generation.checkpoint()))?.log !== log) return;
    await this.control.write(() => {
      const record = this.record(id);
      if (!record || record.status === 'dropped') return;
      if (this.statusOf(record) !== 'damaged' || status === 'dropped') this.putRecord({ ...record, status });
    });
  }

  async dropGeneration(id: string): Promise<void> {
    if (!this.record(id)) return;
    // From here on nobody reads or opens it.
    await this.setStatus(id, 'dropped');
    await this.opening.get(id)?.catch(() => undefined);
    const generation = this.opened.get(id);
    this.opened.delete(id);
    // It may be damaged.
    await generation?.close().catch(() => undefined);
    this.damaged.delete(id);
    await rm(this.path(id), { recursive: true, force: true });
  }

  async acquireLease(id: string, holder: string, ttlMs: number, log?: string): Promise<boolean> {
    const taken = await this.ask(id, (generation) => {
      if (log !== undefined && generation.checkpoint()?.log !== log) return false;
      return generation.acquireLease(holder, this.clock(), ttlMs);
    });
    return taken ?? false;
  }

  async releaseLease(id: string, holder: string): Promise<void> {
    await this.ask(id, (generation) => generation.releaseLease(holder));
  }

  async apply(id: string, batch: Batch): Promise<'applied' | 'refused'> {
    try {
      return (await this.ask(id, (generation) => generation.apply(batch, this.clock))) ?? 'refused';
    } catch (error) {
      // The generation was dropped and closed while the batch waited.
      if (this.record(id)?.status === 'dropped') return 'refused';
      throw error;
    }
  }

  async load(id: string, holder: string): Promise<Load | undefined> {
    const load = await this.ask(id, (generation) => generation.load(holder, this.clock));
    if (!load) return undefined;
    return {
      append: async (rows) => (await this.ask(id, () => load.append(rows))) ?? false,
      finish: async (next) => (await this.ask(id, () => load.finish(next))) ?? false,
    };
  }

  async read(id: string, queries: readonly RowQuery[]): Promise<ReadResult | undefined> {
    const found = await this.ask(id, (generation, { status }) => {
      const read = generation.read(queries);
      return read && { status, ...read };
    });
    if (found) return found;
    const record = this.record(id);
    // The generation may have been dropped: the caller must read the manifest again.
    if (!record || !this.giveUpUnlessDropped(id)) return undefined;
    return damagedResult(startOf(record.log), queries);
  }

  async scan(id: string, view: string, cursor: string | null, limit: number): Promise<ScannedPage> {
    const page = await this.askSound(id, (generation) => generation.scan(view, cursor, limit));
    return page ?? { rows: [], cursor: null };
  }

  async count(id: string, view: string): Promise<number> {
    return (await this.askSound(id, (generation) => generation.count(view))) ?? 0;
  }

  async close(): Promise<void> {
    await Promise.allSettled(this.opening.values());
    await Promise.all([...this.opened.values()].map((generation) => generation.close().catch(() => undefined)));
    this.opened.clear();
    await this.control.close();
  }

  private get records(): Database<string, string> {
    return this.control.database('control');
  }

  /** A record, for reading only, since others get the same object. @throws StoreUnavailable if it differs from what was written */
  private stored<T extends object>(key: string): T | undefined {
    const text = this.control.read(() => this.records.get(key));
    if (text === undefined) return undefined;
    const last = this.decoded.get(key);
    if (last?.text === text) return last.record as T;
    const record = unsealedJson<T>(key, text);
    if (!record) {
      throw new StoreUnavailable(`${key} in ${this.control.folder} is damaged: restart the service`, {
        code: 'read_models_damaged',
      });
    }
    this.decoded.set(key, { text, record });
    return record;
  }

  private put(key: string, value: object): void {
    this.records.putSync(key, sealedJson(key, value));
  }

  private record(id: string): GenerationRecord | undefined {
    return this.stored<GenerationRecord>(recordKey(id));
  }

  private putRecord(record: GenerationRecord): void {
    this.put(recordKey(record.id), record);
  }

  private statusOf({ id, status }: GenerationRecord): GenerationStatus {
    return status !== 'dropped' && this.damaged.has(id) ? 'damaged' : status;
  }

  /**
   * The result of `ask` for a generation; undefined if it does not exist, was dropped or is damaged. Marks one that turns
   * out to be damaged, so that nobody reads it again.
   */
  private async ask<T>(
    id: string,
    ask: (generation: LmdbGeneration, record: GenerationRecord) => T | Promise<T>,
  ): Promise<T | undefined> {
    await this.ready(id);
    try {
      const record = this.record(id);
      const generation = this.generation(id, record);
      return generation && (await ask(generation, record!));
    } catch (error) {
      // An error thrown in a transaction arrives as the cause of its failure.
      const found = error instanceof StoreUnavailable ? error.cause : error;
      if (!(found instanceof GenerationDamaged) && !isDamage(found)) throw error;
      this.giveUp(id, (found as Error).message);
      return undefined;
    }
  }

  /** As `ask`. @throws StoreUnavailable if it is damaged */
  private async askSound<T>(id: string, ask: (generation: LmdbGeneration) => T | Promise<T>): Promise<T | undefined> {
    const answer = await this.ask(id, ask);
    const damage = answer === undefined ? (this.damaged.get(id) ?? this.record(id)?.damage) : undefined;
    if (damage === undefined) return answer;
    throw new StoreUnavailable(`${id} is damaged: ${damage}`, { code: 'read_models_damaged' });
  }

  /** Marks a generation that gave no answer as damaged. @returns false if it was dropped */
  private giveUpUnlessDropped(id: string): boolean {
    const record = this.record(id);
    if (!record || record.status === 'dropped') return false;
    if (this.statusOf(record) !== 'damaged') this.giveUp(id, 'its rows are gone');
    return true;
  }

  private giveUp(id: string, damage: string): void {
    if (this.damaged.has(id)) return;
    this.damaged.set(id, damage);
    void this.control
      .write(() => {
        const record = this.record(id);
        if (record && record.status !== 'dropped') this.putRecord({ ...record, status: 'damaged', damage });
      })
      .catch(() => undefined); // It is known anyway, until the next start, which finds it again.
  }

  /** The generation, once `ready` has opened it; undefined if it does not exist, was dropped or is damaged. */
  private generation(id: string, record = this.record(id)): LmdbGeneration | undefined {
    return this.isUsable(record) ? this.opened.get(id) : undefined;
  }

  private isUsable(record: GenerationRecord | undefined): boolean {
    const status = record && this.statusOf(record);
    return status !== undefined && status !== 'dropped' && status !== 'damaged';
  }

  /** Opens a generation of an earlier run that is not open yet, if it is there to be used. */
  private async ready(id: string): Promise<void> {
    if (this.opened.has(id) || !isThere(join(this.path(id), 'data.mdb'))) return;
    if (this.isUsable(this.record(id))) await this.openGeneration(id);
  }

  /** Opens a generation, and creates its files if there are none, unless its file is damaged. */
  private openGeneration(id: string): Promise<void> {
    const opening = this.opening.get(id) ?? this.openFile(id).finally(() => this.opening.delete(id));
    this.opening.set(id, opening);
    return opening;
  }

  private async openFile(id: string): Promise<void> {
    if (this.opened.has(id)) return;
    const flaw = await fileFlaw(this.path(id));
    if (flaw) this.giveUp(id, `its file ${flaw}`);
    else this.opened.set(id, await LmdbGeneration.open(this.path(id)));
  }

  private path(id: string): string {
    return join(this.folder, `g-${encodeURIComponent(id)}`);
  }
}

function recordKey(id: string): string {
  return `generation ${id}`;
}

/** What is wrong with the file of an environment that is not open; undefined if nothing is, or it does not exist. */
async function fileFlaw(folder: string): Promise<string | undefined> {
  if (LmdbEnvironment.isOpenHere(folder)) return undefined;
  const path = join(folder, 'data.mdb');
  return flawOf(path, true).catch((error: unknown) => {
    throw orUnavailable(path, error);
  });
}

/** @throws StoreUnavailable if that cannot be told: then it must not be taken for lost */
function isThere(path: string): boolean {
  try {
    return statSync(path, { throwIfNoEntry: false }) !== undefined;
  } catch (error) {
    throw orUnavailable(path, error);
  }
}
