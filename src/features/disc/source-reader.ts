import { type CredonationRow, credonationsOf } from '../../../projections/credonations.js';
import {
  ACTION_STRIDE,
  ACTIONS_PER_ROW,
  type Cell,
  type CredonationEntry,
  type DayEntry,
  EARLIEST,
  type MetricRow,
  type MetricSums,
  type Named,
  type PackedActions,
  type PlatformRow,
  SENDER_PARTS,
  SENDER_STRIDE,
  actionsOf,
  blocksOf,
  metricsOf,
  namesOf,
  periodOf,
  platformsOf,
  sendersOf,
} from '../../../projections/evidence-rows.js';
import { identityRow, type IdentityRow } from '../../../projections/identities.js';
import { unpackNumbers } from '../../../projections/packed-numbers.js';
import { sortByPosition } from '../../../projections/projection.js';
import { timelineOf } from '../../../projections/timeline.js';
import type { Position } from '../../kernel/event.js';
import type { Views } from '../../read-side/views.js';
import { dayOf } from '../../scoring/evidence.js';
import { type Lens, tctOf } from '../../scoring/lens.js';
import { isFlags } from '../../scoring/metrics.js';
import { CRITICALITIES } from '../../scoring/model.js';
import type { RangeRow } from '../../stores/ports/read-models.js';
import type { EvidenceReader, SpreadIdentity, StoredCell } from './evidence-reader.js';
import type { PlatformShares } from './platform-shares.js';

export type CountCredonations = (from: string, credonations: number, amount: number) => void;

/** Reads from which platforms a large identity's actions came, and who endorsed it for them. */
export class SourceReader {
  constructor(
    private readonly views: Pick<Views, 'readSince'>,
    private readonly evidence: EvidenceReader,
  ) {}

  /**
   * Sums the actions up to the identity's viewpoint by metric, and adds them to the shares of their platforms.
   * @param after ms: only actions that occurred later count
   */
  async actions(
    identity: SpreadIdentity,
    platforms: PlatformShares,
    after = -Infinity,
  ): Promise<Map<string, MetricSums>> {
    const { tris_id, position, as_of = Infinity } = identity;
    const tally = new ActionTally(
      await this.names(identity, 'metric'),
      await this.names(identity, 'platform'),
      platforms.lens,
    );
    for await (const rows of this.evidence.pages(actionsOf(tris_id), position, Infinity, undefined, ACTION_ROWS)) {
      for (const { sort, value } of rows) tally.add(Number(sort), value as PackedActions, position, after, as_of);
      if (Number(rows.at(-1)?.sort) > position) break;
    }
    const sums = tally.sums(platforms);
    for (const { type, data, occurred_at } of await this.evidence.firstEvents(identity)) {
      if (type !== 'ActionRelayed' || occurred_at <= after || occurred_at > as_of) continue;
      const criticality = CRITICALITIES.indexOf(data.criticality);
      platforms.addAction(data, criticality);
      let known = sums.get(data.metric);
      if (!known) sums.set(data.metric, (known = { counts: CRITICALITIES.map(() => 0), last: occurred_at }));
      known.counts[criticality]!++;
      known.last = Math.max(known.last, occurred_at);
    }
    return sums;
  }

  /**
   * Positions of the actions after one position that occurred up to the viewpoint's time, in log order. Each part has
   * those up to `end`; the last part ends at the viewpoint's position.
   */
  async *positions(
    { tris_id, position, as_of = Infinity }: SpreadIdentity,
    after: Position,
  ): AsyncIterable<{ found: Position[]; end: Position }> {
    const list = actionsOf(tris_id);
    const range = { ...list, after: sortByPosition(after + 1), reverse: true, limit: 1 };
    const { results } = await this.views.readSince(position, [{ range }]);
    const [row] = results[0] as RangeRow[];
    const begin = row && sortByPosition(Number(row.sort) - 1);
    const numbers = new Float64Array(ACTIONS_PER_ROW * ACTION_STRIDE);
    for await (const rows of this.evidence.pages(list, position, Infinity, begin, ACTION_ROWS)) {
      const found: Position[] = [];
      let end = after;
      for (const { sort, value } of rows) {
        const count = unpackNumbers(value as PackedActions, numbers);
        for (let at = 0; at < count && end < position; at += ACTION_STRIDE) {
          const each = Number(sort) + numbers[at]!;
          if (each <= after) continue;
          end = Math.min(each, position);
          if (each <= position && numbers[at + 1]! + EARLIEST <= as_of) found.push(each);
        }
      }
      yield { found, end };
      if (end === position) return;
    }
    yield { found: [], end: position };
  }

