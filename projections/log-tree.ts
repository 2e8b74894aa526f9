import { CHECKPOINTS_STREAM } from '../src/features/checkpoints/domain/checkpoints.js';
import { sortByPosition } from '../src/kernel/positions.js';
import { HASH_LENGTH, TILE_WIDTH, addLeaf } from '../src/kernel/merkle.js';
import type { RangeRow, RowRange } from '../src/stores/ports/read-models.js';
import type { EventOf } from './events.js';
import { type Projection, rowIn, rowAt } from './projection.js';

/**
 * The Merkle tree of the log (`src/kernel/merkle.ts`), whose leaves are all events of the service in their order. Rows of
 * hashes are written once: the newest leaves are in the state until their row is full.
 */

/** Leaves in a row: their hashes take 688 characters. */
const ROW_WIDTH = 16;

export interface LogTreeState {
  /** The number of leaves. */
  size: number;
  /** See `addLeaf`. */
  peaks: string[];
  /** The leaves that have no row yet, and the positions of their events. */
  leaves: string[];
  positions: number[];
  /** The position of the first event that is damaged, and has no leaf: the tree ends before it. */
  incomplete?: number;
  /** The number of events of the stream of checkpoints, what its last origin is, and the newest checkpoint of that. */
  checkpoints?: {
    events: number;
    origin?: EventOf<'LogOriginBegun'>['data'];
    newest?: EventOf<'LogCheckpointed'>['data'];
  };
}

/** A row of a tile: some of its hashes, one after the other, each of 43 characters. */
export interface HashesRow {
  hashes: string;
  /** Of leaves: the position of the first event, and for each further one how much it is beyond the one before. */
  positions?: number[];
}

export const LOG_TREE = { view: 'log_tree', key: 'state' };

/** The hashes of a tile (C2SP tlog-tiles) in rows, by the place of their first hash in the tile. */
export const tileRows = (level: number, tile: number) => ({ view: 'log_tree.tiles', key: `${level}/${tile}` });

/** By the position of the first event of a full or partial tile of level 0: the number of the tile. */
export const TILES_BY_POSITION = { view: 'log_tree.positions', key: 'all' };

export const logTree: Projection = {
  name: 'log_tree',
  version: 2,
  views: ['log_tree', 'log_tree.tiles', 'log_tree.positions'],
  isApart: true,

  reads: () => [LOG_TREE],

  apply(event, rows) {
    const { position } = event;
    const state = rows.get<LogTreeState>(LOG_TREE) ?? { size: 0, peaks: [], leaves: [], positions: [] };
    if (state.incomplete !== undefined) return;
    rows.put(LOG_TREE, state);
    if (event.stream === CHECKPOINTS_STREAM) {
      state.checkpoints = { ...state.checkpoints, events: (state.checkpoints?.events ?? 0) + 1 };
      if (event.type === 'LogOriginBegun') Object.assign(state.checkpoints, { origin: event.data, newest: undefined });
      if (event.type === 'LogCheckpointed') state.checkpoints.newest = event.data;
    }
    const leaf = event.leaf?.();
    if (leaf === undefined) {
      state.incomplete = position;
      return;
    }
    const insert = (level: number, index: number, row: HashesRow) => {
      const sort = String(index % TILE_WIDTH).padStart(3, '0');
      rows.insert(rowIn(tileRows(level, Math.floor(index / TILE_WIDTH)), sort), row);
    };
    const { leaves, positions, peaks } = state;
    const index = state.size++;
    if (index % TILE_WIDTH === 0) rows.insert(rowAt(TILES_BY_POSITION, position), index / TILE_WIDTH);
    leaves.push(leaf);
    positions.push(position);
    if (leaves.length === ROW_WIDTH) {
      const steps = positions.map((each, i) => each - (positions[i - 1] ?? 0));
      insert(0, index + 1 - ROW_WIDTH, { hashes: leaves.join(''), positions: steps });
      leaves.length = positions.length = 0;
    }
    addLeaf(peaks, index, leaf, (width, root) => {
      const level = Math.log2(width) / Math.log2(TILE_WIDTH);
      if (Number.isInteger(level)) insert(level, state.size / width - 1, { hashes: root });
    });
  },
};

/** Reads the tree as of a state, from rows of the same generation that may have more leaves by now. */
export class LogTreeReader {
  private readonly tiles = new Map<string, Promise<{ hashes: string[]; positions: number[] }>>();

  constructor(
    private readonly state: LogTreeState,
    private readonly readRange: (range: RowRange) => Promise<RangeRow[]>,
  ) {}

  /** The hashes of a tile, and of level 0 also the positions of its events. Beyond the state there may be more. */
  tile(level: number, tile: number): Promise<{ hashes: string[]; positions: number[] }> {
    const { key, view } = tileRows(level, tile);
    let read = this.tiles.get(key);
    if (!read) this.tiles.set(key, (read = this.readTile(level, tile, { view, key, limit: TILE_WIDTH })));
    return read;
  }

  /** @see HashReader */
  readonly hash = async (level: number, index: number): Promise<string> =>
    (await this.tile(level, Math.floor(index / TILE_WIDTH))).hashes[index % TILE_WIDTH]!;

  /** The number of leaves of events up to a position. */
  async sizeAt(position: number): Promise<number> {
    const beyond = sortByPosition(position + 1);
    const [found] = await this.readRange({ ...TILES_BY_POSITION, after: beyond, reverse: true, limit: 1 });
    if (!found) return 0;
    const { positions } = await this.tile(0, found.value as number);
    const before = (found.value as number) * TILE_WIDTH;
    return Math.min(before + positions.filter((each) => each <= position).length, this.state.size);
  }

  private async readTile(level: number, tile: number, range: RowRange) {
    const [hashes, positions]: [string[], number[]] = [[], []];
    for (const { value } of await this.readRange(range)) {
      const { hashes: text, positions: steps = [] } = value as HashesRow;
      for (let at = 0; at < text.length; at += HASH_LENGTH) hashes.push(text.slice(at, at + HASH_LENGTH));
      for (const [n, step] of steps.entries()) positions.push(step + (n > 0 ? positions.at(-1)! : 0));
    }
    const newest = this.state.size - this.state.leaves.length - tile * TILE_WIDTH;
    // Unless they have got a row meanwhile.
    if (level === 0 && hashes.length === newest) {
      hashes.push(...this.state.leaves);
      positions.push(...this.state.positions);
    }
    return { hashes, positions };
  }
}
