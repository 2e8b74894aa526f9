import { Inject, Injectable } from '@nestjs/common';
import { actionRow } from '../../../projections/actions.js';
import { type DeadLetterRow, deadLetterRow } from '../../../projections/dead-letters.js';
import { LOG_TREE, LogTreeReader, type LogTreeState } from '../../../projections/log-tree.js';
import { SignedCheckpoints, checkpointIn } from '../../credentials/log-key.js';
import type { Position } from '../../kernel/event.js';
import { TILE_WIDTH, base64Of, consistencyPath, entryOf, inclusionPath, rootOf } from '../../kernel/merkle.js';
import { formatPosition, parsePosition } from '../../kernel/positions.js';
import { Problem, fieldProblem } from '../../kernel/problems.js';
import { mapInParts } from '../../kernel/turn.js';
import { Views } from '../../read-side/views.js';
import { EVENT_STORE, type EventStore } from '../../stores/ports/event-store.js';
import type { RangeRow } from '../../stores/ports/read-models.js';
import type { ConsistencyDto, InclusionDto } from './audit.dto.js';

const NO_TREE: LogTreeState = { size: 0, peaks: [], leaves: [], positions: [] };

/** Tiles and proofs of the tree of the log, as far as the read models have applied it. */
@Injectable()
export class LogProofs {
  constructor(
    private readonly views: Views,
    private readonly signed: SignedCheckpoints,
    @Inject(EVENT_STORE) private readonly store: EventStore,
  ) {}

  /** The newest signed checkpoint (C2SP tlog-checkpoint). @throws Problem not_found */
  async checkpoint(): Promise<string> {
    const note = await this.signed.note();
    if (note === undefined) throw new Problem('not_found', 'No checkpoint of the log was signed yet.');
    return note;
  }

  /**
   * The first hashes of a tile (C2SP tlog-tiles), one after the other.
   * @param width of a partial tile, from 1 to 255; of a full one 256
   * @throws Problem not_found, projection_rebuilding
   */
  async tile(level: number, tile: number, width: number): Promise<Buffer> {
    const { hashes } = await this.tileOf(level, tile, width);
    return Buffer.concat(hashes.map((hash) => Buffer.from(hash, 'base64url')));
  }

  /** The entries of a tile of leaves, each after its length in two bytes. @throws Problem as `tile`, history_unreadable */
  async entries(tile: number, width: number): Promise<Buffer> {
    const { positions } = await this.tileOf(0, tile, width);
    const entries = await mapInParts(positions, async (position) => {
      const event = await this.store.readAt(position);
      if (!event || event.damage) {
        const where = formatPosition(this.views.logId, position);
        const what = event ? 'damaged' : 'no longer in the log';
        throw new Problem('history_unreadable', `The event at ${where}, which has a leaf, is ${what}.`);
      }
      const entry = Buffer.from(`00${entryOf(event)}`);
      entry.writeUInt16BE(entry.length - 2);
      return entry;
    });
    return Buffer.concat(entries);
  }

  private async tileOf(level: number, tile: number, width: number) {
    const { size, reader } = await this.tree();
    const present = Math.max(0, Math.floor(size / TILE_WIDTH ** level) - tile * TILE_WIDTH);
    if (present < width) {
      const has = `has ${Math.min(present, TILE_WIDTH)} of the ${width} hashes of this tile`;
      throw new Problem('not_found', `The tree of the log, with ${size} leaves, ${has}.`);
    }
    const { hashes, positions } = await reader.tile(level, tile);
    return { hashes: hashes.slice(0, width), positions: positions.slice(0, width) };
  }