  private async names({ tris_id, position }: SpreadIdentity, named: Named): Promise<string[]> {
    const names: string[] = [];
    const prefix = `${named}/`;
    for await (const rows of this.evidence.pages(namesOf(tris_id), position, Infinity, prefix, NAME_ROWS)) {
      const some = rows.filter(({ sort }) => sort.startsWith(prefix));
      for (const { value } of some) names.push(...(value as string[]));
      if (some.length < rows.length) break;
    }
    return names;
  }

  /**
   * As `actions`, from the sums over all time; undefined if these are not those of the viewpoint, or if the lens needs
   * sums by metric and platform together.
   */
  async present(identity: SpreadIdentity, platforms: PlatformShares): Promise<Map<string, MetricSums> | undefined> {
    const { tris_id, as_of, position } = identity;
    if (as_of !== undefined || platforms.lens.tct_by_metric !== null) return undefined;
    if (!(await this.isLast(tris_id, position))) return undefined;
    const metrics = new Map<string, MetricSums>();
    for await (const rows of this.evidence.pages(metricsOf(tris_id), position, Infinity)) {
      for (const { sort, value } of rows) metrics.set(sort, value as unknown as MetricRow);
    }
    const found: RangeRow[] = [];
    for await (const rows of this.evidence.pages(platformsOf(tris_id), position, Infinity)) found.push(...rows);
    // Again: an event that was added meanwhile counts too.
    if (!(await this.isLast(tris_id, position))) return undefined;
    for (const { sort, value } of found) platforms.addRow(sort, value as unknown as PlatformRow);
    for (const { type, data } of await this.evidence.firstEvents(identity)) {
      if (type === 'ActionRelayed') platforms.addAction(data, CRITICALITIES.indexOf(data.criticality));
    }
    return metrics;
  }

  private async isLast(trisId: string, position: Position): Promise<boolean> {
    const { results } = await this.views.readSince(position, [{ get: identityRow(trisId) }]);
    return (results[0] as unknown as IdentityRow).changed <= position;
  }

  /**
   * All credonations up to the identity's viewpoint that occurred after one time and not after another, ms. A
   * credonation counts with its action, which precedes it in the same append: those before the identity's next event do.
   */
  async credonations(viewpoint: SpreadIdentity, after: number, as_of: number, count: CountCredonations): Promise<void> {
    const identity = { ...viewpoint, position: await this.lastCredonation(viewpoint), as_of };
    const list = credonationsOf(identity.tris_id);
    const add = async (
      begin: Position,
      end: Position,
      isCounted: (row: CredonationRow) => boolean,
      counting = count,
    ) => {
      for await (const rows of this.evidence.pages(list, identity.position, Infinity, sortByPosition(begin - 1))) {
        for (const { sort, value } of rows) {
          if (Number(sort) >= end) return;
          const row = value as unknown as CredonationRow;
          if (isCounted(row)) counting(row.from, 1, row.amount);
        }
      }
    };
    await add(0, await this.firstBlock(identity), (row) => row.occurred_at > after && row.occurred_at <= as_of);

    const [first, end] = [dayOf(after), dayOf(as_of)];
    const cells = await this.cells(identity, sendersOf(identity.tris_id), first, end);
    const block = await this.evidence.asOf(identity, cells);
    for (const { cell } of cells) countCredonations(cell, [first, end], count);
    if (block !== undefined) {
      const isInRange = (ms: number) => dayOf(ms) >= first && dayOf(ms) < end;
      await add(block, identity.position + 1, ({ occurred_at }) => isInRange(occurred_at));
    }
    for (const [time, sign] of [
      [as_of, 1],
      [after, -1],
    ] as const) {
      const part = await this.evidence.partOfDay<CredonationEntry>(identity, time, SENDER_PARTS, isCredonation);
      const signed: CountCredonations = (from, n, amount) => count(from, sign * n, sign * amount);
      for (const { entry } of part.entries) signed(entry[1], 1, entry[0]);
      for (const { cell, until } of part.cells) countCredonations(cell, [-Infinity, until], signed);
      if (part.block === undefined) continue;
      const isInPart = (ms: number) => dayOf(ms) === dayOf(time) && ms <= time;
      await add(part.block, identity.position + 1, ({ occurred_at }) => isInPart(occurred_at), signed);
    }
  }

  /** Position up to which credonations belong to a viewpoint. */
  private async lastCredonation({ tris_id, position }: SpreadIdentity): Promise<Position> {
    const range = { ...timelineOf(tris_id), after: sortByPosition(position), limit: 1 };
    const read = await this.views.readSince(position, [{ range }]);
    const [next] = read.results[0] as RangeRow[];
    return next ? Number(next.sort) - 1 : read.position;
  }

