import type { Projection } from '../../projections/projection.js';
import { NewerSchema } from '../kernel/event-definition.js';
import { backoff } from '../kernel/backoff.js';
import { type EventStore, StoreUnavailable } from '../stores/ports/event-store.js';
import type { Logger } from '../kernel/logger.js';
import { pause } from '../kernel/turn.js';
import type { Generation, Manifest, ReadModels } from '../stores/ports/read-models.js';
import { NoSpaceToBuild } from './build-files.js';
import { Follower } from './follower.js';
import { GenerationError, drop, swap } from './generations.js';
import {
  ensureManifest,
  isInLog,
  isSound,
  ofOtherBuild,
  otherLog,
  ownBeside,
  reflectPlatformLens,
} from './manifest.js';

const STANDBY_MS = 200;
/** How often to look for generations that other processes built, swapped or dropped. */
const RECONCILE_MS = 1_000;

const DEFAULTS = {
  /** The number of generations that are kept beside those that serve and those before the last swap. */
  retained: 3,
  /** For how long, in ms, a generation that does not serve is kept up to date. */
  keepUpMs: Infinity,
  /** For how long, in ms, an unfinished generation that nobody builds is kept. */
  abandonedMs: 3_600_000,
  /** For how long, in ms, nobody may have applied the log to what a newer build serves before it is replaced. */
  leftMs: 30_000,
};
export type ProjectorOptions = Partial<typeof DEFAULTS>;

/**
 * Applies the log to the read models: one ordered pull loop for each generation that serves a view and, for a time, for
 * each ready one that does not (built, or kept for a rollback). Any number of processes may run a projector. For each
 * generation, the holder of its lease applies events and the others stand by.
 */
export class Projector {
  private readonly stopping = new AbortController();
  /** By generation that is followed. */
  private readonly loops = new Map<string, { follower: Follower; stopping: AbortController; ended: Promise<void> }>();
  /** By generation that does not serve: since when this process knows it as ready, or as unfinished and not being built. */
  private idle = new Map<string, { status: string; since: number; isFrozen?: boolean }>();
  private readonly options: Required<ProjectorOptions>;
  /** While another build serves: this build's generation, and when another process last applied the log to the other. */
  private beside: { id: string; followedAt: number } | undefined;
  private supervision: Promise<void> = Promise.resolve();
  /** Of the read models' server, when the manifest was last compared with the platform's lens. */
  private restarts: number | undefined;
  /** Set when a loop reached an event that it must not skip. Reads are still served, with lag. */
  halted: string | null = null;
  /** Why nothing is applied although every store responds: a store does not contain what it should. */
  private trouble: string | null = null;

  constructor(
    /** The views that this process serves. */
    private readonly projections: readonly Projection[],
    private readonly store: EventStore,
    private readonly readModels: ReadModels,
    private readonly logger: Logger,
    options: ProjectorOptions = {},
  ) {
    this.options = { ...DEFAULTS, ...options };
  }

  /**
   * Names every projection's generation in the manifest, then applies in the background.
   * @throws StartError where what serves was folded from another log
   */
  async start(): Promise<void> {
    const interrupted = await this.interrupted();
    await ensureManifest(this.projections, this.store, this.readModels);
    await this.reconcile();
    this.supervision = this.supervise(interrupted);
  }

  /** The generations that serve whose builds have not come to their end: nothing of them is kept. */
  private async interrupted(): Promise<string[]> {
    // Of an empty log there is nothing to build.
    if ((await this.store.head()) === 0) return [];
    const [manifest, generations] = await this.serving();
    const serving = new Set(Object.values(manifest?.views ?? {}));
    return generations
      .filter(({ id, status, lease }) => serving.has(id) && status === 'building' && lease === null)
      .filter(({ checkpoint }) => checkpoint.position === 0)
      .map(({ id }) => id);
  }

  /** Finishes the batches under way and releases the leases. */
  async stop(): Promise<void> {
    this.stopping.abort();
    await this.supervision;
    await Promise.all([...this.loops.values()].map(({ ended }) => ended));
  }

  /** Whether this process applies the log to the generation that serves a view: of several, one does. */
  async applies(view: string): Promise<boolean> {
    const [manifest, generations] = await this.serving();
    const id = manifest?.views[view] ?? '';
    const lease = generations.find((generation) => generation.id === id)?.lease;
    return lease != null && lease.holder === this.loops.get(id)?.follower.holder;
  }

  private async supervise(interrupted: string[]): Promise<void> {
    const { signal } = this.stopping;
    while (!signal.aborted) {
      await pause(RECONCILE_MS, signal);
      if (signal.aborted) return;
      // Not before: where the start fails, the sentence that says why stands alone.
      for (const id of interrupted.splice(0)) {
        this.logger.warn(`the build of ${id} was interrupted: it starts again from the beginning`);
      }
      await this.reconcile().catch((error: unknown) => {
        // The store itself logs when it becomes unavailable and when it is back.
        if (!(error instanceof StoreUnavailable)) this.logger.error('looking for generations failed', { error });
      });
    }
  }

