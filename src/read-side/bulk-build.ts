import { availableParallelism } from 'node:os';
import type { Projection } from '../../projections/projection.js';
import type { Logger } from '../kernel/logger.js';
import { IS_MEMORY_SHORT, memoryLimit } from '../kernel/memory.js';
import { isDue, yieldIfDue } from '../kernel/turn.js';
import type { EventStore } from '../stores/ports/event-store.js';
import type { BulkLoad, Checkpoint } from '../stores/ports/read-models.js';
import {
  type BlockWriter,
  BuildDamaged,
  BuildFolder,
  type BulkBuildState,
  NoSpaceToBuild,
  type Part,
} from './bulk-files.js';
import { Divider, SortedRows } from './bulk-fold.js';
import { type FoldSetup, FoldThread, FoldThreadEnded } from './bulk-fold-thread.js';
import { type PartitionFiles, type PartitionSizes, eventsIn, foldPartition, writeRows } from './bulk-partition.js';
import { decodeSlice } from './fold.js';
import { MergedRuns } from './merged-runs.js';
import { PackedEvents, packed } from './packed-events.js';
import { RowLoader } from './row-loader.js';

/**
 * Builds a generation from the start of the log without reading stored rows: the log is read once and divided into
 * partitions of identities, in temporary files; each partition is folded in memory, and its rows are sorted; then the
 * rows of all partitions are merged and written in the order of their addresses. A build that was interrupted
 * continues: with the events that were not divided yet, the partitions that were not folded yet, the rows that were not
 * written yet.
 */

/** Shorter logs are built in memory, which takes less time. */
export const BULK_EVENTS = IS_MEMORY_SHORT ? 20_000 : 120_000;

/** The defaults bound the memory of a build. Tests use others. */
export interface BulkSizes extends PartitionSizes {
  eventsPerPartition: number;
  /** The most that the rows of a build in memory may take. Their fold takes up to three times as much memory. */
  memoryBytes: number;
  /**
   * The most that the events of a partition may take in its file. Its fold takes up to three times as much memory, but
   * less than its events if nearly all are about one identity, as in a partition that reaches this limit.
   */
  partitionBytes: number;
  /** Events after which the progress of dividing is recorded. */
  recordEvery: number;
  /** Rows written in one transaction: few enough to keep the pauses of the event loop short. */
  loadRows: number;
  /** Events read at once: few enough to keep the pauses of the event loop short. */
  slice: number;
  /** Bytes of the disk that temporary files leave free. */
  reservedBytes: number;
  /** Threads that fold partitions, each of them one at a time; 0: this one does. */
  threads: number;
  /** The most that long-lived objects of a thread may take. A thread that needs more ends, and its partition is folded here. */
  threadHeapMb: number;
}
const heapMb = memoryLimit() / 2 ** 20;
/** A thread takes about 130 MB, so there are none where memory is short, and none on a single processor. */
const THREADS = availableParallelism() > 1 && heapMb >= 1_000 ? 2 : 0;
export const SIZES: BulkSizes = {
  eventsPerPartition: THREADS > 0 || IS_MEMORY_SHORT ? 16_000 : 100_000,
  memoryBytes: Math.min(64 * 2 ** 20, memoryLimit() / 8),
  partitionBytes: IS_MEMORY_SHORT ? 16 * 2 ** 20 : Math.max(48 * 2 ** 20, memoryLimit() / 4),
  runBytes: IS_MEMORY_SHORT ? 8 * 2 ** 20 : 32 * 2 ** 20,
  blockBytes: 128 * 1024,
  recordEvery: 100_000,
  loadRows: 2_000,
  slice: 1_000,
  reservedBytes: 64 * 2 ** 20,
  threads: THREADS,
  threadHeapMb: heapMb,
};
/** More would need too many open files. Their partitions are larger. */
const MAX_PARTITIONS = 512;
/** What a block of each partition takes together, about. */
const BLOCKS_BYTES = (IS_MEMORY_SHORT ? 4 : 16) * 2 ** 20;
/** The shares of the three steps in the progress. */
const [DIVIDE, FOLD, LOAD] = [0.5, 0.3, 0.2];

