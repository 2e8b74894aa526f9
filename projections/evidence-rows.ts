import { type Evidence, STRIDE, addToDays, dayOf } from '../src/scoring/evidence.js';
import { isFlags, metricCategory } from '../src/scoring/metrics.js';
import { CRITICALITIES } from '../src/scoring/model.js';
import type { EventOf } from './events.js';
import type { IdentityEvent } from './identity-events.js';
import { type Rows, rowAt, sortByPosition } from './projection.js';
import { pack } from './timeline.js';

/**
 * The evidence of a large identity, in rows of bounded size, so that an event costs the same however many preceded it.
 * Actions are counted three times:
 *
 * - `identities.metrics`: per metric, over all time. What any lens makes of them is the TCT earned and flagged.
 * - `identities.cells`: per metric and day, in a row (a cell) per period. What lenses of policies need for what decays.
 * - `identities.totals`: per category and day, flags apart, in cells likewise. What the model's own lens needs for that.
 *
 * So that any past state can be read, the identity's events are divided into blocks, and `identities.earlier` keeps each
 * cell as it was before a block first changed it: a cell as of a position is what it was before the position's block,
 * and the events of that block. `identities.blocks` says where blocks begin, and the latest time at
 * which an event before was recorded, ms. `identities.days` has the actions of a day
 * by the time they occurred, `identities.statements` all events that are no actions.
 */

/** Where the rows of an identity's evidence stand. */
export interface Spread {
  /** Position of the last event before the evidence was spread: what precedes it is in the timeline only. */
  since: number;
  /** Position of the first event of the present block, and how many events the block has. */
  block: number;
  in_block: number;
}

/** Events of a block. */
export const BLOCK = 256;
/** Days of a cell. */
const PERIOD_DAYS = 32;

/** Actions of one metric or of one category's total in one period. */
export interface Cell {
  /** Position of the last action counted. */
  changed: number;
  /** As in `MetricEvidence`. */
  days: number[];
}

/** All actions of one metric. */
export interface MetricSums {
  /** By criticality. */
  counts: number[];
  /** Latest occurrence, ms. */
  last: number;
}

/** An action by the time it occurred; that and its position are in the row's key. */
export type DayEntry = [metric: string, criticality: number, platformId: string];

type Action = EventOf<'ActionRelayed'>;

export function metricsOf(trisId: string) {
  return { view: 'identities.metrics', key: trisId };
}

export function metricRow(trisId: string, metric: string) {
  return { ...metricsOf(trisId), sort: metric };
}

/** Cells of the totals of every category: `<total>/<period>`. */
export function totalsOf(trisId: string) {
  return { view: 'identities.totals', key: trisId };
}

/** Cells of one metric: `<period>`. */
export function cellsOf(trisId: string, metric: string) {
  return { view: 'identities.cells', key: `${trisId}/${metric}` };
}

export function blocksOf(trisId: string) {
  return { view: 'identities.blocks', key: trisId };
}

export function statementsOf(trisId: string) {
  return { view: 'identities.statements', key: trisId };
}

/** Actions of one UTC day. */
export function dayEntriesOf(trisId: string, day: number) {
  return { view: 'identities.days', key: `${trisId}/${day}` };
}

/** What a cell was after its last change before a position. */
export function earlierThan(cell: { key: string; sort: string }, position: number) {
  const after = `${cell.sort}/${sortByPosition(position)}`;
  return { view: 'identities.earlier', key: cell.key, after, reverse: true, limit: 1 };
}

/** Is the row that `earlierThan` found one of this cell? */
export function isEarlier(sort: string, cell: { sort: string }): boolean {
  return sort.startsWith(`${cell.sort}/`);
}

/** The total that a metric's actions count in: a name of a metric, of which a category has one and one of flags. */
export function totalOf(metric: string): string {
  return `${metricCategory(metric)}_${isFlags(metric) ? 'flags' : 'earned'}`;
}

