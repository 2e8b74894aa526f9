import { setTimeout as sleep } from 'node:timers/promises';
import type { Projection } from '../../projections/projection.js';
import { NewerSchema } from '../kernel/event-definition.js';
import { type EventStore, StoreUnavailable } from '../stores/ports/event-store.js';
import type { Logger } from '../kernel/logger.js';
import type { Generation, Manifest, ReadModels } from '../stores/ports/read-models.js';
import { Follower } from './follower.js';
import { GenerationError, drop } from './generations.js';
import { ensureManifest, isInLog, isSound, otherLog } from './manifest.js';

const STANDBY_MS = 200;
const BACKOFF_MS = 1_000;
/** How often to check for generations that other processes built, swapped or dropped. */
const LOOK_MS = 1_000;

/**
 * Applies the log to the read models: one ordered pull loop for each generation that serves a view, and for each ready
 * one that does not (built, or kept for a rollback). Any number of processes may run a projector. For each generation,
 * the holder of its lease applies events and the others stand by.
 */
export class Projector {
  private readonly stopping = new AbortController();
  private readonly loops = new Map<string, Promise<void>>();
  private supervision: Promise<void> = Promise.resolve();
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
    /** The number of generations that are kept up to date beside those that serve and those before the last swap. */
    private readonly retained = 3,
  ) {}

  /**
   * Names every projection's generation in the manifest, then applies in the background.
   * @throws StartError where what serves was folded from another log
   */
  async start(): Promise<void> {
    await ensureManifest(this.projections, this.store, this.readModels);
    await this.look();
    this.supervision = this.supervise();
  }

  /** Finishes the batches under way and releases the leases. */
  async stop(): Promise<void> {
    this.stopping.abort();
    await this.supervision;
    await Promise.all(this.loops.values());
  }

  private async supervise(): Promise<void> {
    const { signal } = this.stopping;
    while (!signal.aborted) {
      await pause(LOOK_MS, signal);
      if (signal.aborted) return;
      await this.look().catch((error: unknown) => {
        // The store itself logs when it becomes unavailable and when it is back.
        if (!(error instanceof StoreUnavailable)) this.logger.error('looking for generations failed', { error });
      });
    }
  }

  /** Starts loops for all generations to follow. Starts none while the log and the read models do not match. */
  private async look(): Promise<void> {
    let [manifest, generations] = await this.serving();
    const trouble = await this.misfit(manifest, generations);
    if (trouble !== this.trouble) {
      if (trouble !== null) this.logger.error(trouble);
      else this.logger.warn('the log and the read models match again');
      this.trouble = trouble;
    }
    if (trouble !== null) return;
    const whole = generations.filter(({ status }) => status !== 'dropped' && status !== 'damaged');
    const there = new Set(whole.map(({ id }) => id));
    if (this.projections.some(({ name }) => !there.has(manifest?.views[name] ?? ''))) {
      // A server for the read models may have been emptied, or may have evicted rows.
      const damaged = generations.filter(({ status }) => status === 'damaged');
      const found = damaged.map(({ id, damage }) => (damage === undefined ? `${id} lost rows` : `${id}: ${damage}`));
      const what = found.length > 0 ? `read_models_damaged: ${found.join(', ')}` : 'read models are gone';
      const check = found.length > 0 ? '; if it happens again, check the disk and the memory of the machine' : '';
      this.logger.warn(`${what}: they are built again from the log${check}`);
      await ensureManifest(this.projections, this.store, this.readModels);
      [manifest, generations] = await this.serving();
    }
    const serving = new Set(Object.values(manifest?.views ?? {}));
    const dropped = await this.dropSurplus(manifest, generations);
    for (const generation of generations) {
      const { id, status } = generation;
      if (dropped.has(id) || this.loops.has(id) || !(status === 'ready' || serving.has(id))) continue;
      if (!(await isSound(generation, this.store))) continue;
      this.loops.set(
        id,
        this.run(id).finally(() => this.loops.delete(id)),
      );
    }
  }

  /**
   * Drops the oldest generations that could serve but do not, if there are too many: each costs as much as a serving
   * one. Those that serve, those that a rollback would serve, and unfinished ones are kept.
   * @returns the ids of those
   */
  private async dropSurplus(manifest: Manifest | null, generations: readonly Generation[]): Promise<Set<string>> {
    const needed = new Set([...Object.values(manifest?.views ?? {}), ...Object.values(manifest?.previous_views ?? {})]);
    const spare = generations.filter(({ id, status }) => status === 'ready' && !needed.has(id));
    if (spare.length <= this.retained) return new Set();
    const sound: Generation[] = [];
    for (const generation of spare) if (await isSound(generation, this.store)) sound.push(generation);
    const newestFirst = sound.sort((a, b) => Number(b.id.slice(1)) - Number(a.id.slice(1)));
    const surplus = newestFirst.slice(this.retained);
    for (const { id } of surplus) {
      try {
        await drop(id, this.readModels);
        this.logger.warn(`dropped ${id}: ${this.retained} newer generations that do not serve are kept`);
      } catch (error) {
        // It was swapped to, or dropped by another process, meanwhile.
        if (!(error instanceof GenerationError)) throw error;
      }
    }
    return new Set(surplus.map(({ id }) => id));
  }

  /** What is wrong, and what an operator should do about it; null if the log and the serving generations match. */
  private async misfit(manifest: Manifest | null, generations: readonly Generation[]): Promise<string | null> {
    const { logId } = this.store;
    const other = otherLog(manifest, generations, logId);
    if (other) {
      return (
        `read_models_foreign: the read models that serve (${other.ids}) are of the log ${other.log}, not of ${logId}. ` +
        'Nothing is read or changed there. Bring back the Redis that belongs to this log, or an empty one.'
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

  private async run(id: string): Promise<void> {
    const { signal } = this.stopping;
    const follower = new Follower(this.store, this.readModels);
    while (!signal.aborted) {
      try {
        const ended = await follower.follow(id, { signal });
        // A generation that does not match is checked again before it is followed.
        if (ended === 'gone' || ended === 'unsound') return;
        await pause(STANDBY_MS, signal);
      } catch (error) {
        if (error instanceof NewerSchema) {
          if (this.halted === null) this.logger.error(`projector halted: ${error.message}`);
          this.halted = error.message;
        } else if (!(error instanceof StoreUnavailable)) {
          this.logger.error(`projector of ${id} tries again in ${BACKOFF_MS} ms`, { error });
        }
        await pause(BACKOFF_MS, signal);
      }
    }
  }
}

async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await sleep(ms, undefined, { signal }).catch(() => undefined);
}
