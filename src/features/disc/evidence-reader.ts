import type { IdentityEvent } from '../../../projections/identity-events.js';
import {
  type Cell,
  type DayEntry,
  type Spread,
  BLOCK,
  blocksOf,
  cellsOf,
  dayEntriesOf,
  earlierThan,
  isEarlier,
  metricsOf,
  periodOf,
  timeOfDay,
  totalOf,
  totalsOf,
} from '../../../projections/evidence-rows.js';
import { sortByPosition } from '../../../projections/projection.js';
import { timelineOf, unpack } from '../../../projections/timeline.js';
import type { Position } from '../../kernel/event.js';
import { isDue, yieldIfDue } from '../../kernel/turn.js';
import type { Views } from '../../read-side/views.js';
import { type Evidence, STRIDE, addToDays, dayOf } from '../../scoring/evidence.js';
import type { Lens } from '../../scoring/lens.js';
import { CRITICALITIES } from '../../scoring/model.js';
import type { RangeRow, RowQuery } from '../../stores/ports/read-models.js';

/** Rows, or looks for one row, of one read: about a millisecond's work. */
const PAGE = 256;
/** Metrics read side by side: the fewer rows each has, the more of them are in one read. */
const METRICS_AT_ONCE = 16;

/** A large identity as of a position, not before its evidence was spread. */
export interface SpreadIdentity {
  tris_id: string;
  spread: Spread;
  position: Position;
  /** ms: what occurred later does not count. Absent where nothing did. */
  as_of?: number;
}

/** Cells of one metric or of the totals. */
interface CellList {
  view: string;
  key: string;
  /** Undefined: the cell's name is in its sort key. */
  metric?: string;
}

interface CellAt {
  key: string;
  sort: string;
  /** Metric or total. */
  name: string;
  /** Undefined: it was changed after the position. */
  days: number[] | undefined;
}

/**
 * Reads evidence that is spread over rows, as of a position. The reads are several, between which events are applied:
 * each cell that was changed after the position is made from what it was before the position's block.
 */
export class EvidenceReader {
  constructor(private readonly views: Pick<Views, 'readSince'>) {}

  /** What a lens needs: sums by category under the model's own, else the metrics that it weighs. */
  through(identity: SpreadIdentity, lens: Lens): Promise<Evidence> {
    if (lens.tct_by_metric === null) return this.read(identity, [totalsOf(identity.tris_id)]);
    return this.ofMetrics(identity, [...lens.tct_by_metric.keys()]);
  }

  /** The evidence of these metrics; without those there is none of. */
  ofMetrics(identity: SpreadIdentity, metrics: readonly string[]): Promise<Evidence> {
    const lists = metrics.map((metric) => ({ ...cellsOf(identity.tris_id, metric), metric }));
    return this.read(identity, lists);
  }

  /** The evidence of every metric. */
  async whole(identity: SpreadIdentity): Promise<Evidence> {
    return this.ofMetrics(identity, await this.metrics(identity, Infinity));
  }

  /** Names of an identity's metrics, so many at most; also those that came later. */
  async metrics({ tris_id, position }: Pick<SpreadIdentity, 'tris_id' | 'position'>, limit: number): Promise<string[]> {
    const names: string[] = [];
    for await (const rows of this.pages(metricsOf(tris_id), position, limit)) {
      for (const { sort } of rows) names.push(sort);
    }
    return names.slice(0, limit);
  }

  private async read(identity: SpreadIdentity, lists: readonly CellList[]): Promise<Evidence> {
    const cells: CellAt[] = [];
    for (let from = 0; from < lists.length; from += METRICS_AT_ONCE) {
      let open = lists
        .slice(from, from + METRICS_AT_ONCE)
        .map((list) => ({ list, after: undefined as string | undefined }));
      while (open.length > 0) {
        const limit = Math.ceil(PAGE / open.length);
        const queries = open.map(({ list: { view, key }, after }) => ({ range: { view, key, after, limit } }));
        const { results } = await this.views.readSince(identity.position, queries);
        open = open.filter((each, i) => {
          const rows = results[i] as RangeRow[];
          for (const row of rows) cells.push(cellAt(each.list, row, identity.position));
          each.after = rows.at(-1)?.sort;
          return rows.length === limit;
        });
        await yieldIfDue();
      }
    }
    await this.restore(
      identity,
      cells.filter(({ days }) => days === undefined),
    );
    return this.upTo(identity, lists, await evidenceFrom(cells, identity.as_of));
  }

  /** Makes cells that were changed after the position what they were at it. */
  private async restore({ tris_id, spread, position }: SpreadIdentity, cells: readonly CellAt[]): Promise<void> {
    if (cells.length === 0) return;
    const block = await this.blockAt(tris_id, spread, position);
    for (let from = 0; from < cells.length; from += PAGE) {
      const some = cells.slice(from, from + PAGE);
      const { results } = await this.views.readSince(
        position,
        some.map((cell) => ({ range: earlierThan(cell, block) })),
      );
      for (const [i, cell] of some.entries()) {
        const [found] = results[i] as RangeRow[];
        cell.days = found && isEarlier(found.sort, cell) ? (found.value as unknown as Cell).days : [];
      }
      await yieldIfDue();
    }
    const byPlace = new Map(cells.map((cell) => [`${cell.name}/${cell.sort.slice(-PERIOD_DIGITS)}`, cell]));
    const range = { ...timelineOf(tris_id), after: sortByPosition(block - 1), limit: BLOCK };
    const { results } = await this.views.readSince(position, [{ range }]);
    for (const { sort, value } of results[0] as RangeRow[]) {
      if (Number(sort) > position) break;
      const event = unpack(tris_id, sort, value);
      if (event.type !== 'ActionRelayed') continue;
      const { metric } = event.data;
      const day = dayOf(event.occurred_at);
      const period = periodOf(day);
      const cell = byPlace.get(`${metric}/${period}`) ?? byPlace.get(`${totalOf(metric)}/${period}`);
      if (cell) addToDays(cell.days!, day, CRITICALITIES.indexOf(event.data.criticality));
    }
  }