export interface BulkOptions {
  projections: readonly Projection[];
  /** About the number of events of the log. */
  events: number;
  signal: AbortSignal;
  /** Called with the number of events that the work done so far corresponds to; at the end, of all of the log. */
  onProgress?: (done: number) => void;
  sizes?: Partial<BulkSizes>;
  logger?: Logger;
  /** Tests use others. */
  startThread?: (setup: FoldSetup) => Folding;
}
type Folding = Pick<FoldThread, 'fold' | 'close'>;
const START_THREAD = FoldThread.isAvailable ? (setup: FoldSetup): Folding => new FoldThread(setup) : undefined;

/**
 * @returns the checkpoint that was stored; `refused` if the lease was lost or the generation is gone; `aborted`;
 * `too_large` if a partition cannot be folded in memory, since one identity has too many events: nothing is left
 * @throws NoSpaceToBuild, and any error of the stores
 */
export async function buildInBulk(
  store: EventStore,
  load: BulkLoad,
  options: BulkOptions,
): Promise<Checkpoint | 'refused' | 'aborted' | 'too_large'> {
  let { last } = load;
  for (;;) {
    const build = new BulkBuild(store, load, last, options);
    try {
      return await build.run();
    } catch (error) {
      if (error instanceof NoSpaceToBuild) await build.discard();
      if (!(error instanceof BuildDamaged)) throw error;
      // A crash of the machine, or a builder that lost its lease: from the start.
      await build.discard();
      if (!(await load.clear())) return 'refused';
      last = null;
    }
  }
}

class BulkBuild {
  private readonly folder: BuildFolder;
  private readonly sizes: BulkSizes;
  private state!: BulkBuildState;
  /** In events. */
  private done = 0;
  /** The state is recorded once at a time. */
  private recording: Promise<void> = Promise.resolve();

  constructor(
    private readonly store: EventStore,
    private readonly load: BulkLoad,
    /** The address of the last row that is written. */
    private readonly last: Buffer | null,
    private readonly options: BulkOptions,
  ) {
    this.sizes = { ...SIZES, ...options.sizes };
    this.folder = new BuildFolder(load.folder, this.sizes.reservedBytes);
  }

  discard(): Promise<void> {
    return this.folder.remove();
  }

  async run(): Promise<Checkpoint | 'refused' | 'aborted' | 'too_large'> {
    const { signal } = this.options;
    const known = await this.folder.state(this.store.logId);
    if (!known && this.last !== null) throw new BuildDamaged('the files of the rows already written are gone');
    if (!known) await this.folder.remove();
    else await this.folder.removeOthers(known);
    this.state = known ?? (await this.begin());
    this.progress(DIVIDE * this.state.events);
    if (!this.state.isDivided) await this.divide();
    if (signal.aborted) return 'aborted';
    if (this.state.rows.length === 1 && this.isTooLarge()) {
      await this.discard();
      return 'too_large';
    }
    await this.fold();
    if (signal.aborted) return 'aborted';
    const { position, event_id } = this.state;
    const next: Checkpoint = { log: this.store.logId, position, event_id };
    const written = await this.write();
    if (written !== 'written') return written;
    if (!(await this.load.finish(next))) return 'refused';
    await this.folder.remove();
    this.progress(this.options.events);
    return next;
  }

  private async begin(): Promise<BulkBuildState> {
    const partitions = Math.min(MAX_PARTITIONS, Math.ceil(this.options.events / this.sizes.eventsPerPartition) || 1);
    return {
      format: 2,
      log: this.store.logId,
      partitions,
      goal: await this.store.head(),
      position: 0,
      event_id: null,
      events: 0,
      isDivided: false,
      own: Array.from({ length: partitions }, () => []),
      shared: [],
      rows: [],
    };
  }

  /** Of a file of a partition: a block of each is in memory while the log is divided, and while rows are merged. */
  private get blockBytes(): number {
    return Math.min(this.sizes.blockBytes, Math.floor(BLOCKS_BYTES / this.state.partitions));
  }

