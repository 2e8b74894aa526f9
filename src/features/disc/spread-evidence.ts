import { type IdentityEvent, isOfAction, signOf } from '../../../projections/identity-events.js';
import {
  type ActionEntry,
  type Cell,
  type DayEntry,
  type Spread,
  LEVELS,
  cellsOf,
  earlierAt,
  entriesOf,
  metricPart,
  metricsOf,
  partsOf,
  PERIOD_DIGITS,
  slotOf,
  slotsAt,
  timeOfDay,
  totalOf,
  totalPart,
  totalsOf,
} from '../../../projections/evidence-rows.js';
import type { Position } from '../../kernel/event.js';
import { positionOf } from '../../kernel/positions.js';
import { yieldIfDue } from '../../kernel/turn.js';
import { type Evidence, STRIDE, addToDays, dayOf, isEmpty } from '../../scoring/evidence.js';
import { CRITICALITIES, MODEL } from '../../scoring/model.js';
import type { RangeRow } from '../../stores/ports/read-models.js';
import { PAGE, type RowPages } from './row-pages.js';

/** Single rows, each looked for in its own range, in one read: about a millisecond's work. */
const LOOK_UPS = 64;
/** Metrics read in parallel. The fewer rows each has, the more rows of each fit into one read. */
const METRICS_AT_ONCE = 16;

/** A large identity as of a position, not before its evidence was spread. */
export interface SpreadIdentity {
  tris_id: string;
  spread: Spread;
  position: Position;
  /** ms: events that occurred later do not count. Absent if there are none. */
  as_of?: number;
  /** Events before the evidence was spread, which only the cells of metrics and totals include. */
  firstEvents(): Promise<IdentityEvent[]>;
}

/** A cell as stored, which `asOf` may replace by an earlier version. */
export interface StoredCell {
  key: string;
  sort: string;
  cell: Cell;
}

/**
 * Reads the evidence of a large identity, which is spread over rows, as of a position. It takes several reads, and
 * events may be applied between them: what was changed after the position is restored.
 */
export class SpreadEvidence {
  constructor(
    private readonly rows: RowPages,
    private readonly identity: SpreadIdentity,
  ) {}

  /** By category, flags apart: all that the model's own lens needs. */
  totals(): Promise<Evidence> {
    return this.read([totalsOf(this.identity.tris_id)]);
  }

  /** The evidence of these metrics, of which some may be named twice; metrics without evidence are absent. */
  async ofMetrics(metrics: readonly string[]): Promise<Evidence> {
    const names = [...new Set(metrics)];
    if (names.length === 0) return {};
    const lists = names.map((metric) => cellsOf(this.identity.tris_id, metric));
    return this.read(lists, names);
  }

  /** At most `limit` names of metrics, including those added after the position. */
  async metrics(limit: number): Promise<string[]> {
    const names: string[] = [];
    for await (const rows of this.rows.of(metricsOf(this.identity.tris_id), { page: Math.min(PAGE, limit) })) {
      for (const { sort } of rows) names.push(sort);
      if (names.length >= limit) break;
    }
    return names.slice(0, limit);
  }

  /** @param metrics that the lists are of; undefined: totals, whose names are in the sort keys of their cells */
  private async read(lists: readonly { view: string; key: string }[], metrics?: readonly string[]): Promise<Evidence> {
    const { as_of } = this.identity;
    const evidence: Evidence = {};
    const end = as_of === undefined ? Infinity : dayOf(as_of);
    for (let from = 0; from < lists.length; from += METRICS_AT_ONCE) {
      let open = lists
        .slice(from, from + METRICS_AT_ONCE)
        .map((list, i) => ({ list, metric: metrics?.[from + i], after: undefined as string | undefined }));
      while (open.length > 0) {
        const limit = Math.ceil(PAGE / open.length);
        const results = await this.rows.read(open.map(({ list, after }) => ({ range: { ...list, after, limit } })));
        const read: (StoredCell & { name: string })[] = [];
        open = open.filter((each, i) => {
          const rows = results[i] as RangeRow[];
          for (const { sort, value } of rows) {
            const name = each.metric ?? sort.slice(0, -PERIOD_DIGITS - 1);
            read.push({ key: each.list.key, sort, name, cell: value as Cell });
          }
          each.after = rows.at(-1)?.sort;
          return rows.length === limit;
        });
        await this.asOf(read);
        for (const { name, cell } of read) {
          addSlots(evidence, name, cell.slots, end);
          if (this.rows.isDue()) await yieldIfDue();
        }
      }
    }
    if (as_of !== undefined) await this.addLastDay(evidence, metrics, as_of);
    return evidence;
  }