/** The place of a day among the cells of a metric or total; ordered as the days are, also before 1970. */
export function periodOf(day: number): string {
  return String(Math.floor(day / PERIOD_DAYS) + 100_000).padStart(6, '0');
}

/** The place of a time of day, and of an action at that time, among the entries of its day. */
export function timeOfDay(ms: number, position?: number): string {
  const time = String(ms - dayOf(ms) * 86_400_000).padStart(8, '0');
  return position === undefined ? time : `${time}/${sortByPosition(position)}`;
}

/** Rows that an action changes. */
export function rowsToAddTo(trisId: string, { data: { metric }, occurred_at }: Action) {
  const period = periodOf(dayOf(occurred_at));
  return [
    metricRow(trisId, metric),
    { ...cellsOf(trisId, metric), sort: period },
    { ...totalsOf(trisId), sort: `${totalOf(metric)}/${period}` },
  ];
}

/** Spreads evidence that was kept in one row. @param since position of the last event in it */
export function spread(trisId: string, evidence: Evidence, since: number, rows: Rows): Spread {
  for (const [metric, { last, days }] of Object.entries(evidence)) {
    const sums: MetricSums = { counts: CRITICALITIES.map(() => 0), last };
    for (let at = 0; at < days.length; at += STRIDE) {
      const day = days[at]!;
      const period = periodOf(day);
      for (const criticality of CRITICALITIES.keys()) {
        for (let n = days[at + 1 + criticality]!; n > 0; n--) {
          sums.counts[criticality]!++;
          addTo({ ...cellsOf(trisId, metric), sort: period }, 0, since, day, criticality, rows);
          addTo({ ...totalsOf(trisId), sort: `${totalOf(metric)}/${period}` }, 0, since, day, criticality, rows);
        }
      }
    }
    rows.put(metricRow(trisId, metric), sums);
  }
  return { since, block: 0, in_block: BLOCK };
}

/**
 * Adds an event to the rows of an identity's evidence, and moves `state` on.
 * @param recorded latest recording among the events before it, ms
 */
export function addToRows(trisId: string, state: Spread, event: IdentityEvent, recorded: number, rows: Rows): void {
  const { position, occurred_at } = event;
  if (state.in_block === BLOCK) {
    state.block = position;
    state.in_block = 0;
    rows.insert(rowAt(blocksOf(trisId), position), recorded);
  }
  state.in_block++;
  if (event.type !== 'ActionRelayed') {
    rows.insert(rowAt(statementsOf(trisId), position), pack(event));
    return;
  }
  const { metric, platform_id } = event.data;
  const criticality = CRITICALITIES.indexOf(event.data.criticality);
  const day = dayOf(occurred_at);
  const [sumsRow, cell, total] = rowsToAddTo(trisId, event) as [Row, Row, Row];
  const sums = rows.find<MetricSums>(sumsRow) ?? { counts: CRITICALITIES.map(() => 0), last: occurred_at };
  sums.counts[criticality]!++;
  sums.last = Math.max(sums.last, occurred_at);
  rows.put(sumsRow, sums);
  addTo(cell, state.block, position, day, criticality, rows);
  addTo(total, state.block, position, day, criticality, rows);
  const entry: DayEntry = [metric, criticality, platform_id];
  rows.insert({ ...dayEntriesOf(trisId, day), sort: timeOfDay(occurred_at, position) }, entry);
}

interface Row {
  view: string;
  key: string;
  sort: string;
}

/** @param block position at which the present block begins: a cell that it has not changed yet is kept as it was */
function addTo(row: Row, block: number, position: number, day: number, criticality: number, rows: Rows): void {
  const cell = rows.find<Cell>(row) ?? { changed: block, days: [] };
  if (cell.changed < block) {
    const sort = `${row.sort}/${sortByPosition(cell.changed)}`;
    rows.insert({ view: 'identities.earlier', key: row.key, sort }, cell);
  }
  addToDays(cell.days, day, criticality);
  cell.changed = position;
  rows.put(row, cell);
}
