import { randomUUID } from 'node:crypto';
import type { EventStore } from '../stores/ports/event-store.js';
import type { Logger } from '../kernel/logger.js';
import type { BulkLoad, Checkpoint, Generation, ReadModels } from '../stores/ports/read-models.js';
import { Applier, BatchRefused } from './applier.js';
import { BULK_EVENTS, type BulkSizes, buildInBulk } from './bulk-build.js';
import { NoSpaceToBuild } from './bulk-files.js';
import { runsOf } from './fold.js';
import { type HeldLease, takeLease } from './lease.js';
import { findGeneration, isInLog, reflectPlatformLens } from './manifest.js';
import { aboutAfter } from './log-size.js';
import { buildInMemory } from './memory-build.js';
import { projectionsOf } from './own-views.js';

/** Events folded at once: enough to share a commit, few enough to keep the pauses of the event loop short. */
const SLICE = 1_000;
/** Events folded at once while catching up, if rows are read over a network, all in one request. */
const FAR_BULK_SLICE = 20_000;
/**
 * A build is ready once it has applied what was the log's head at most this many ms ago, since the head itself may
 * never rest.
 */
const READY_MS = 1_000;

/**
 * Why following ended. A lease is `taken` if another process held it from the start, or `lost` if it ended during the
 * work. Nothing may be applied to an `unsound` generation: one of another log, one that is ahead of the log, or one
 * that has lost rows.
 */
export type Ended = 'at_head' | 'aborted' | 'lease_taken' | 'lease_lost' | 'gone' | 'unsound';

/** How a build ended; undefined if there was none. */
type Built = Checkpoint | 'refused' | 'aborted' | undefined;

export interface FollowOptions {
  signal: AbortSignal;
  /** End at the head instead of waiting there for further events. */
  toHead?: boolean;
  onApplied?: (checkpoint: Checkpoint, events: number) => void;
  logger?: Logger;
}

export interface FollowerOptions {
  /** Sizes of a build; `from`: a log of fewer events is built in memory. Tests use others. */
  bulk?: { from: number } & Partial<BulkSizes>;
}

/**
 * Applies the log to one generation, in order, from its stored checkpoint on. The checkpoint is stored in the same
 * atomic step as the rows, so a crash at any point neither loses nor repeats an event; only the holder of the
 * generation's lease can apply, and a lease is given up only between batches.
 */
export class Follower {
  /** Identifies it as the holder of a lease. */
  readonly holder = randomUUID();
  private readonly bulk: NonNullable<FollowerOptions['bulk']>;
  /** Whether to build in bulk: not after there was no space for it, or not enough memory. */
  private inBulk = true;
  /** Events that a build has reported. One that continues or starts again, or what replaces it, does not report them again. */
  private reported = 0;

  constructor(
    private readonly store: EventStore,
    private readonly readModels: ReadModels,
    { bulk = { from: BULK_EVENTS } }: FollowerOptions = {},
  ) {
    this.bulk = bulk;
  }

  /** @throws NewerSchema once everything before the event that this build cannot read is applied */
  async follow(id: string, options: FollowOptions): Promise<Ended> {
    const { logId } = this.store;
    const lease = await takeLease(id, this.holder, this.readModels, logId);
    if (!lease) {
      const generation = await this.generation(id);
      if (!generation) return 'gone';
      const isSound = generation.checkpoint.log === logId && generation.status !== 'damaged';
      return isSound ? 'lease_taken' : 'unsound';
    }
    try {
      const generation = await this.generation(id);
      if (!generation) return 'gone';
      // Either store may have been replaced by another server since the last check.
      const { status, checkpoint } = generation;
      if (status === 'damaged' || !(await isInLog(checkpoint, this.store))) return 'unsound';
      const ended = await this.apply(generation, options, lease);
      const isInterrupted = lease.lost.aborted || lease.restarted.aborted;
      return isInterrupted && ended === 'aborted' ? 'lease_lost' : ended;
    } finally {
      await lease.release();
    }
  }