  /** Adds the actions of the day of `as_of` up to that time, which the cells do not show. */
  private async addLastDay(evidence: Evidence, metrics: readonly string[] | undefined, as_of: number): Promise<void> {
    const add = (name: string, criticality: number, actions: number) => {
      const { days } = (evidence[name] ??= { last: 0, days: [] });
      addToDays(days, dayOf(as_of), criticality, actions);
    };
    const asked = metrics && new Set(metrics);
    const addOne = (metric: string, criticality: number, sign: 1 | -1) => {
      if (!asked) add(totalOf(metric), criticality, sign);
      else if (asked.has(metric)) add(metric, criticality, sign);
    };
    const parts = metrics ? metrics.map(metricPart) : TOTALS.map(totalPart);
    const prefix = metrics ? metricPart('') : totalPart('');
    const { entries, cells } = await this.partOfDay<ActionEntry>(as_of, parts, isAction);
    for (const entry of entries) addOne(entry[0], entry[1], entry[2] ?? 1);
    for (const { sort, cell, until } of cells) {
      const name = sort.slice(prefix.length);
      for (let at = 0; at < cell.slots.length && cell.slots[at]! < until; at += STRIDE) {
        for (const criticality of CRITICALITIES.keys()) {
          const actions = cell.slots[at + 1 + criticality]!;
          if (actions !== 0) add(name, criticality, actions);
        }
      }
    }
    for (const event of await this.identity.firstEvents()) {
      const { occurred_at } = event;
      if (!isOfAction(event) || dayOf(occurred_at) !== dayOf(as_of) || occurred_at > as_of) continue;
      addOne(event.data.metric, CRITICALITIES.indexOf(event.data.criticality), signOf(event));
    }
    for (const [name, { days }] of Object.entries(evidence)) if (days.length === 0) delete evidence[name];
  }

  /**
   * The events of a day up to a time within it, except those before the evidence was spread: single entries, and cells
   * of which only the slots below `until` count.
   * @param parts names of the cells, or the prefix of their names
   */
  async partOfDay<E extends DayEntry>(
    time: number,
    parts: readonly string[] | string,
    isWanted: (entry: DayEntry) => entry is E,
  ) {
    const { tris_id, spread, position } = this.identity;
    const entries: E[] = [];
    const cells: (StoredCell & { until: number })[] = [];
    const last = timeOfDay(time);
    // Rows are in the order of occurrence.
    const isIn = ({ sort }: RangeRow) => sort.slice(0, last.length) <= last;
    for (let level = 0; level < LEVELS; level++) {
      for await (const rows of this.rows.of(entriesOf(tris_id, level, time), { isIn })) {
        for (const { sort, value } of rows) {
          const entry = value as DayEntry;
          if (isWanted(entry) && positionOf(sort.slice(last.length + 1)) <= position) entries.push(entry);
        }
      }
      if (!spread.divided) break;
      const list = partsOf(tris_id, level, time);
      // The parts of the last level are single milliseconds.
      const until = slotOf(level, time) + (level === LEVELS - 1 ? 1 : 0);
      const found = await this.cellsNamed(list, parts);
      if (found.length === 0) break;
      for (const each of found) cells.push({ ...each, until });
    }
    await this.asOf(cells);
    return { entries, cells };
  }

  private async cellsNamed(
    list: { view: string; key: string },
    names: readonly string[] | string,
  ): Promise<StoredCell[]> {
    const found: StoredCell[] = [];
    const take = (sort: string, value: unknown) => found.push({ key: list.key, sort, cell: value as Cell });
    if (typeof names === 'string') {
      const isIn = ({ sort }: RangeRow) => sort.startsWith(names);
      for await (const rows of this.rows.of(list, { after: names, isIn })) {
        for (const { sort, value } of rows) take(sort, value);
      }
      return found;
    }
    for (let from = 0; from < names.length; from += PAGE) {
      const some = names.slice(from, from + PAGE);
      const queries = some.map((sort) => ({ get: { ...list, sort } }));
      const results = await this.rows.read(queries);
      for (const [i, sort] of some.entries()) if (results[i] !== undefined) take(sort, results[i]);
    }
    return found;
  }

  /** Restores cells that were changed after the position to their content at the position. */
  async asOf(cells: readonly StoredCell[]): Promise<void> {
    const { position } = this.identity;
    const changed = cells.filter(({ cell }) => cell.changed > position);
    const older = changed.filter(({ cell }) => cell.since !== undefined && cell.since > position);
    for (let from = 0; from < older.length; from += LOOK_UPS) {
      const some = older.slice(from, from + LOOK_UPS);
      const queries = some.map((each) => ({ range: earlierAt(each, position) }));
      const results = await this.rows.read(queries);
      for (const [i, each] of some.entries()) each.cell = (results[i] as RangeRow[])[0]!.value as Cell;
    }
    for (const each of changed) {
      each.cell = { ...each.cell, slots: slotsAt(each.cell, position) };
      if (this.rows.isDue()) await yieldIfDue();
    }
  }
}

const TOTALS = MODEL.categories.flatMap((category) => [`${category}_action`, `${category}_flags`].map(totalOf));

function isAction(entry: DayEntry): entry is ActionEntry {
  return typeof entry[0] === 'string';
}

/** Adds those days of a cell that are before `end`. */
function addSlots(evidence: Evidence, name: string, slots: readonly number[], end: number): void {
  for (let at = 0; at < slots.length && slots[at]! < end; at += STRIDE) {
    if (isEmpty(slots, at)) continue;
    const { days } = (evidence[name] ??= { last: 0, days: [] });
    for (let i = at; i < at + STRIDE; i++) days.push(slots[i]!);
  }
}
