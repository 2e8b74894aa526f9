import { LOG_TREE, LogTreeReader, type LogTreeState } from '../../projections/log-tree.js';
import type { Checkpoint } from '../credentials/log-key.js';
import { CHECKPOINTS_STREAM } from '../features/checkpoints/domain/checkpoints.js';
import type { Position } from '../kernel/event.js';
import { TILE_WIDTH, addLeaf, base64Of, leafOf, rootOf, rootOfPeaks } from '../kernel/merkle.js';
import { isDue, yieldIfDue } from '../kernel/turn.js';
import type { EventStore } from '../stores/ports/event-store.js';
import type { RangeRow, ReadModels } from '../stores/ports/read-models.js';
import type { Views } from './views.js';

/**
 * Size and root, base64, of the tree over the events up to a position. Undefined while the tree is built, and from a
 * damaged event on.
 */
export async function treeAt(views: Views, position: Position): Promise<{ size: number; root: string } | undefined> {
  const read = await views.readIfServed([{ get: LOG_TREE }]);
  const state = read?.results[0] as LogTreeState | undefined;
  if (!state || read!.position < position || (state.incomplete ?? Infinity) <= position) return undefined;
  const tree = new LogTreeReader(state, (range) => views.range(range));
  const size = await tree.sizeAt(position);
  return { size, root: base64Of(await rootOf(size, tree.hash)) };
}

/** Reads the tree of one generation as of a state. A generation that is gone has no rows. */
export function logTreeIn(generation: string, readModels: ReadModels, state: LogTreeState): LogTreeReader {
  return new LogTreeReader(state, async (range) => {
    return ((await readModels.read(generation, [{ range }]))?.results[0] ?? []) as RangeRow[];
  });
}

/** The tree of the log, computed again, beside what was kept of it: tiles, recorded checkpoints, the last signed one. */
export interface TreeCheck {
  /** Events in the tree: up to the first one that is damaged or wrong. */
  size: number;
  /** Base64. */
  root: string;
  /** The number of checkpoints that it was compared with. */
  checkpoints: number;
  /** An event after the position `after`, up to `position`, was changed, added or removed; null: none. */
  change: { after: Position; position: Position; found_by: 'tile' | 'checkpoint' | 'signed_checkpoint' } | null;
}

/** @param generation that serves the tree. @throws the reason of the signal */
export async function checkTree(
  store: EventStore,
  readModels: ReadModels,
  generation: string,
  signed: Checkpoint | undefined,
  signal: AbortSignal | undefined,
): Promise<TreeCheck> {
  const state = (await readModels.read(generation, [{ get: LOG_TREE }]))?.results[0] as LogTreeState | undefined;
  const tile = async (n: number): Promise<string[]> => {
    if (!state || n * TILE_WIDTH >= state.size) return [];
    return (await logTreeIn(generation, readModels, state).tile(0, n)).hashes;
  };
  const known = await checkpointsOf(store, signed);
  const peaks: string[] = [];
  const check: TreeCheck = { size: 0, root: '', checkpoints: 0, change: null };
  let last: Position = 0;
  /** The last position at which the tree was that of a checkpoint. */
  let matched: Position = 0;
  let leaves: string[] = [];
  walk: for await (const slice of store.readAll(0)) {
    signal?.throwIfAborted();
    for (const event of slice) {
      if (event.damage) break walk;
      const { position } = event;
      const at = check.size % TILE_WIDTH;
      if (at === 0) leaves = await tile(check.size / TILE_WIDTH);
      const leaf = leafOf(event);
      if ((leaves[at] ?? leaf) !== leaf) check.change = { after: last, position, found_by: 'tile' };
      if (check.change) break walk;
      addLeaf(peaks, check.size++, leaf);
      for (; known[check.checkpoints]?.size === check.size; check.checkpoints++) {
        const { root, found_by } = known[check.checkpoints]!;
        if (root === base64Of(rootOfPeaks(peaks))) continue;
        check.change = { after: matched, position, found_by };
        break walk;
      }
      if (known[check.checkpoints - 1]?.size === check.size) matched = position;
      last = position;
      if (isDue()) await yieldIfDue();
    }
  }
  const missing = known[check.checkpoints];
  if (!check.change && missing && missing.size > check.size + (await countEach(store, last))) {
    check.change = { after: last, position: last, found_by: missing.found_by };
  }
  check.root = base64Of(rootOfPeaks(peaks));
  return check;
}

/** The checkpoints of the last origin, by size. */
async function checkpointsOf(store: EventStore, signed: Checkpoint | undefined) {
  let found: { size: number; root: string; found_by: 'checkpoint' | 'signed_checkpoint' }[] = [];
  let origin: unknown;
  for (let from = 0, read = TILE_WIDTH; read === TILE_WIDTH; from += read) {
    const page = await store.readStream(CHECKPOINTS_STREAM, { from, limit: TILE_WIDTH });
    read = page.length;
    for (const { type, data } of page) {
      if (type === 'LogOriginBegun') [found, origin] = [[], data['origin']];
      if (type === 'LogCheckpointed') found.push({ ...(data as unknown as Checkpoint), found_by: 'checkpoint' });
    }
  }
  if (signed && signed.origin === origin) found.push({ ...signed, found_by: 'signed_checkpoint' });
  return found.sort((a, b) => a.size - b.size);
}

/** Counts the events after a position by reading each, where `EventStore.countAfter` is not exact enough. */
export async function countEach(store: EventStore, position: Position): Promise<number> {
  let count = 0;
  for await (const slice of store.readAll(position)) count += slice.length;
  return count;
}