  /** Where the block begins that a position is in. */
  private async blockAt(trisId: string, spread: Spread, position: Position): Promise<Position> {
    if (position >= spread.block) return spread.block;
    const range = { ...blocksOf(trisId), after: sortByPosition(position + 1), reverse: true, limit: 1 };
    const { results } = await this.views.readSince(position, [{ range }]);
    const [block] = results[0] as RangeRow[];
    return block ? Number(block.sort) : position + 1;
  }

  /** Adds the actions of the last day, which the cells were cut off before. */
  private async upTo(identity: SpreadIdentity, lists: readonly CellList[], evidence: Evidence): Promise<Evidence> {
    const { as_of } = identity;
    if (as_of === undefined) return evidence;
    const isOfTotals = lists[0]?.metric === undefined;
    const names = new Set(lists.map(({ metric }) => metric));
    for await (const actions of this.actionsOfDay(identity, as_of)) {
      for (const [metric, criticality] of actions) {
        const name = isOfTotals ? totalOf(metric) : metric;
        if (!isOfTotals && !names.has(metric)) continue;
        addToDays((evidence[name] ??= { last: 0, days: [] }).days, dayOf(as_of), criticality);
      }
    }
    return evidence;
  }

  /** Actions of the day of a time up to that time. */
  private async *actionsOfDay(
    { tris_id, spread, position }: SpreadIdentity,
    asOf: number,
  ): AsyncIterable<readonly [metric: string, criticality: number][]> {
    const day = dayOf(asOf);
    for await (const events of this.eventsUntil(tris_id, spread.since)) {
      yield events.flatMap((event): [string, number][] => {
        if (event.type !== 'ActionRelayed' || dayOf(event.occurred_at) !== day || event.occurred_at > asOf) return [];
        return [[event.data.metric, CRITICALITIES.indexOf(event.data.criticality)]];
      });
    }
    const last = timeOfDay(asOf);
    for await (const rows of this.pages(dayEntriesOf(tris_id, day), position, Infinity)) {
      // In the order in which they occurred.
      const past = rows.filter(({ sort }) => sort.slice(0, last.length) <= last);
      const known = past.filter(({ sort }) => Number(sort.slice(last.length + 1)) <= position);
      yield known
        .map(({ value }) => value as unknown as DayEntry)
        .map(([metric, criticality]) => [metric, criticality]);
      if (past.length < rows.length) return;
    }
  }

  /** An identity's events after a position and up to another, in log order. */
  async *eventsUntil(trisId: string, last: Position, after: Position = 0): AsyncIterable<IdentityEvent[]> {
    for await (const rows of this.pages(timelineOf(trisId), last, Infinity, sortByPosition(after))) {
      const known = rows.filter(({ sort }) => Number(sort) <= last);
      yield known.map(({ sort, value }) => unpack(trisId, sort, value));
      if (known.length < rows.length) return;
    }
  }

  /** Rows of a range in pages of bounded size. Other work can run between two pages. */
  async *pages(
    list: { view: string; key: string },
    position: Position,
    limit: number,
    after?: string,
  ): AsyncIterable<RangeRow[]> {
    for (let read = 0; read < limit;) {
      const query: RowQuery = { range: { ...list, after, limit: Math.min(PAGE, limit - read) } };
      const { results } = await this.views.readSince(position, [query]);
      const rows = results[0] as RangeRow[];
      yield rows;
      if (rows.length < PAGE) return;
      after = rows.at(-1)!.sort;
      read += rows.length;
      await yieldIfDue();
    }
  }
}

const PERIOD_DIGITS = periodOf(0).length;

function cellAt({ key, metric }: CellList, { sort, value }: RangeRow, position: Position): CellAt {
  const { changed, days } = value as unknown as Cell;
  const name = metric ?? sort.slice(0, -PERIOD_DIGITS - 1);
  return { key, sort, name, days: changed <= position ? days : undefined };
}

/** @param asOf without the days from this one's on */
async function evidenceFrom(cells: readonly CellAt[], asOf: number | undefined): Promise<Evidence> {
  const evidence: Evidence = {};
  const end = asOf === undefined ? Infinity : dayOf(asOf);
  for (const { name, days } of cells) {
    for (let at = 0; at < days!.length && days![at]! < end; at += STRIDE) {
      const entry = (evidence[name] ??= { last: 0, days: [] });
      for (let i = at; i < at + STRIDE; i++) entry.days.push(days![i]!);
    }
    if (isDue()) await yieldIfDue();
  }
  return evidence;
}
