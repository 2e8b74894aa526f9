import { LOG_TREE, LogTreeReader, type LogTreeState } from '../../projections/log-tree.js';
import type { Position } from '../kernel/event.js';
import { base64Of, rootOf } from '../kernel/merkle.js';
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
