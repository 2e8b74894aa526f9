import { randomUUID } from 'node:crypto';
import { type Projection, RowOverlay } from '../../projections/projection.js';
import type { RecordedEvent } from '../kernel/event.js';
import { type EventStore, StoreUnavailable } from '../stores/ports/event-store.js';
import type { DomainEvent } from '../../projections/events.js';
import type { Json } from '../kernel/json.js';
import type { Logger } from '../kernel/logger.js';
import { yieldIfDue } from '../kernel/turn.js';
import { PLATFORM_LENS_STREAM } from '../../projections/lenses.js';
import { EncodedRows } from '../stores/ports/encoded-rows.js';
import type { Checkpoint, Generation, ReadModels, RowKey } from '../stores/ports/read-models.js';
import { PROJECTIONS } from './all-projections.js';
import { BULK_EVENTS, type BulkSizes, buildInBulk } from './bulk-build.js';
import { NoSpaceToBuild } from './bulk-files.js';
import { type FoldedBatch, decodeSlice, foldInBatches, loadRows, runsOf } from './fold.js';
import { takeLease } from './lease.js';
import { isInLog, reflectPlatformLens } from './manifest.js';
import { type SharedBuildOptions, buildShared } from './shared-build.js';

/** Events folded at once: enough to share a commit, few enough to keep the pauses of the event loop short. */
const SLICE = 1_000;
/** Rows that are read before other work may run, where reading keeps the event loop. */
const ROWS_PER_TURN = 100;
/** Events folded at once while catching up, if rows are read over a network, all in one request. */
const FAR_BULK_SLICE = 20_000;
/** The number of small batches in flight. Each is applied on top of the one before it, or refused. */
const BATCHES_IN_FLIGHT = 8;
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

export interface FollowOptions {
  signal: AbortSignal;
  /** End at the head instead of waiting there for further events. */
  toHead?: boolean;
  onApplied?: (checkpoint: Checkpoint, events: number) => void;
  logger?: Logger;
}

type Overlay = RowOverlay<EncodedRows>;
type Folded = FoldedBatch<EncodedRows>;

/** A batch whose rows are being written. */
interface Applying {
  next: Checkpoint;
  events: number;
  outcome: ReturnType<ReadModels['apply']>;
}

/**
 * Applies the log to one generation, in order, from its stored checkpoint on. The checkpoint is stored in the same
 * atomic step as the rows, so a crash at any point neither loses nor repeats an event; only the holder of the
 * generation's lease can apply, and a lease is given up only between batches.
 */
export class Follower {
  /** Identifies it as the holder of a lease. */
  readonly holder = randomUUID();
  /** Whether to build in bulk: not after there was no space for it, or not enough memory. */
  private inBulk = true;
  /** Events whose build in bulk was told. A build that continues, or starts again, does not tell them once more. */
  private told = 0;

