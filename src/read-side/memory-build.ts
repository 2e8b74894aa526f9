import type { Projection } from '../../projections/projection.js';
import type { NewerSchema } from '../kernel/event-definition.js';
import type { Position } from '../kernel/event.js';
import { isDue, yieldIfDue } from '../kernel/turn.js';
import type { EventStore } from '../stores/ports/event-store.js';
import { type BulkLoad, type Checkpoint, startOf } from '../stores/ports/read-models.js';
import { type BulkOptions, SIZES } from './bulk-build.js';
import { FreshRows, SortedRows } from './bulk-fold.js';
import { decodeSlice } from './fold.js';
import { RowLoader } from './row-loader.js';

/** The shares of the two steps in the progress. */
const [FOLD, LOAD] = [0.7, 0.3];

/**
 * Builds a generation of a short log without files: all events are folded in memory, and the rows are written in the
 * order of their addresses. A build that is interrupted has to start again.
 * @returns the checkpoint that was stored; `refused` if the lease was lost or the generation is gone; `aborted`;
 * `too_large` if the rows take too much memory: nothing is left
 */
export async function buildInMemory(
  store: EventStore,
  load: BulkLoad,
  options: BulkOptions,
): Promise<Checkpoint | 'refused' | 'aborted' | 'too_large'> {
  const { projections, signal, onProgress } = options;
  const { slice: sliceSize, memoryBytes, loadRows } = { ...SIZES, ...options.sizes };
  const rows = new SortedRows();
  const onFolded = (events: number) => onProgress?.(Math.floor(FOLD * events));
  const ofFold = { projections, signal, sliceSize, memoryBytes, onFolded };
  const folded = await foldLog(store, await store.head(), rows, ofFold);
  if (signal.aborted) return 'aborted';
  if (!folded) return 'too_large';
  // After an event of a newer schema, the follower continues up to it, and halts.
  const { checkpoint, events } = folded;
  const { bytes } = rows;
  const loader = new RowLoader(load, loadRows);
  let written = 0;
  for (const _ of rows.inOrder((...row) => loader.add(...row))) {
    await yieldIfDue();
    if (!loader.isFull) continue;
    written += loader.bytes;
    if (!(await loader.flush())) return 'refused';
    if (signal.aborted) return (await loader.written()) ? 'aborted' : 'refused';
    onProgress?.(Math.floor(events * (FOLD + (LOAD * written) / bytes)));
  }
  if (!(await loader.flush()) || !(await loader.written())) return 'refused';
  if (!(await load.finish(checkpoint))) return 'refused';
  onProgress?.(events);
  return checkpoint;
}

/** What `foldLog` has folded. */
export interface FoldedLog {
  /** Of the last event that was folded. */
  checkpoint: Checkpoint;
  /** Their number. */
  events: number;
  /** Why it ended before the goal: an event of a newer schema. */
  stop: NewerSchema | undefined;
}

export interface FoldLogOptions {
  projections: readonly Projection[];
  signal: AbortSignal;
  /** Events read at once. */
  sliceSize: number;
  /** The most that the rows may take. */
  memoryBytes: number;
  /** Called with the number of events that were folded. */
  onFolded: (events: number) => void;
}

/**
 * Folds the log from its start up to a position, all of it in memory. It ends early if it is aborted.
 * @returns undefined if the rows take too much memory
 */
export async function foldLog(
  store: EventStore,
  goal: Position,
  sorted: SortedRows,
  { projections, signal, sliceSize, memoryBytes, onFolded }: FoldLogOptions,
): Promise<FoldedLog | undefined> {
  const rows = new FreshRows(sorted);
  const folded: FoldedLog = { checkpoint: startOf(store.logId), events: 0, stop: undefined };
  for await (const slice of store.readAll(0, { sliceSize, signal })) {
    const { events, stop } = await decodeSlice(slice.filter(({ position }) => position <= goal));
    for (const event of events) {
      for (const projection of projections) projection.apply(event, rows);
      if (isDue()) await yieldIfDue();
    }
    const last = events.at(-1);
    if (last) folded.checkpoint = { log: store.logId, position: last.position, event_id: last.id };
    folded.events += events.length;
    folded.stop = stop;
    if (sorted.bytes > memoryBytes) return undefined;
    onFolded(folded.events);
    if (stop || slice.at(-1)!.position >= goal) break;
  }
  for (const _ of rows.finish()) await yieldIfDue();
  return sorted.bytes > memoryBytes ? undefined : folded;
}