  /** Whether a partition is far larger than the number of events lets expect. */
  private isTooLarge(): boolean {
    const { partitions, own } = this.state;
    const { eventsPerPartition, partitionBytes } = this.sizes;
    const most = partitionBytes * Math.max(1, this.options.events / (partitions * eventsPerPartition));
    return own.some((parts) => parts.reduce((sum, { length }) => sum + length, 0) > most);
  }

  private async divide(): Promise<void> {
    const { state, folder, sizes } = this;
    const { projections, signal } = this.options;
    const before = state.events;
    const rows = new SortedRows();
    const divider = new Divider(projections, state.partitions, rows);
    for await (const event of eventsIn(folder, state.shared)) divider.take(event);
    const spills = await Promise.all(state.own.map(() => EventSpill.create(folder, 'events', this.blockBytes)));
    const shared = await EventSpill.create(folder, 'shared', sizes.blockBytes);
    const recorded = { own: state.own, shared: state.shared };
    /** Makes what was divided so far part of the state. */
    const record = async (isDivided: boolean) => {
      const written = await Promise.all(spills.map((spill) => spill.part()));
      state.own = recorded.own.map((parts, n) => [...parts, written[n]!]);
      state.shared = [...recorded.shared, await shared.part()];
      state.isDivided = isDivided;
      await folder.record(state);
    };
    try {
      let unrecorded = 0;
      for await (const slice of this.store.readAll(state.position, { sliceSize: sizes.slice, signal })) {
        const { events, stop } = await decodeSlice(slice.filter(({ position }) => position <= state.goal));
        for (const event of events) {
          const { parts, isShared } = divider.take(event);
          if (parts.length === 0 && !isShared) continue;
          const text = packed(event);
          if (isShared) shared.add(text);
          for (const part of parts) spills[part]!.add(text);
        }
        for (const spill of spills) if (spill.isDue) await spill.flush();
        if (shared.isDue) await shared.flush();
        const last = events.at(-1);
        if (last) [state.position, state.event_id] = [last.position, last.id];
        state.events += events.length;
        unrecorded += events.length;
        this.progress(DIVIDE * events.length);
        // An event of a newer schema: the follower continues up to it, and halts.
        if (stop || slice.at(-1)!.position >= state.goal) break;
        if (unrecorded < sizes.recordEvery) continue;
        await record(false);
        unrecorded = 0;
      }
      if (signal.aborted) {
        if (state.events > before) await record(false);
        return;
      }
      await finish(divider.finish());
      state.rows = [{ partition: null, parts: [await writeRows(folder, rows, sizes)] }];
      await record(true);
    } finally {
      for (const spill of [...spills, shared]) await spill.close();
    }
  }

  /** Folds the partitions that are left: in threads, and here those that no thread folds. */
  private async fold(): Promise<void> {
    const { state, folder, options, sizes } = this;
    const { projections, signal } = options;
    const folded = new Set(state.rows.map(({ partition }) => partition));
    const left = Array.from({ length: state.partitions }, (_, n) => n).filter((n) => !folded.has(n));
    this.progress((FOLD * state.events * (state.partitions - left.length)) / state.partitions);
    const ofPartition = { ...sizes, blockBytes: this.blockBytes };
    if (sizes.threads > 0 && left.length > 1) left.push(...(await this.foldInThreads(left, ofPartition)));
    for (let partition; !signal.aborted && (partition = left.shift()) !== undefined;) {
      await this.record(partition, await foldPartition(folder, projections, this.filesOf(partition), ofPartition));
    }
  }

