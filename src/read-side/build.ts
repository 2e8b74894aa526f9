import type { DomainEvent } from '../../projections/events.js';
import type { Projection } from '../../projections/projection.js';
import type { NewerSchema } from '../kernel/event-definition.js';
import type { Position, RecordedEvent } from '../kernel/event.js';
import { IS_MEMORY_SHORT, memoryLimit } from '../kernel/memory.js';
import { isDue, yieldIfDue } from '../kernel/turn.js';
import { PlacedRows } from '../stores/ports/encoded-rows.js';
import type { EventStore } from '../stores/ports/event-store.js';
import { type Checkpoint, startOf } from '../stores/ports/read-models.js';
import { Blocks, EventBlocks, TemporaryFile, eventsOf, packed } from './build-files.js';
import { Divider, FreshRows, PartitionFold, SortedRows } from './build-fold.js';
import { decodeSlice } from './fold.js';
import { MergedRuns, blocksOf } from './merged-runs.js';

/**
 * The one way to fold the log from its start: for the first start, a rebuild, damaged read models and verification.
 * docs/builds.md describes its steps. Nothing of a build that is interrupted is kept.
 */

const MB = 2 ** 20;
/** These bound the memory of a build. Tests use others. */
const SIZES = {
  /** About the events of a partition. A log of fewer events is not divided. */
  eventsPerPartition: IS_MEMORY_SHORT ? 20_000 : 120_000,
  /**
   * The most that the events of a partition may take in the file. Its fold takes up to three times as much memory, but
   * less than its events if nearly all are about one identity, as in a partition that reaches this limit.
   */
  partitionBytes: IS_MEMORY_SHORT ? 16 * MB : Math.max(48 * MB, memoryLimit() / 4),
  /** Sorted rows are written to a temporary file when they take this many bytes. */
  runBytes: IS_MEMORY_SHORT ? 8 * MB : 32 * MB,
  /** Bytes of a block of a temporary file, about. */
  blockBytes: 128 * 1024,
  /** Rows given away at once: few enough to keep the pauses of the event loop short. */
  batchRows: 2_000,
  /** Events read at once: few, since the garbage collector copies those that are not folded yet. */
  slice: 128,
  /** Bytes of the disk that temporary files leave free. */
  reservedBytes: 64 * MB,
};
export type BuildSizes = typeof SIZES;
/** More would need too much memory for the blocks that are being filled. Their partitions are larger. */
const MAX_PARTITIONS = 512;
/** What a block of each partition takes together, about. */
const BLOCKS_BYTES = (IS_MEMORY_SHORT ? 4 : 16) * MB;
/** The shares of the steps in the progress, with files and without. */
const DIVIDED = { read: 0.4, fold: 0.4, give: 0.2 };
const WHOLE = { read: 0.7, fold: 0, give: 0.3 };

export interface BuildOptions {
  projections: readonly Projection[];
  /** About the number of events of the log. */
  events: number;
  /** The position up to which the log is read. */
  goal: Position;
  /** For temporary files. It need not exist. */
  folder: string;
  signal: AbortSignal;
  /** Called with the number of events that the work done so far corresponds to; at the end, of all of the log. */
  onProgress?: ((done: number) => void) | undefined;
  /** Called for an event that cannot be read. */
  onDamage?: (event: RecordedEvent) => void;
  sizes?: Partial<BuildSizes>;
}

/** What was folded. */
export interface Built {
  /** Of the last event. */
  checkpoint: Checkpoint;
  /** Their number. */
  events: number;
  /** Why it ended before the goal: an event of a newer schema. */
  stop: NewerSchema | undefined;
  partitions: number;
  /** Bytes of the temporary files. */
  disk: number;
}

/** Takes some rows. False: it takes no more. */
type RowsTaker = (rows: PlacedRows) => Promise<boolean>;

/**
 * Folds the log from its start up to a position, and gives all rows away in the order of their addresses.
 * @returns what was folded; `refused` if the taker takes no more; `aborted`; `too_large` if a partition cannot be folded
 * in memory, since one identity has too many events
 * @throws NoSpaceToBuild, and any error of the stores
 */