  /** @throws Problem validation_failed, position_unknown, event_id_unknown, not_found, projection_behind, projection_rebuilding */
  async inclusion(event: { position?: string; event_id?: string }, of?: number): Promise<InclusionDto> {
    const position = await this.positionOf(event);
    const { size, incomplete, reader } = await this.tree();
    const index = (await reader.sizeAt(position)) - 1;
    if (incomplete !== undefined && position >= incomplete) {
      const where = formatPosition(this.views.logId, incomplete);
      throw new Problem('not_found', `The tree of the log ends before the damaged event at ${where}.`);
    }
    const within = sizeOf('size', of, { least: index + 1, most: size, all: size });
    const proof = await inclusionPath(index, within, reader.hash);
    return {
      position: formatPosition(this.views.logId, position),
      index,
      size: within,
      root: base64Of(await rootOf(within, reader.hash)),
      leaf: base64Of(await reader.hash(0, index)),
      proof: proof.map(base64Of),
      tlog_proof: await this.proofFile(index, size, reader),
    };
  }

  /** C2SP tlog-proof; null if the newest signed checkpoint does not include the event, or is not one of this tree. */
  private async proofFile(index: number, most: number, { hash }: LogTreeReader): Promise<string | null> {
    const note = await this.signed.note();
    const { size, root } = note === undefined ? { size: 0 } : checkpointIn(note);
    if (index >= size || size > most || base64Of(await rootOf(size, hash)) !== root) return null;
    const proof = await inclusionPath(index, size, hash);
    return ['c2sp.org/tlog-proof@v1', `index ${index}`, ...proof.map(base64Of), '', note].join('\n');
  }

  /** @throws Problem validation_failed, projection_rebuilding */
  async consistency(from: number, to?: number): Promise<ConsistencyDto> {
    const { size, reader } = await this.tree();
    const newer = sizeOf('to', to, { least: 1, most: size, all: size });
    const older = sizeOf('from', from, { least: 1, most: newer, all: size });
    const proof = await consistencyPath(older, newer, reader.hash);
    return {
      from: older,
      to: newer,
      from_root: base64Of(await rootOf(older, reader.hash)),
      to_root: base64Of(await rootOf(newer, reader.hash)),
      proof: proof.map(base64Of),
    };
  }

  private async tree() {
    const { results, position } = await this.views.read([{ get: LOG_TREE }]);
    const state = (results[0] as LogTreeState | undefined) ?? NO_TREE;
    // Every generation has the same rows.
    const reader = new LogTreeReader(
      state,
      async (range) => (await this.views.readSince(position, [{ range }])).results[0] as RangeRow[],
    );
    return { size: state.size, incomplete: state.incomplete, reader };
  }

  private async positionOf({ position: wire, event_id }: { position?: string; event_id?: string }): Promise<Position> {
    if ((wire === undefined) === (event_id === undefined)) throw refused('?position', 'give position or event_id');
    const position =
      event_id === undefined ? parsePosition(wire!, this.views.logId) : await this.positionById(event_id);
    if (!position || !(await this.views.has(position))) {
      const form = `${this.views.logId}.<number>`;
      throw new Problem('position_unknown', `position must be that of an event of this log: ${form}.`);
    }
    // Also if it is that of a row: the tree can be of another generation.
    await this.views.requirePosition(position, 'The read models have not reached this position yet.');
    return position;
  }

  /** @throws Problem event_id_unknown */
  private async positionById(id: string): Promise<Position> {
    const find = async () => {
      const { results } = await this.views.read([{ get: actionRow(id) }, { get: deadLetterRow(id) }]);
      const [action, letter] = results as [Position | undefined, DeadLetterRow | undefined];
      return action ?? letter?.position;
    };
    const found = await this.views.lookUp(find, (position) => position !== undefined);
    if (found !== undefined) return found;
    const detail = `${id} is neither an action nor a dead letter; name the event by its position.`;
    throw new Problem('event_id_unknown', detail);
  }
}

/** @param all the number of events in the whole tree */
function sizeOf(
  name: string,
  asked: number | undefined,
  { least, most, all }: { least: number; most: number; all: number },
): number {
  const size = asked ?? most;
  if (size >= least && size <= most) return size;
  throw refused(`?${name}`, `${name} must be from ${least} to ${most}; the tree has ${all} events`);
}

const refused = (pointer: string, message: string): Problem => fieldProblem(pointer, 'no_such_tree', message);
