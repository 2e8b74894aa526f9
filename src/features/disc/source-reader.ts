import { type CredonationRow, credonationsOf } from '../../../projections/credonations.js';
import {
  type ActionEntry,
  type Cell,
  type CredonationEntry,
  type DayEntry,
  SENDER_PARTS,
  SENDER_STRIDE,
  SOURCE_PARTS,
  SOURCE_STRIDE,
  blocksOf,
  metricsOf,
  type MetricSums,
  periodOf,
  type PlatformSums,
  platformsOf,
  sendersOf,
  sourcesOf,
} from '../../../projections/evidence-rows.js';
import { identityRow, type IdentityRow } from '../../../projections/identities.js';
import { sortByPosition } from '../../../projections/projection.js';
import { timelineOf } from '../../../projections/timeline.js';
import type { Position } from '../../kernel/event.js';
import { isDue, yieldIfDue } from '../../kernel/turn.js';
import type { Views } from '../../read-side/views.js';
import { dayOf } from '../../scoring/evidence.js';
import { CRITICALITIES } from '../../scoring/model.js';
import type { RangeRow } from '../../stores/ports/read-models.js';
import { type EvidenceReader, type SpreadIdentity, type StoredCell, isAction } from './evidence-reader.js';

/** Actions of one metric on one platform. */
export interface Source {
  metric: string;
  platform_id: string;
}

/**
 * @param actions negative: counted before, and to be taken back
 * @param last latest occurrence among them, ms
 */
export type CountActions = (source: Source, criticality: number, actions: number, last: number) => void;
export type CountCredonations = (from: string, credonations: number, amount: number) => void;

/** Reads from which platforms a large identity's actions came, and who endorsed it for them. */
export class SourceReader {
  constructor(
    private readonly views: Pick<Views, 'readSince'>,
    private readonly evidence: EvidenceReader,
  ) {}

  /** All actions up to the identity's viewpoint. @param after ms: of those that occurred later */
  async actions(identity: SpreadIdentity, after: number | undefined, count: CountActions): Promise<void> {
    const { as_of } = identity;
    const [first, end] = [
      after === undefined ? -Infinity : dayOf(after),
      as_of === undefined ? Infinity : dayOf(as_of),
    ];
    const cells = await this.cells(identity, sourcesOf(identity.tris_id), first, end);
    const block = await this.evidence.asOf(identity, cells);
    for (const { sort, cell } of cells) {
      countSlots(sourceOf(sort.slice(PERIOD_DIGITS + 1)), cell.slots, [first, end], dayItself, count);
      if (isDue()) await yieldIfDue();
    }
    for (const event of await this.evidence.eventsOfBlock(identity, block)) {
      if (event.type !== 'ActionRelayed') continue;
      const day = dayOf(event.occurred_at);
      if (day >= first && day < end)
        count(event.data, CRITICALITIES.indexOf(event.data.criticality), 1, event.occurred_at);
    }
    for (const event of await this.evidence.firstEvents(identity)) {
      const { type, data, occurred_at } = event;
      if (type !== 'ActionRelayed' || occurred_at <= (after ?? -Infinity) || occurred_at > (as_of ?? Infinity))
        continue;
      count(data, CRITICALITIES.indexOf(data.criticality), 1, occurred_at);
    }
    if (as_of !== undefined) await this.actionsOfDay(identity, as_of, count);
    if (after !== undefined) {
      await this.actionsOfDay(identity, after, (source, criticality, actions, last) =>
        count(source, criticality, -actions, last),
      );
    }
  }

  /** Actions of the day of a time up to that time, but for the first events. */
  private async actionsOfDay(identity: SpreadIdentity, time: number, count: CountActions): Promise<void> {
    const part = await this.evidence.partOfDay<ActionEntry>(identity, time, SOURCE_PARTS, isAction);
    for (const { at, entry } of part.entries) count({ metric: entry[0], platform_id: entry[2] }, entry[1], 1, at);
    const day = () => dayOf(time);
    for (const { sort, cell, until } of part.cells) {
      countSlots(sourceOf(sort.slice(SOURCE_PARTS.length)), cell.slots, [-Infinity, until], day, count);
      if (isDue()) await yieldIfDue();
    }
    for (const event of await this.evidence.eventsOfBlock(identity, part.block)) {
      const { type, data, occurred_at } = event;
      if (type !== 'ActionRelayed' || dayOf(occurred_at) !== dayOf(time) || occurred_at > time) continue;
      count(data, CRITICALITIES.indexOf(data.criticality), 1, occurred_at);
    }
  }

  /**
   * The sums over all time of each metric and of each platform, and of some metrics by platform. The latter two are
   * without the first events.
   * @param places metrics, and the periods in which there are actions of them
   * @returns false if an event was added meanwhile, or before, that the viewpoint does not see: then so do the sums
   */
  async present(
    { tris_id, as_of, position }: SpreadIdentity,
    places: readonly { metric: string; period: string }[],
    on: {
      metric(metric: string, sums: MetricSums): void;
      platform(platformId: string, sums: PlatformSums): void;
      source: CountActions;
    },
  ): Promise<boolean> {
    if (as_of !== undefined || !(await this.isLast(tris_id, position))) return false;
    for await (const rows of this.evidence.pages(metricsOf(tris_id), position, Infinity)) {
      for (const { sort, value } of rows) on.metric(sort, value as unknown as MetricSums);
    }
    for await (const rows of this.evidence.pages(platformsOf(tris_id), position, Infinity)) {
      for (const { sort, value } of rows) on.platform(sort, value as PlatformSums);
    }
    for (const { metric, period } of places) {
      const prefix = `${period}/${metric}/`;
      for await (const rows of this.evidence.pages(sourcesOf(tris_id), position, Infinity, prefix, FEW)) {
        const some = rows.filter(({ sort }) => sort.startsWith(prefix));
        for (const { sort, value } of some) {
          const { slots } = value as unknown as Cell;
          countSlots(sourceOf(sort.slice(PERIOD_DIGITS + 1)), slots, [-Infinity, Infinity], dayItself, on.source);
        }
        if (some.length < rows.length) break;
      }
    }
    return true;
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
      for (const { entry } of part.entries) signed(entry[0], 1, entry[1]);
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
/** Platforms on which one metric has actions in one period, mostly. */
const FEW = 16;
const DAY_MS = 86_400_000;

/** @param range slots that count: from the first on, below the second */
function countSlots(
  source: Source,
  slots: readonly number[],
  [first, end]: readonly [number, number],
  dayOfSlot: (slot: number) => number,
  count: CountActions,
): void {
  for (let at = 0; at < slots.length && slots[at]! < end; at += SOURCE_STRIDE) {
    if (slots[at]! < first) continue;
    const last = dayOfSlot(slots[at]!) * DAY_MS + slots[at + SOURCE_STRIDE - 1]!;
    for (const criticality of CRITICALITIES.keys()) {
      const actions = slots[at + 1 + criticality]!;
      if (actions > 0) count(source, criticality, actions, last);
    }
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

function dayItself(slot: number): number {
  return slot;
}

/** Of `<metric>/<platform>`. */
function sourceOf(name: string): Source {
  const split = name.indexOf('/');
  return { metric: name.slice(0, split), platform_id: name.slice(split + 1) };
}

function isCredonation(entry: DayEntry): entry is CredonationEntry {
  return entry.length === 2;
}