  /**
   * One round of supervision: sees to it that generations serve all views of this build, drops those that nobody needs,
   * and starts and stops loops. Does nothing while the log and the read models do not match.
   */
  private async reconcile(): Promise<void> {
    let [manifest, generations] = await this.serving();
    const trouble = await this.misfit(manifest, generations);
    if (trouble !== this.trouble) {
      if (trouble !== null) this.logger.error(trouble);
      else this.logger.warn('the log and the read models match again');
      this.trouble = trouble;
    }
    if (trouble !== null) return;
    const { restarts } = this.readModels;
    if (restarts !== this.restarts) {
      // The manifest may have gone back behind a promotion that is applied already: its rows may not have.
      await reflectPlatformLens(this.store, this.readModels);
      this.restarts = restarts;
    }
    if (this.isMissing(manifest, generations)) {
      this.warnOfLoss(generations);
      await ensureManifest(this.projections, this.store, this.readModels);
      [manifest, generations] = await this.serving();
    }
    if (await this.replaceOtherBuild(manifest, generations)) [manifest, generations] = await this.serving();
    const serving = new Set(Object.values(manifest?.views ?? {}));
    await this.dropSurplus(manifest, generations);
    await this.tendIdle(serving, generations);
    for (const generation of generations) {
      const { id, status } = generation;
      const loop = this.loops.get(id);
      const isWanted = status === 'ready' || serving.has(id) || id === this.beside?.id;
      if (this.idle.get(id)?.isFrozen) loop?.stopping.abort();
      else if (!loop && isWanted && (await isSound(generation, this.store))) this.follow(generation);
    }
  }

  /**
   * While generations of another build serve, builds this build's own beside them. A newer build serves its own when it
   * is ready. An older one waits until no process of the newer build is left, so that two builds that run side by side
   * do not take turns.
   * @returns whether generations have changed
   */
  private async replaceOtherBuild(manifest: Manifest | null, generations: readonly Generation[]): Promise<boolean> {
    const other = ofOtherBuild(this.projections, manifest, generations);
    if (!other) {
      this.beside = undefined;
      return false;
    }
    const ids = other.generations.map(({ id }) => id).join(', ');
    const id = await ownBeside(other, manifest, this.store, this.readModels);
    const now = performance.now();
    if (this.beside?.id !== id) {
      const then = other.isOlder ? 'it serves once it is ready' : 'it serves once no process of that build is left';
      this.logger.warn(`${ids} serves for another build of Credence: ${id} is built beside it, and ${then}`);
      this.beside = { id, followedAt: now };
      return true;
    }
    if (other.generations.some(({ lease }) => lease !== null)) this.beside.followedAt = now;
    if (generations.find((generation) => generation.id === id)?.status !== 'ready') return false;
    if (!other.isOlder && now - this.beside.followedAt < this.options.leftMs) return false;
    try {
      await swap(id, this.store, this.readModels);
    } catch (error) {
      // It has not caught up yet, or another process was first.
      if (error instanceof GenerationError) return false;
      throw error;
    }
    this.logger.warn(`${id} serves instead of ${ids}, which was of another build of Credence`);
    return true;
  }

  private follow({ id, status }: Generation): void {
    const follower = new Follower(this.store, this.readModels);
    const stopping = new AbortController();
    const signal = AbortSignal.any([this.stopping.signal, stopping.signal]);
    const ended = this.run(id, follower, signal, status === 'building').finally(() => this.loops.delete(id));
    this.loops.set(id, { follower, stopping, ended });
  }

  /**
   * Notes since when each generation is of no use: ready and not serving, or unfinished and not being built. One that
   * does not serve costs as much as one that does, so it is kept up to date for a time only. What a killed rebuild left
   * is dropped; a rebuild that is run again in time continues it.
   */
  private async tendIdle(serving: ReadonlySet<string>, generations: readonly Generation[]): Promise<void> {
    const { keepUpMs, abandonedMs } = this.options;
    const before = this.idle;
    this.idle = new Map();
    const abandoned: string[] = [];
    for (const { id, status, lease, checkpoint } of generations) {
      if (serving.has(id) || checkpoint.log !== this.store.logId) continue;
      if (status !== 'ready' && (status !== 'building' || lease !== null)) continue;
      const known = before.get(id);
      const idle = known?.status === status ? known : { status, since: performance.now() };
      this.idle.set(id, idle);
      const ms = performance.now() - idle.since;
      if (status === 'building' && ms >= abandonedMs) abandoned.push(id);
      if (status !== 'ready' || idle.isFrozen || ms < keepUpMs) continue;
      idle.isFrozen = true;
      this.logger.warn(
        `${id} does not serve and is no longer kept up to date: a swap or rollback to it catches up first`,
      );
    }
    // Once all are noted: a drop may fail.
    for (const id of abandoned) {
      this.idle.delete(id);
      await this.drop(id, 'its build was interrupted and not continued');
    }
  }

