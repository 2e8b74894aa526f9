import { basename } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import type { Config } from '../kernel/config.js';
import type { Logger } from '../kernel/logger.js';
import { type EventStore, StoreUnavailable } from '../stores/ports/event-store.js';
import type { Generation, ReadModels } from '../stores/ports/read-models.js';
import type { Snapshot } from '../stores/ports/snapshot-file.js';
import { SnapshotRefused, listSnapshots, loadSnapshot, misfitOf, saveSnapshot, snapshotsOf } from './snapshots.js';

type Settings = Pick<Config, 'snapshots' | 'snapshotEvents' | 'snapshotMinutes' | 'retainedSnapshots'>;

/** How long nothing is saved after a save has failed, ms. */
const BACKOFF_MS = 60_000;
/** How often the folder is read for what other processes have saved, ms. */
const LIST_MS = 60_000;
const PROGRESS_MS = 3_000;

/**
 * Saves the generations that this process applies and that serve, and loads the newest snapshots when read models are
 * lost. Both may fail at any time without harm: the log is folded again.
 */
export class SnapshotKeeper {
  /** By generation: events that this process has applied since it was saved. */
  private readonly applied = new Map<string, number>();
  private readonly stopping = new AbortController();
  private saving: Promise<void> | undefined;
  private notBefore = 0;
  private listed: { at: number; snapshots: Promise<Snapshot[]> } | undefined;
  /** Files that were found unfit, so that each is logged once. */
  private readonly unfit = new Set<string>();

  /** Undefined if no folder is configured. */
  static of(config: Settings, store: EventStore, models: ReadModels, logger: Logger): SnapshotKeeper | undefined {
    const { snapshots } = config;
    return snapshots === undefined ? undefined : new SnapshotKeeper(snapshots, config, store, models, logger);
  }

  private constructor(
    private readonly folder: string,
    private readonly settings: Settings,
    private readonly store: EventStore,
    private readonly readModels: ReadModels,
    private readonly logger: Logger,
  ) {}

  noteApplied(id: string, events: number): void {
    this.applied.set(id, (this.applied.get(id) ?? 0) + events);
  }

  /**
   * Begins to save the first of these generations that is due, unless one is being saved.
   * @param generations serve and are applied by this process
   */
  saveDue(generations: readonly Generation[]): void {
    if (this.saving || performance.now() < this.notBefore || this.stopping.signal.aborted) return;
    this.saving = this.save(generations)
      .catch((error: unknown) => {
        this.notBefore = performance.now() + BACKOFF_MS;
        if (this.stopping.signal.aborted || error instanceof StoreUnavailable) return;
        const why = error instanceof SnapshotRefused ? error.message : 'no snapshot was saved';
        this.logger.warn(why, error instanceof SnapshotRefused ? {} : { error });
      })
      .finally(() => (this.saving = undefined));
  }

  private async save(generations: readonly Generation[]): Promise<void> {
    const { retainedSnapshots } = this.settings;
    for (const generation of generations) {
      if (!(await this.isDue(generation))) continue;
      const { id } = generation;
      const started = performance.now();
      const events = this.applied.get(id) ?? 0;
      const { signal } = this.stopping;
      const saved = await saveSnapshot(id, this.folder, retainedSnapshots, this.store, this.readModels, {
        signal,
        gently: true,
      });
      // Those applied meanwhile count again, in part: the next snapshot then comes a little early.
      this.applied.set(id, (this.applied.get(id) ?? 0) - events);
      this.listed = undefined;
      const ms = Math.round(performance.now() - started);
      const { rows, bytes, checkpoint } = saved;
      this.logger.info(`saved ${id} as ${basename(saved.path)}`, { position: checkpoint.position, rows, bytes, ms });
    }
  }

  private async isDue({ id, views, checkpoint }: Generation): Promise<boolean> {
    if (checkpoint.position === 0) return false;
    if (!this.listed || performance.now() - this.listed.at > LIST_MS) {
      this.listed = { at: performance.now(), snapshots: snapshotsOf(this.folder, this.store) };
    }
    const newest = (await this.listed.snapshots).find((snapshot) =>
      isDeepStrictEqual({ ...snapshot.views }, { ...views }),
    );
    if (!newest) return true;
    if (newest.checkpoint.position >= checkpoint.position) return false;
    const minutes = (Date.now() - Date.parse(newest.created_at)) / 60_000;
    return (this.applied.get(id) ?? 0) >= this.settings.snapshotEvents || minutes >= this.settings.snapshotMinutes;
  }

  /** The snapshots that fit and have some of these views, the newest first. */
  async fitting(views: readonly string[]): Promise<Snapshot[]> {
    const found: Snapshot[] = [];
    const all = await listSnapshots(this.folder).catch((error: unknown) => {
      this.logger.warn('the snapshots cannot be read', { error });
      return [];
    });
    for (const listed of all) {
      const misfit = 'snapshot' in listed ? await misfitOf(listed.snapshot, this.store) : listed.damage;
      if (misfit === undefined && 'snapshot' in listed) {
        if (views.some((view) => view in listed.snapshot.views)) found.push(listed.snapshot);
      } else if (!this.unfit.has(listed.path)) {
        this.unfit.add(listed.path);
        this.logger.warn(`the snapshot ${basename(listed.path)} is not used: ${misfit}`);
      }
    }
    return found;
  }

  /**
   * Fills generations with these views from the newest snapshots. One that turns out to be damaged is passed over.
   * @returns their ids; none if there is no snapshot, or the load failed
   */
  async load(views: readonly string[]): Promise<string[]> {
    this.listed = undefined;
    const missing = new Set(views);
    const loaded: string[] = [];
    for (const snapshot of await this.fitting(views)) {
      const own = Object.keys(snapshot.views);
      if (!own.some((view) => missing.has(view))) continue;
      const name = basename(snapshot.path);
      this.logger.warn(`the snapshot ${name} is loaded`, {
        rows: snapshot.rows,
        position: snapshot.checkpoint.position,
      });
      const started = performance.now();
      let next = started + PROGRESS_MS;
      const onProgress = (rows: number, total: number) => {
        if (performance.now() < next) return;
        next = performance.now() + PROGRESS_MS;
        this.logger.info(`loading ${name}: ${Math.floor((100 * rows) / total)}% of ${total} rows`);
      };
      try {
        const { signal } = this.stopping;
        const id = await loadSnapshot(snapshot, this.store, this.readModels, { signal, onProgress });
        const ms = Math.round(performance.now() - started);
        this.logger.warn(`${id} has the rows of ${name}: the events after it are applied now`, { ms });
        loaded.push(id);
        for (const view of own) missing.delete(view);
      } catch (error) {
        // The caller tries again.
        if (error instanceof StoreUnavailable || this.stopping.signal.aborted) throw error;
        if (error instanceof SnapshotRefused) this.logger.warn(error.message);
        else this.logger.warn(`${name} cannot be loaded`, { error });
      }
    }
    return loaded;
  }

  async stop(): Promise<void> {
    this.stopping.abort();
    await this.saving;
  }
}
