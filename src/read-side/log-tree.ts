import { LOG_TREE, LogTreeReader, type LogTreeState } from '../../projections/log-tree.js';
import type { Position } from '../kernel/event.js';
import { base64Of, rootOf } from '../kernel/merkle.js';
import type { RangeRow, ReadModels } from '../stores/ports/read-models.js';
import type { Views } from './views.js';

/** Reads the tree of the log as of a state. */
export function logTreeOf(views: Views, state: LogTreeState): LogTreeReader {
  return new LogTreeReader(state, (range) => views.range(range));
}

/**
 * Size and root, base64, of the tree over the events up to a position. Undefined while the tree is built, and from a
 * damaged event on.
 */
export async function treeAt(views: Views, position: Position): Promise<{ size: number; root: string } | undefined> {
  const read = await views.readIfServed([{ get: LOG_TREE }]);
  const state = read?.results[0] as LogTreeState | undefined;
  if (!state || read!.position < position || (state.incomplete ?? Infinity) <= position) return undefined;
  const tree = logTreeOf(views, state);
  const size = await tree.sizeAt(position);
  return { size, root: base64Of(await rootOf(size, tree.hash)) };
}

/** The tree of a generation: how many events it has at what it has applied, and at positions before. Undefined as `treeAt`. */
export async function treeIn(
  generation: string,
  readModels: ReadModels,
  log: string,
): Promise<{ position: Position; size: number; sizeAt(position: Position): Promise<number> } | undefined> {
  const read = await readModels.read(generation, [{ get: LOG_TREE }]);
  const state = read?.results[0] as LogTreeState | undefined;
  const isSound = read?.status === 'ready' && read.checkpoint.log === log && state?.incomplete === undefined;
  if (!isSound || !state) return undefined;
  const reader = new LogTreeReader(
    state,
    async (range) => ((await readModels.read(generation, [{ range }]))?.results[0] ?? []) as RangeRow[],
  );
  return { position: read.checkpoint.position, size: state.size, sizeAt: (position) => reader.sizeAt(position) };
}