export function build(store: EventStore, options: BuildOptions, take: RowsTaker) {
  return new Build(store, options, take).run();
}

class Build {
  private readonly sizes: BuildSizes;
  private readonly built: Built;
  private readonly shares: typeof WHOLE;
  private readonly blockBytes: number;
  private readonly eventFile: TemporaryFile;
  private readonly rowFile: TemporaryFile;
  /** Sorted rows, each series with its own. */
  private readonly runs: Blocks[] = [];
  /** The rows of the fold under way. */
  private readonly rows = new SortedRows();
  /** In events. */
  private done = 0;

  constructor(
    private readonly store: EventStore,
    private readonly options: BuildOptions,
    private readonly take: RowsTaker,
  ) {
    this.sizes = { ...SIZES, ...options.sizes };
    const { eventsPerPartition, blockBytes, reservedBytes } = this.sizes;
    const partitions = Math.min(MAX_PARTITIONS, Math.ceil(options.events / eventsPerPartition) || 1);
    this.built = { checkpoint: startOf(store.logId), events: 0, stop: undefined, partitions, disk: 0 };
    this.shares = partitions === 1 ? WHOLE : DIVIDED;
    this.blockBytes = Math.min(blockBytes, Math.floor(BLOCKS_BYTES / partitions));
    this.eventFile = new TemporaryFile(options.folder, reservedBytes);
    this.rowFile = new TemporaryFile(options.folder, reservedBytes);
  }

  async run(): Promise<Built | 'refused' | 'too_large' | 'aborted'> {
    const { built, options, eventFile, rowFile } = this;
    try {
      if (built.partitions === 1) await this.foldWhole();
      else if (!(await this.foldDivided())) return 'too_large';
      built.disk = eventFile.length + rowFile.length;
      await eventFile.close();
      if (!(await this.give())) return 'refused';
      options.onProgress?.(built.events);
      return built;
    } catch (error) {
      if (options.signal.aborted && error === options.signal.reason) return 'aborted';
      throw error;
    } finally {
      await eventFile.close();
      await rowFile.close();
    }
  }

  /** Reads the log up to the goal. */
  private async *read(): AsyncGenerator<DomainEvent[]> {
    const { store, built, sizes } = this;
    const { goal, signal, onDamage } = this.options;
    for await (const slice of store.readAll(0, { sliceSize: sizes.slice, signal })) {
      const wanted = slice.filter(({ position }) => position <= goal);
      for (const event of wanted) if (event.damage) onDamage?.(event);
      const { events, stop } = await decodeSlice(wanted, yieldIfDue);
      yield events;
      const last = events.at(-1);
      if (last) built.checkpoint = { log: store.logId, position: last.position, event_id: last.id };
      built.events += events.length;
      built.stop = stop;
      this.progress(this.shares.read * events.length);
      // After an event of a newer schema, the follower continues up to it, and halts.
      if (stop || slice.at(-1)!.position >= goal) return;
    }
  }

  private async foldWhole(): Promise<void> {
    const { projections } = this.options;
    const rows = new FreshRows(this.rows);
    for await (const events of this.read()) {
      for (const event of events) {
        for (const projection of projections) projection.apply(event, rows);
        if (isDue()) await yieldIfDue();
      }
      await this.during(rows.saveMemory());
    }
    await this.during(rows.finish());
  }