  /** Position of the first event after the evidence was spread. */
  private async firstBlock({ tris_id, position }: SpreadIdentity): Promise<Position> {
    const { results } = await this.views.readSince(position, [{ range: { ...blocksOf(tris_id), limit: 1 } }]);
    return Number((results[0] as RangeRow[])[0]!.sort);
  }

  private async cells(
    identity: SpreadIdentity,
    list: { view: string; key: string },
    first: number,
    end: number,
  ): Promise<StoredCell[]> {
    const cells: StoredCell[] = [];
    const after = first === -Infinity ? undefined : periodOf(first);
    const last = end === Infinity ? undefined : periodOf(end - 1);
    for await (const rows of this.evidence.pages(list, identity.position, Infinity, after)) {
      for (const { sort, value } of rows) {
        if (last !== undefined && sort.slice(0, PERIOD_DIGITS) > last) return cells;
        cells.push({ key: list.key, sort, cell: value as unknown as StoredCell['cell'] });
      }
    }
    return cells;
  }
}

const PERIOD_DIGITS = periodOf(0).length;
/** Rows in one read: about half a millisecond's work. */
const ACTION_ROWS = 32;
const NAME_ROWS = 64;

/** Sums actions by the numbers of their metrics and platforms. */
class ActionTally {
  /** By number of the metric times the number of criticalities, plus the criticality. */
  private readonly actions: Float64Array;
  /** TCT of one action under the lens, in the same order. */
  private readonly tct: Float64Array;
  private readonly flagged: Float64Array;
  private readonly last: Float64Array;
  private readonly numbers = new Float64Array(ACTIONS_PER_ROW * ACTION_STRIDE);
  private readonly byPlatform: { actions: Float64Array; tct: Float64Array; flagged: Float64Array };

  constructor(
    private readonly metrics: readonly string[],
    private readonly platforms: readonly string[],
    lens: Lens,
  ) {
    const kinds = metrics.length * CRITICALITIES.length;
    this.actions = new Float64Array(kinds);
    this.tct = new Float64Array(kinds);
    this.flagged = new Float64Array(kinds);
    this.last = new Float64Array(metrics.length).fill(-Infinity);
    for (const [number, metric] of metrics.entries()) {
      const tct = isFlags(metric) ? this.flagged : this.tct;
      for (const criticality of CRITICALITIES.keys()) {
        tct[number * CRITICALITIES.length + criticality] = tctOf(lens, metric, criticality);
      }
    }
    const zeros = () => new Float64Array(platforms.length);
    this.byPlatform = { actions: zeros(), tct: zeros(), flagged: zeros() };
  }

  /** Adds those actions of a row that are not after a position and occurred after one time and not after another. */
  add(first: Position, row: PackedActions, position: Position, after: number, until: number): void {
    const { numbers } = this;
    const end = unpackNumbers(row, numbers);
    for (let at = 0; at < end && first + numbers[at]! <= position; at += ACTION_STRIDE) {
      const occurred = numbers[at + 1]! + EARLIEST;
      if (occurred <= after || occurred > until) continue;
      const kind = numbers[at + 2]!;
      const platform = numbers[at + 3]!;
      this.actions[kind]!++;
      const metric = Math.floor(kind / CRITICALITIES.length);
      if (occurred > this.last[metric]!) this.last[metric] = occurred;
      const { actions, tct, flagged } = this.byPlatform;
      actions[platform]!++;
      tct[platform]! += this.tct[kind]!;
      flagged[platform]! += this.flagged[kind]!;
    }
  }

  /** The sums by metric; those by platform are added to `platforms`. */
  sums(platforms: PlatformShares): Map<string, MetricSums> {
    const { actions, tct, flagged } = this.byPlatform;
    for (const [number, platform] of this.platforms.entries()) {
      if (actions[number]! > 0) platforms.add(platform, actions[number]!, tct[number]!, flagged[number]!);
    }
    const sums = new Map<string, MetricSums>();
    for (const [number, metric] of this.metrics.entries()) {
      if (this.last[number] === -Infinity) continue;
      const from = number * CRITICALITIES.length;
      const counts: number[] = [];
      for (let i = from; i < from + CRITICALITIES.length; i++) counts.push(this.actions[i]!);
      sums.set(metric, { counts, last: this.last[number]! });
    }
    return sums;
  }
}

function countCredonations(
  { from, slots }: Cell,
  [first, end]: readonly [number, number],
  count: CountCredonations,
): void {
  for (let at = 0; at < slots.length && slots[at]! < end; at += SENDER_STRIDE) {
    if (slots[at]! >= first) count(from!, slots[at + 1]!, slots[at + 2]!);
  }
}

function isCredonation(entry: DayEntry): entry is CredonationEntry {
  return typeof entry[0] === 'number';
}