  constructor(
    private readonly store: EventStore,
    private readonly readModels: ReadModels,
    private readonly bulk: { from: number } & Partial<BulkSizes> = { from: BULK_EVENTS },
    /** Invites workers to builds that several processes can share. */
    private readonly shared: Pick<SharedBuildOptions, 'jobs' | 'sizes'> = {},
  ) {}

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
      const ended = await this.apply(generation, options, AbortSignal.any([options.signal, lease.lost]));
      return lease.lost.aborted && ended === 'aborted' ? 'lease_lost' : ended;
    } finally {
      await lease.release();
    }
  }

  private async apply(generation: Generation, options: FollowOptions, signal: AbortSignal): Promise<Ended> {
    const { id } = generation;
    const built = await this.build(generation, options, signal);
    if (built === 'refused') return (await this.generation(id)) ? 'lease_lost' : 'gone';
    if (built === 'aborted') return 'aborted';
    const { rowsPerBatch } = this.readModels;
    const inFlight = rowsPerBatch === undefined ? 1 : BATCHES_IN_FLIGHT;
    const bulkSlice = rowsPerBatch === undefined ? SLICE : FAR_BULK_SLICE;
    // All views of the generation, whatever this process serves: they share the checkpoint.
    const projections = PROJECTIONS.filter(({ name }) => name in generation.views);
    let checkpoint = built ?? generation.checkpoint;
    const applying: Applying[] = [];
    /** Waits until at most this many batches are in flight. Returns false if one was refused, so the lease is lost. */
    const settled = async (left: number): Promise<boolean> => {
      while (applying.length > left) {
        const { outcome, next, events } = applying.shift()!;
        if ((await outcome) === 'refused') return false;
        checkpoint = next;
        options.onApplied?.(next, events);
      }
      return true;
    };
    const refused = async (): Promise<Ended> => ((await this.generation(id)) ? 'lease_lost' : 'gone');
    const isReady = await this.readiness(generation);

    await isReady(checkpoint);
    do {
      const { position } = checkpoint;
      const slices = options.toHead
        ? this.store.readAll(position, { sliceSize: bulkSlice, signal })
        : this.store.subscribe(position, { sliceSize: SLICE, signal });
      /** Rows that batches in flight have written are read from here. */
      let before: Overlay | undefined;
      let overlay = newOverlay();
      let base = checkpoint;
      const start = async (batch: Folded): Promise<boolean> => {
        if (!(await settled(inFlight - 1))) return false;
        const started = this.startToApply(id, base, batch);
        applying.push(started);
        base = started.next;
        return true;
      };
      for await (const slice of runsOfSlices(projections, slices)) {
        const { events, endsAppend, stop } = await decodeSlice(slice);
        if (events.length > 0) {
          if (events.some(({ stream }) => stream === PLATFORM_LENS_STREAM)) {
            await reflectPlatformLens(this.store, this.readModels);
          }
          await this.load(id, projections, events, overlay, before);
          let batches = 0;
          for await (const batch of foldInBatches(projections, events, endsAppend, overlay, rowsPerBatch)) {
            if (!(await start(batch))) return refused();
            batches++;
          }
          // No batch of an earlier slice is in flight: the next slice reads what those have written.
          if (!(await settled(batches))) return refused();
          before = overlay;
          overlay = newOverlay();
        }
        if (stop || signal.aborted || !options.toHead) {
          if (!(await settled(0))) return refused();
          before = undefined;
          await isReady(checkpoint);
        }
        if (stop) throw stop;
        if (signal.aborted) return 'aborted';
      }
      if (!(await settled(0))) return refused();
    } while (!signal.aborted && options.toHead && !(await isReady(checkpoint)));
    return signal.aborted ? 'aborted' : 'at_head';
  }

  /**
   * Builds an empty generation in bulk, or together with other processes, if the log is long. Undefined: the follower
   * applies the log.
   */
  private async build(
    { id, views, checkpoint }: Generation,
    { onApplied, logger }: FollowOptions,
    signal: AbortSignal,
  ): Promise<Checkpoint | 'refused' | 'aborted' | undefined> {
    if (checkpoint.position > 0) return undefined;
    const onProgress = (events: number) => onApplied?.(checkpoint, events);
    if (this.readModels.beginBuild && this.store.marks && this.inBulk) {
      const finishing = () => reflectPlatformLens(this.store, this.readModels);
      const options = { ...this.shared, signal, onProgress };
      const built = await buildShared(id, this.holder, this.store, this.readModels, finishing, options);
      this.inBulk = built !== undefined;
      return built;
    }
    const load = await this.readModels.load?.(id, this.holder);
    const isBegun = load !== undefined && load.last !== null;
    if (!load || !(isBegun || (this.inBulk && (await this.store.countAfter(0)) >= this.bulk.from))) return undefined;
    const projections = PROJECTIONS.filter(({ name }) => name in views);
    const finish = async (next: Checkpoint) => {
      await reflectPlatformLens(this.store, this.readModels);
      return load.finish(next);
    };
    try {
      const onDone = (done: number) => {
        if (done <= this.told) return;
        onProgress(done - this.told);
        this.told = done;
      };
      const options = { projections, signal, onProgress: onDone, sizes: this.bulk, ...(logger && { logger }) };
      const built = await buildInBulk(this.store, { ...load, finish }, options);
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

  private load(
    id: string,
    projections: readonly Projection[],
    events: readonly DomainEvent[],
    overlay: Overlay,
    before: Overlay | undefined,
  ): Promise<void> {
    const load = async (rows: RowKey[]): Promise<(Json | undefined)[]> => {
      const stored = before ? rows.filter((row) => !before.knows(row)) : rows;
      const values = await this.readInParts(id, stored);
      if (!before) return values;
      let i = 0;
      return rows.map((row) => (before.knows(row) ? before.get(row) : values[i++]));
    };
    return loadRows(projections, events, load, overlay);
  }

  /** No other process writes, so one snapshot is not needed. */
  private async readInParts(id: string, rows: readonly RowKey[]): Promise<(Json | undefined)[]> {
    const { rowsPerBatch } = this.readModels;
    const size = rowsPerBatch ?? ROWS_PER_TURN;
    const parts = Array.from({ length: Math.ceil(rows.length / size) }, (_, i) => rows.slice(i * size, (i + 1) * size));
    if (rowsPerBatch !== undefined) return (await Promise.all(parts.map((part) => this.read(id, part)))).flat();
    const values: (Json | undefined)[] = [];
    for (const part of parts) {
      values.push(...(await this.read(id, part)));
      await yieldIfDue();
    }
    return values;
  }

  private async read(id: string, rows: readonly RowKey[]): Promise<(Json | undefined)[]> {
    const queries = rows.map((row) => ({ get: row }));
    const read = await this.readModels.read(id, queries);
    if (read?.status === 'damaged') throw new StoreUnavailable(`${id} is damaged`, { code: 'read_models_damaged' });
    // The generation was dropped: the batch folded without these rows will be refused.
    return read ? (read.results as (Json | undefined)[]) : rows.map(() => undefined);
  }

  private startToApply(id: string, base: Checkpoint, { events, last, changes }: Folded): Applying {
    const next = { log: this.store.logId, position: last.position, event_id: last.id };
    const outcome = this.readModels.apply(id, { id: randomUUID(), base, holder: this.holder, next, ...changes });
    outcome.catch(() => undefined); // thrown where it is awaited
    return { next, events, outcome };
  }

  private async generation(id: string): Promise<Generation | undefined> {
    const generation = (await this.readModels.generations()).find((candidate) => candidate.id === id);
    return generation?.status === 'dropped' ? undefined : generation;
  }
}

function newOverlay(): Overlay {
  return new RowOverlay(() => new EncodedRows());
}

/** Slices, divided. An event that must precede others is the last or the only one of its append. */
async function* runsOfSlices(
  projections: readonly Projection[],
  slices: AsyncIterable<readonly RecordedEvent[]>,
): AsyncGenerator<readonly RecordedEvent[]> {
  for await (const slice of slices) yield* runsOf(projections, slice);
}