  /** @returns false if a partition is too large */
  private async foldDivided(): Promise<boolean> {
    const { built, sizes, eventFile, blockBytes } = this;
    const { projections } = this.options;
    const divider = new Divider(projections, built.partitions, this.rows);
    const own = Array.from({ length: built.partitions }, () => new EventBlocks(eventFile, blockBytes));
    const shared = new EventBlocks(eventFile, sizes.blockBytes);
    const all = [...own, shared];
    for await (const events of this.read()) {
      for (const event of events) {
        const { parts, isShared } = divider.take(event);
        if (parts.length === 0 && !isShared) continue;
        const text = packed(event);
        if (isShared) shared.add(text);
        for (const part of parts) own[part]!.add(text);
      }
      for (const blocks of all) if (blocks.isDue) await blocks.flush();
      await this.during([]);
    }
    this.options.signal.throwIfAborted();
    for (const blocks of all) await blocks.flush();
    await this.during(divider.finish());
    // Far larger than the number of events lets expect.
    const most = sizes.partitionBytes * Math.max(1, built.events / (built.partitions * sizes.eventsPerPartition));
    if (own.some(({ length }) => length > most)) return false;
    for (const [part, blocks] of own.entries()) {
      // The rows of the last partition stay in memory.
      await this.endRun();
      const fold = new PartitionFold(projections, part, built.partitions, this.rows);
      await this.foldPartition(fold, blocks, shared);
      this.progress((this.shares.fold * built.events) / built.partitions);
    }
    return true;
  }

  private async foldPartition(fold: PartitionFold, own: EventBlocks, shared: EventBlocks): Promise<void> {
    const sharedEvents = shared.events();
    try {
      let next = await sharedEvents.next();
      for await (const block of own.read()) {
        for (const event of eventsOf(block)) {
          for (; !next.done && next.value.position <= event.position; next = await sharedEvents.next()) {
            fold.applyShared(next.value);
            if (isDue()) await yieldIfDue();
            this.options.signal.throwIfAborted();
          }
          fold.apply(event);
          if (isDue()) await yieldIfDue();
        }
        await this.during(fold.saveMemory());
      }
    } finally {
      await sharedEvents.return(undefined);
    }
    await this.during(fold.finish());
  }

  /** Does some work that makes rows, other work in between. @throws the reason of the signal */
  private async during(work: Iterable<void>): Promise<void> {
    const { signal } = this.options;
    signal.throwIfAborted();
    for (const _ of work) {
      await yieldIfDue();
      signal.throwIfAborted();
      if (this.rows.bytes >= this.sizes.runBytes) await this.endRun();
    }
    if (this.rows.bytes >= this.sizes.runBytes) await this.endRun();
  }

  /** Writes the rows of the fold to the file. */
  private async endRun(): Promise<void> {
    if (this.rows.size === 0) return;
    const run = new Blocks(this.rowFile);
    for await (const block of this.blocks()) await run.append(block);
    this.runs.push(run);
    this.rows.clear();
  }

  private async *blocks(): AsyncGenerator<Buffer> {
    for (const block of blocksOf(this.rows, this.blockBytes)) {
      await yieldIfDue();
      if (block) yield block;
    }
  }

  /** Gives all rows away. One batch is taken while the next is collected. @returns false if no more are taken */
  private async give(): Promise<boolean> {
    const { runs, rows, sizes, options } = this;
    const bytes = runs.reduce((sum, { length }) => sum + length, rows.bytes);
    const merged = new MergedRuns();
    let batch = new PlacedRows();
    let taking = Promise.resolve(true);
    try {
      for (const run of runs) await merged.add(run.read());
      await merged.add(this.blocks());
      for (let run = merged.first; run; run = merged.first) {
        batch.add(run.block, run.start, run.middle, run.end);
        if (!merged.next()) await merged.fill();
        if (batch.size >= sizes.batchRows || !merged.first) {
          if (!(await taking)) return false;
          options.signal.throwIfAborted();
          this.progress((this.shares.give * this.built.events * batch.bytes) / bytes);
          taking = this.take(batch);
          taking.catch(() => undefined); // thrown where it is awaited
          batch = new PlacedRows();
        }
        if (isDue()) await yieldIfDue();
      }
      return await taking;
    } finally {
      await taking.catch(() => undefined);
      await merged.close();
    }
  }

  private progress(done: number): void {
    const { events, onProgress } = this.options;
    this.done += done;
    onProgress?.(Math.min(Math.floor(this.done + 1e-6), events));
  }
}
