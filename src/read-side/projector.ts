import { setTimeout as sleep } from 'node:timers/promises';
import type { Projection } from '../../projections/projection.js';
import { NewerSchema } from '../kernel/event-definition.js';
import type { EventStore } from '../stores/ports/event-store.js';
import type { Logger } from '../kernel/logger.js';
import type { Generation, Manifest, ReadModels } from '../stores/ports/read-models.js';
import { Follower } from './follower.js';
import { ensureManifest, isSound, refuseOtherLog } from './manifest.js';

const STANDBY_MS = 200;
const BACKOFF_MS = 1_000;
/** How often to look for generations that were built, swapped or dropped by others. */
const LOOK_MS = 1_000;

/**
 * Keeps the read models up with the log: one ordered pull loop for each generation that serves a view, and for each
 * that stands ready beside them (built, or kept for a rollback). Any number of processes may run one; for each
 * generation the holder of its lease applies and the others stand by.
 */
export class Projector {
  private readonly stopping = new AbortController();
  private readonly loops = new Map<string, Promise<void>>();
  private supervision: Promise<void> = Promise.resolve();
  /** Set when a loop met an event it must not skip: serving goes on, with lag. */
  halted: string | null = null;

  constructor(
    /** What this process serves. */
    private readonly projections: readonly Projection[],
    private readonly store: EventStore,
    private readonly readModels: ReadModels,
    private readonly logger: Logger,
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

  /** Finishes the batches at hand and gives the leases up. */
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
      await this.look().catch((error: unknown) => this.logger.error('looking for generations failed', { error }));
    }
  }

  private async look(): Promise<void> {
    let [manifest, generations] = await this.serving();
    const there = new Set(generations.filter(({ status }) => status !== 'dropped').map(({ id }) => id));
    if (this.projections.some(({ name }) => !there.has(manifest?.views[name] ?? ''))) {
      // Where the read models live in a server of their own, that may have been emptied or replaced.
      this.logger.warn('read models are gone: they are built again from the log');
      await ensureManifest(this.projections, this.store, this.readModels);
      [manifest, generations] = await this.serving();
    }
    refuseOtherLog(manifest, generations, this.store.logId);
    const serving = new Set(Object.values(manifest?.views ?? {}));
    for (const generation of generations) {
      const { id, status } = generation;
      if (this.loops.has(id) || !(status === 'ready' || serving.has(id))) continue;
      if (!(await isSound(generation, this.store))) continue;
      this.loops.set(
        id,
        this.run(id).finally(() => this.loops.delete(id)),
      );
    }
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
        if (ended === 'gone') return;
        await pause(STANDBY_MS, signal);
      } catch (error) {
        if (error instanceof NewerSchema) {
          if (this.halted === null) this.logger.error(`projector halted: ${error.message}`);
          this.halted = error.message;
        } else this.logger.error(`projector of ${id} tries again in ${BACKOFF_MS} ms`, { error });
        await pause(BACKOFF_MS, signal);
      }
    }
  }
}

async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await sleep(ms, undefined, { signal }).catch(() => undefined);
}