  /**
   * Takes partitions from those that are left until there are none, or no thread.
   * @returns those of threads that ended. Another thread does not try them: they may be too large for any.
   */
  private async foldInThreads(left: number[], sizes: BulkSizes): Promise<number[]> {
    const { projections, signal, logger, startThread = START_THREAD } = this.options;
    if (!startThread) return [];
    const setup = { folder: this.load.folder, projections: projections.map(({ name }) => name), sizes };
    const threads: Folding[] = [];
    const unfolded: number[] = [];
    let isClosed = false;
    const close = () => {
      isClosed = true;
      return Promise.all(threads.map((thread) => thread.close()));
    };
    const warn = (error: unknown) => {
      if (!isClosed) logger?.warn('a build of read models has one thread less', { error });
    };
    const work = async (): Promise<void> => {
      let thread: Folding;
      try {
        thread = startThread(setup);
      } catch (error) {
        // Such as where the system gives the process no more threads.
        return warn(error);
      }
      threads.push(thread);
      for (let partition; !signal.aborted && (partition = left.shift()) !== undefined;) {
        try {
          await this.record(partition, await thread.fold(this.filesOf(partition)));
        } catch (error) {
          if (!(error instanceof FoldThreadEnded)) throw error;
          unfolded.push(partition);
          return warn(error);
        }
      }
    };
    const abort = () => void close();
    signal.addEventListener('abort', abort);
    const working = Array.from({ length: Math.min(sizes.threads, left.length) }, work);
    try {
      await Promise.all(working);
    } finally {
      signal.removeEventListener('abort', abort);
      // None may write to the files of what continues, or is tried again.
      await close();
      await Promise.allSettled(working);
    }
    return unfolded;
  }

  private filesOf(partition: number): PartitionFiles {
    const { partitions, own, shared } = this.state;
    return { partition, of: partitions, own: own[partition]!, shared };
  }

  /** Makes the rows of a partition part of the state. */
  private record(partition: number, parts: Part[]): Promise<void> {
    const { state, folder } = this;
    this.recording = this.recording.then(async () => {
      state.rows.push({ partition, parts });
      await folder.record(state);
      await folder.removeFiles(state.own[partition]!);
      this.progress((FOLD * state.events) / state.partitions);
    });
    return this.recording;
  }

  /** Writes all rows to the store, in the order of their addresses. */
  private async write(): Promise<'written' | 'refused' | 'aborted'> {
    const { state, folder, load, last } = this;
    const files = state.rows.flatMap(({ parts }) => parts);
    const bytes = files.reduce((sum, { length }) => sum + length, 0);
    const runs = new MergedRuns();
    try {
      for (const file of files) await runs.add(folder.blocks([file]));
      const loader = new RowLoader(load, this.sizes.loadRows);
      const flush = (): Promise<boolean> => {
        this.progress((LOAD * state.events * loader.bytes) / bytes);
        return loader.flush();
      };
      for (let run = runs.first; run; run = runs.first) {
        const { block, start, middle, end } = run;
        const isWritten = last !== null && block.compare(last, 0, last.length, start, middle) <= 0;
        if (!isWritten) loader.add(block, start, middle, end);
        if (!runs.next()) await runs.fill();
        if (loader.isFull) {
          if (!(await flush())) return 'refused';
          if (this.options.signal.aborted) return (await loader.written()) ? 'aborted' : 'refused';
        }
        if (isDue()) await yieldIfDue();
      }
      if (!(await flush()) || !(await loader.written())) return 'refused';
      return 'written';
    } finally {
      await runs.close();
    }
  }

  private progress(done: number): void {
    const { events, onProgress } = this.options;
    this.done += done;
    onProgress?.(Math.min(Math.floor(this.done + 1e-6), events));
  }
}

async function finish(work: Generator<void>): Promise<void> {
  for (const _ of work) await yieldIfDue();
}

/** Events of one partition on their way to a file. */
class EventSpill {
  private readonly events = new PackedEvents();

  private constructor(
    private readonly file: BlockWriter,
    private readonly blockBytes: number,
  ) {}

  static async create(folder: BuildFolder, kind: string, blockBytes: number): Promise<EventSpill> {
    return new EventSpill(await folder.create(kind), blockBytes);
  }

  /** All events that were added, once they are written. */
  async part(): Promise<Part> {
    await this.flush();
    return this.file.part();
  }

  get isDue(): boolean {
    return this.events.length >= this.blockBytes;
  }

  add(text: string): void {
    this.events.add(text);
  }

  async flush(): Promise<void> {
    if (this.events.length > 0) await this.file.append(this.events.take());
  }

  close(): Promise<void> {
    return this.file.close();
  }
}
