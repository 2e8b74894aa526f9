import { randomUUID } from 'node:crypto';
import { type EventStore, StoreUnavailable } from '../stores/ports/event-store.js';
import type { Logger } from '../kernel/logger.js';
import type { Checkpoint, Generation, ReadModels } from '../stores/ports/read-models.js';
import { Applier, BatchRefused } from './applier.js';
import { type BuildSizes, build } from './build.js';
import { NoSpaceToBuild } from './build-files.js';
import { runsOf } from './fold.js';
import { type HeldLease, takeLease } from './lease.js';
import { findGeneration, isInLog, reflectPlatformLens } from './manifest.js';
import { projectionsOf } from './own-views.js';

/** Events folded at once: enough to share a commit, few enough to keep the pauses of the event loop short. */
const SLICE = 1_000;
/** Events folded at once while catching up, if rows are read over a network, all in one request. */
const FAR_SLICE = 20_000;
/**
 * A build is ready once it has applied what was the log's head at most this many ms ago, since the head itself may
 * never rest.
 */
const READY_MS = 1_000;
/** Streams named in a line of the log. */
const MOST_NAMED = 5;

/**
 * Why following ended. A lease is `taken` if another process held it from the start, or `lost` if it ended during the
 * work. Nothing may be applied to an `unsound` generation: one of another log, one that is ahead of the log, or one
 * that has lost rows.
 */
export type Ended = 'at_head' | 'aborted' | 'lease_taken' | 'lease_lost' | 'gone' | 'unsound';

export interface FollowOptions {
  signal: AbortSignal;
  /** End at the head instead of waiting there for further events. */
  toHead?: boolean;
  /** Told how many events the work done so far corresponds to. What starts again begins at 0. */
  onApplied?: (events: number) => void;
  /** Told of each build that has to start again. */
  logger?: Logger;
}

/**
 * Applies the log to one generation, in order, from its stored checkpoint on. The checkpoint is stored in the same
 * atomic step as the rows, so a crash at any point neither loses nor repeats an event; only the holder of the
 * generation's lease can apply, and a lease is given up only between batches.
 */
export class Follower {
  /** Identifies it as the holder of a lease. */
  readonly holder = randomUUID();
  /** Whether to build, rather than to apply the whole log in batches: not without space or memory for it. */
  private builds = true;

  constructor(
    private readonly store: EventStore,
    private readonly readModels: ReadModels,
    /** Of a build. Tests use others. */
    private readonly sizes: Partial<BuildSizes> = {},
  ) {}

  /** @throws NewerSchema once everything before the event that this build cannot read is applied */
  async follow(id: string, options: FollowOptions): Promise<Ended> {
    const lease = await takeLease(id, this.holder, this.readModels, this.store.logId);
    try {
      const generation = await findGeneration(id, this.readModels);
      if (!generation) return 'gone';
      const { status, checkpoint } = generation;
      // Either store may have been replaced by another server since the last check.
      const isOfLog = async () => (lease ? isInLog(checkpoint, this.store) : checkpoint.log === this.store.logId);
      if (status === 'damaged' || !(await isOfLog())) return 'unsound';
      if (!lease) return 'lease_taken';
      const ended = await this.apply(generation, options, lease);
      const isInterrupted = lease.lost.aborted || lease.restarted.aborted;
      return isInterrupted && ended === 'aborted' ? 'lease_lost' : ended;
    } finally {
      await lease?.release();
    }
  }

  private async apply(generation: Generation, options: FollowOptions, lease: HeldLease): Promise<Ended> {
    const { id } = generation;
    const held = AbortSignal.any([options.signal, lease.lost]);
    const built = await this.build(generation, options, held);
    if (built === 'refused' || built === 'aborted') {
      if (options.signal.aborted) return 'aborted';
      const left = await findGeneration(id, this.readModels);
      if (!left) return 'gone';
      startsAgain(left, 'lost its lease, or its rows', options);
      return 'lease_lost';
    }
    const begun = built ? { ...generation, checkpoint: built.checkpoint } : generation;
    let events = built?.events ?? 0;
    const onApplied = (more: number) => options.onApplied?.((events += more));
    // A load ends by itself where what it has written may be lost.
    const signal = AbortSignal.any([held, lease.restarted]);
    const applier = new Applier(this.store, this.readModels, begun, this.holder, onApplied);
    const isReady = await this.readiness(generation, options);
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
      if (!(error instanceof BatchRefused)) throw error;
      return (await findGeneration(id, this.readModels)) ? 'lease_lost' : 'gone';
    }
    return signal.aborted ? 'aborted' : 'at_head';
  }

  private slices({ position }: Checkpoint, { toHead }: FollowOptions, signal: AbortSignal) {
    if (!toHead) return this.store.subscribe(position, { sliceSize: SLICE, signal });
    const sliceSize = this.readModels.rowsPerBatch === undefined ? SLICE : FAR_SLICE;
    return this.store.readAll(position, { sliceSize, signal });
  }

  /** Builds an empty generation. @returns undefined if the log is to be applied in batches instead */
  private async build(generation: Generation, options: FollowOptions, signal: AbortSignal) {
    if (generation.checkpoint.position > 0) return undefined;
    const { store, readModels, sizes } = this;
    const { id, views } = generation;
    const load = await readModels.load(id, this.holder);
    const events = await store.countAfter(0);
    if (!load || !this.builds || events === 0) return undefined;
    const goal = await store.head();
    const folder = readModels.buildFolder;
    const { onApplied: onProgress } = options;
    const ofBuild = { projections: projectionsOf(views), events, goal, folder, signal, onProgress, sizes };
    try {
      const built = await build(store, ofBuild, (rows) => load.append(rows));
      if (built === 'refused' || built === 'aborted') return built;
      if (built !== 'too_large') {
        await reflectPlatformLens(store, readModels);
        return (await load.finish(built.checkpoint)) ? built : 'refused';
      }
    } catch (error) {
      const left = await findGeneration(id, this.readModels);
      if (!left) return 'refused';
      // The ordinary follower needs less space.
      if (error instanceof NoSpaceToBuild) this.builds = false;
      // The caller logs other failures, with their reason.
      else if (error instanceof StoreUnavailable && !options.signal.aborted) startsAgain(left, 'failed', options);
      throw error;
    }
    this.builds = false;
    return undefined;
  }

  /** A function that marks a generation `ready` once it has caught up, and returns whether it is. */
  private async readiness({ id, status }: Generation, { logger }: FollowOptions) {
    let ready = status !== 'building';
    const look = async () => ({ head: await this.store.head(), at: performance.now() });
    let goal = await look();
    return async ({ position }: Checkpoint): Promise<boolean> => {
      if (ready || position < goal.head) return ready;
      if (performance.now() - goal.at > READY_MS) goal = await look();
      if (position < goal.head) return false;
      const hidden = (await this.store.hiddenStreams?.()) ?? [];
      if (hidden.length > 0) {
        const names = hidden.slice(0, MOST_NAMED).join(', ');
        const what = `${id} lacks events of ${hidden.length} streams, or will when built again after a scavenge`;
        logger?.warn(`${what}: they were deleted or truncated in EventStoreDB, such as ${names}`);
      }
      await this.readModels.setStatus(id, 'ready', this.store.logId);
      return (ready = true);
    };
  }
}

/** Logs that nothing is kept of an interrupted build. One that the store could not confirm may be complete. */
function startsAgain({ id, checkpoint }: Generation, what: string, { logger }: FollowOptions): void {
  if (checkpoint.position > 0) return;
  logger?.warn(`the build of ${id} ${what}: it starts again from the beginning`);
}
