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
  const { signal, onProgress } = options;
  const rows = new SortedRows();
  const folded = await fold(store, rows, options);
  if (signal.aborted) return 'aborted';
  if (!folded) return 'too_large';
  const { checkpoint, events } = folded;
  const { bytes } = rows;
  const loader = new RowLoader(load, { ...SIZES, ...options.sizes }.loadRows);
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

/** Folds the log into sorted rows. @returns undefined if they take too much memory */
async function fold(
  store: EventStore,
  sorted: SortedRows,
  { projections, signal, onProgress, sizes }: BulkOptions,
): Promise<{ checkpoint: Checkpoint; events: number } | undefined> {
  const { slice: sliceSize, memoryBytes } = { ...SIZES, ...sizes };
  const rows = new FreshRows(sorted);
  const goal = await store.head();
  const checkpoint = startOf(store.logId);
  let folded = 0;
  for await (const slice of store.readAll(0, { sliceSize, signal })) {
    const { events, stop } = await decodeSlice(slice.filter(({ position }) => position <= goal));
    for (const event of events) {
      for (const projection of projections) projection.apply(event, rows);
      if (isDue()) await yieldIfDue();
    }
    const last = events.at(-1);
    if (last) [checkpoint.position, checkpoint.event_id] = [last.position, last.id];
    folded += events.length;
    if (sorted.bytes > memoryBytes) return undefined;
    onProgress?.(Math.floor(FOLD * folded));
    // An event of a newer schema: the follower continues up to it, and halts.
    if (stop || slice.at(-1)!.position >= goal) break;
  }
  for (const _ of rows.finish()) await yieldIfDue();
  return sorted.bytes > memoryBytes ? undefined : { checkpoint, events: folded };
}