  private async apply(generation: Generation, options: FollowOptions, lease: HeldLease): Promise<Ended> {
    const { id } = generation;
    const held = AbortSignal.any([options.signal, lease.lost]);
    const built = await this.build(generation, options, held);
    if (built === 'refused') return this.refused(id);
    if (built === 'aborted') return 'aborted';
    if (built) this.reported = 0;
    const begun = built ? { ...generation, checkpoint: built } : generation;
    // A load ends by itself where what it has written may be lost.
    const signal = AbortSignal.any([held, lease.restarted]);
    const applier = new Applier(this.store, this.readModels, begun, this.holder, this.unreported(options.onApplied));
    const isReady = await this.readiness(generation);
    await isReady(applier.checkpoint);
    try {
      do {
        for await (const slice of this.slices(applier.checkpoint, options, signal)) {
          for (const run of runsOf(applier.projections, slice)) {
            const newer = await applier.apply(run);
            if (newer || signal.aborted || !options.toHead) {
              await applier.finish();
              await isReady(applier.checkpoint);
            }
            if (newer) throw newer;
            if (signal.aborted) return 'aborted';
          }
        }
        await applier.finish();
      } while (!signal.aborted && options.toHead && !(await isReady(applier.checkpoint)));
    } catch (error) {
      if (error instanceof BatchRefused) return this.refused(id);
      throw error;
    }
    return signal.aborted ? 'aborted' : 'at_head';
  }

  /** Reports the progress of a build: to how many events its work corresponds. */
  private progressOf({ checkpoint }: Generation, { onApplied }: FollowOptions): (done: number) => void {
    return (done) => {
      if (done <= this.reported) return;
      onApplied?.(checkpoint, done - this.reported);
      this.reported = done;
    };
  }

  /** Reports applied events, without as many as a build had reported before it was given up. */
  private unreported(onApplied: FollowOptions['onApplied']): FollowOptions['onApplied'] {
    return (checkpoint, events) => {
      const known = Math.min(this.reported, events);
      this.reported -= known;
      onApplied?.(checkpoint, events - known);
    };
  }

  private async refused(id: string): Promise<Ended> {
    return (await this.generation(id)) ? 'lease_lost' : 'gone';
  }

  private slices({ position }: Checkpoint, { toHead }: FollowOptions, signal: AbortSignal) {
    if (!toHead) return this.store.subscribe(position, { sliceSize: SLICE, signal });
    const sliceSize = this.readModels.rowsPerBatch === undefined ? SLICE : FAR_BULK_SLICE;
    return this.store.readAll(position, { sliceSize, signal });
  }

  /** Builds an empty generation. @returns undefined if the log is to be applied event by event instead */
  private async build(generation: Generation, options: FollowOptions, signal: AbortSignal): Promise<Built> {
    if (generation.checkpoint.position > 0) return undefined;
    const load = await this.readModels.load(generation.id, this.holder);
    return load && this.buildInBulk(generation, load, options, signal);
  }

  /** Builds a generation of a short log in memory, of a long one with files. */
  private async buildInBulk(
    generation: Generation,
    load: BulkLoad,
    options: FollowOptions,
    signal: AbortSignal,
  ): Promise<Built> {
    const { id, views } = generation;
    const isBegun = load.last !== null;
    const events = await aboutAfter(this.store, 0);
    if (!isBegun && (events === 0 || !this.inBulk)) return undefined;
    const finish = async (next: Checkpoint) => {
      await reflectPlatformLens(this.store, this.readModels);
      return load.finish(next);
    };
    const projections = projectionsOf(views);
    const onProgress = this.progressOf(generation, options);
    const { logger } = options;
    const ofBuild = { projections, events, signal, onProgress, sizes: this.bulk, ...(logger && { logger }) };
    try {
      if (!isBegun && events < this.bulk.from) {
        const built = await buildInMemory(this.store, { ...load, finish }, ofBuild);
        if (built !== 'too_large') return built;
      }
      const built = await buildInBulk(this.store, { ...load, finish }, ofBuild);
      if (built !== 'too_large') return built;
      this.inBulk = false;
      return undefined;
    } catch (error) {
      // The files of a generation are removed with it.
      if (!(await this.generation(id))) return 'refused';
      // The ordinary follower needs less space.
      if (error instanceof NoSpaceToBuild) this.inBulk = false;
      throw error;
    }
  }

  /** A function that marks a generation `ready` once it has caught up, and returns whether it is. */
  private async readiness({ id, status }: Generation): Promise<(checkpoint: Checkpoint) => Promise<boolean>> {
    let ready = status !== 'building';
    const look = async () => ({ head: await this.store.head(), at: performance.now() });
    let goal = await look();
    return async ({ position }) => {
      if (ready || position < goal.head) return ready;
      if (performance.now() - goal.at > READY_MS) goal = await look();
      if (position < goal.head) return false;
      await this.readModels.setStatus(id, 'ready', this.store.logId);
      return (ready = true);
    };
  }

  private async generation(id: string): Promise<Generation | undefined> {
    const generation = await findGeneration(id, this.readModels);
    return generation?.status === 'dropped' ? undefined : generation;
  }
}