  /** Whether no generation serves some view. */
  private isMissing(manifest: Manifest | null, generations: readonly Generation[]): boolean {
    const whole = generations.filter(({ status }) => status !== 'dropped' && status !== 'damaged');
    const there = new Set(whole.map(({ id }) => id));
    return this.projections.some(({ name }) => !there.has(manifest?.views[name] ?? ''));
  }

  /** The database of the read models may have been emptied, or its rows may be damaged. */
  private warnOfLoss(generations: readonly Generation[]): void {
    const damaged = generations.filter(({ status }) => status === 'damaged');
    const found = damaged.map(({ id, damage }) => (damage === undefined ? `${id} lost rows` : `${id}: ${damage}`));
    const what = found.length > 0 ? `read_models_damaged: ${found.join(', ')}` : 'read models are gone';
    const check = found.length > 0 ? '; if it happens again, check the disk and the memory of the machine' : '';
    this.logger.warn(`${what}: they are built again from the log${check}`);
  }

  /** Drops a generation, unless it was swapped to, or dropped by another process, meanwhile. */
  private async drop(id: string, why: string): Promise<void> {
    try {
      await drop(id, this.readModels);
    } catch (error) {
      if (error instanceof GenerationError) return;
      throw error;
    }
    this.logger.warn(`dropped ${id}: ${why}`);
  }

  /**
   * Drops the oldest generations that could serve but do not, if there are too many: each costs as much as a serving
   * one. Those that serve, those that a rollback would serve, and unfinished ones are kept.
   */
  private async dropSurplus(manifest: Manifest | null, generations: readonly Generation[]): Promise<void> {
    const { retained } = this.options;
    const needed = new Set([...Object.values(manifest?.views ?? {}), ...Object.values(manifest?.previous_views ?? {})]);
    const spare = generations.filter(({ id, status }) => status === 'ready' && !needed.has(id));
    if (spare.length <= retained) return;
    const sound: Generation[] = [];
    for (const generation of spare) if (await isSound(generation, this.store)) sound.push(generation);
    const newestFirst = sound.sort((a, b) => Number(b.id.slice(1)) - Number(a.id.slice(1)));
    for (const { id } of newestFirst.slice(retained)) {
      await this.drop(id, `${retained} newer generations that do not serve are kept`);
    }
  }

  /** What is wrong, and what an operator should do about it; null if the log and the serving generations match. */
  private async misfit(manifest: Manifest | null, generations: readonly Generation[]): Promise<string | null> {
    const { logId } = this.store;
    const other = otherLog(manifest, generations, logId);
    if (other) {
      return (
        `read_models_foreign: the read models that serve (${other.ids}) are of the log ${other.log}, not of ${logId}. ` +
        'Nothing is read or changed there. Bring back the database that belongs to this log, or an empty one.'
      );
    }
    const serving = new Set(Object.values(manifest?.views ?? {}));
    for (const { id, status, checkpoint } of generations) {
      if (!serving.has(id) || status === 'dropped' || (await isInLog(checkpoint, this.store))) continue;
      return (
        `log_replaced: ${id} has applied position ${checkpoint.position}, which the log does not have: it is an older ` +
        'copy. Nothing is read or applied. Bring the right log back, or, to continue with this one and lose what came ' +
        'after it, restart every process.'
      );
    }
    return null;
  }

  private async serving(): Promise<[Manifest | null, Generation[]]> {
    return [await this.readModels.manifest(), await this.readModels.generations()];
  }

  private async run(id: string, follower: Follower, signal: AbortSignal, isBuilding: boolean): Promise<void> {
    const { logger } = this;
    // Nobody reads it yet, so larger batches delay no one.
    let toHead = isBuilding;
    let failures = 0;
    while (!signal.aborted) {
      try {
        const ended = await follower.follow(id, { signal, toHead, logger });
        failures = 0;
        if (ended === 'at_head') toHead = false;
        // A generation that does not match is checked again before it is followed.
        if (ended === 'gone' || ended === 'unsound') return;
        await pause(STANDBY_MS, signal);
      } catch (error) {
        // Not more often, since each failure is logged.
        const ms = backoff(++failures, { most: 1_000 });
        if (error instanceof NewerSchema) {
          if (this.halted === null) this.logger.error(`projector halted: ${error.message}`);
          this.halted = error.message;
        } else if (error instanceof NoSpaceToBuild) {
          this.logger.warn(`${error.message} Until then the read models are built more slowly, without such files.`);
        } else if (!(error instanceof StoreUnavailable)) {
          this.logger.error(`projector of ${id} tries again in ${ms} ms`, { error });
        }
        await pause(ms, signal);
      }
    }
  }
}
