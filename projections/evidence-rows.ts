import { STRIDE, dayOf } from '../src/scoring/evidence.js';
import { isFlags, metricCategory } from '../src/scoring/names.js';
import { CRITICALITIES } from '../src/scoring/model.js';
import type { RowKey } from '../src/stores/ports/read-models.js';
import { packNumbers, unpackNumbers } from './packed-numbers.js';
import { keysOf, rowIn, sortByPosition } from './projection.js';

/**
 * The evidence of a large identity, in rows of bounded size, so that an event costs the same however many preceded it.
 * Actions are counted several times; a withdrawal takes one out of each, except out of the names:
 *
 * - `identities.metrics`: per metric, over all time. Earned and flagged TCT under any lens follow from these.
 * - `identities.platforms`: per platform and counterparty, over all time, flags apart.
 * - `identities.cells`: per metric and day, in one row (a cell) per period. Lenses of policies need these for values
 *   that decay.
 * - `identities.totals`: per category and day, flags apart, also in cells. The model's own lens needs these for values
 *   that decay.
 * - `identities.senders`: credonations per sender and day, in cells ordered by period.
 *
 * `identities.actions` has the actions themselves in log order, `ACTIONS_PER_ROW` in a row, as numbers only. Sums by
 * metric and platform together are computed from these: counts by metric, platform and period would take nearly as many
 * rows as there are actions if there are many metrics. `identities.names` has the metrics and platforms that the numbers
 * stand for.
 *
 * `identities.relayed` has, per organization, the number of metrics that it was the first to relay (see relayerOf).
 *
 * `identities.blocks` has the start of each block of `BLOCK` events, and the latest recording time of the events before
 * it, in ms. `identities.statements` has all events that are not actions.
 *
 * docs/read-models.md says how past states are read: `identities.earlier` keeps copies of cells; `identities.days` has
 * the entries of a day by their time of occurrence, and `identities.parts` the cells of a day that is divided.
 */

/** The address of a row of a range. */
export type Row = Required<RowKey>;

/** The state of the rows of an identity's evidence. */
export interface Spread {
  /** Position of the last event before the evidence was spread. Earlier events are in the timeline only. */
  since: number;
  /** The number of events in the present block. */
  in_block: number;
  /** Whether some of its days are divided. */
  divided?: true;
  /** How many metrics and platforms are numbered. */
  metrics: number;
  platforms: number;
  /** Position of the first action in the last row of actions, and the number of actions in that row. */
  row: number;
  in_row: number;
}

/** Number of events in a block. */
export const BLOCK = 256;
/** Number of actions, and of names, in a row. */
export const ACTIONS_PER_ROW = 96;
const NAMES_PER_ROW = 64;
/** Number of days in a cell. */
const PERIOD_DAYS = 32;
/**
 * The number of entries of one total, or of credonations of one sender, at which a day or a part of a day is divided.
 */
export const FEW_ENTRIES = 128;
/**
 * Length in ms of a day, of its parts, of their parts, and so on. A part of one level is divided into parts of the
 * next.
 */
const PARTS_MS = [86_400_000, 900_000, 10_000, 100, 1] as const;
/** Levels that can be divided; the first is that of days. */
export const LEVELS = PARTS_MS.length - 1;

/**
 * The length of the text of a cell's recent events, about 30, at which the cell is kept as an earlier one and continues
 * without them.
 */
export const RECENT = 240;

/**
 * The counts of one series in one period or one part of a day, by slot. Slots are the days of the period, or the parts
 * of the part.
 */
export interface Cell {
  /** Position of the last event counted. */
  changed: number;
  /** By slot, ascending: the slot's number, then the numbers of the series. */
  slots: number[];
  /**
   * Slots, each followed by the number of its withdrawals; only if there are any. A slot is full by all of its events:
   * relaying and withdrawing again and again would otherwise add entries to a day without end.
   */
  withdrawn?: number[];
  /**
   * The last events counted, packed (see packed-numbers.ts), `RECENT_STRIDE` numbers each: the position, the slot modulo
   * `RECENT_SLOTS` (plus `RECENT_SLOTS` for a withdrawal), and the criticality or, of a credonation, the amount.
   */
  recent: string;
  /** Position of the last event before these, if an earlier cell was kept. */
  since?: number;
  /** The endorser; only in cells of senders. In the cell of all counterparties it is `ALL_COUNTERPARTIES`. */
  from?: string;
}
/** Instead of the endorser: the cell counts what the cells of counterparties count, too. */
export const ALL_COUNTERPARTIES = '';
const RECENT_STRIDE = 3;
/** A power of two, and at least the number of slots of a cell. */
const RECENT_SLOTS = 128;

/**
 * The sums of all actions of one metric, packed (see packed-numbers.ts): the metric's number, the time of their latest
 * occurrence in ms since `EARLIEST`, and the number of actions by criticality. An explanation reads the rows of all
 * metrics, of which there may be thousands.
 */
export type PackedMetric = string;
/** How many numbers that are. */
const METRIC_NUMBERS = 2 + CRITICALITIES.length;

/** All actions of one place (see `placeOf`) after `Spread.since`, and the place's number. */
export interface PlatformRow {
  /** By criticality, then flags by criticality. */
  counts: number[];
  number: number;
}

/**
 * Actions in log order, packed (see packed-numbers.ts), `ACTION_STRIDE` numbers each: by how much the position is above
 * that of the row's first action, the time of the occurrence in ms since `EARLIEST`, the number of the metric times the
 * number of criticalities plus the criticality, and the number of the place times 3 plus the index in `ACTION_TYPES`.
 */
export type PackedActions = string;
export const ACTION_STRIDE = 4;
export const ACTION_TYPES = ['ActionRelayed', 'ActionWithdrawn', 'ActionReinstated'] as const;
/** The earliest time of a Date, so that no packed number is negative. */
export const EARLIEST = -8_640_000_000_000_000;

const ofMetric = new Float64Array(METRIC_NUMBERS);

/** The sums of a metric. @param counts gets the number of actions by criticality, from `from` on */
export function unpackMetric(
  row: PackedMetric,
  counts: number[] | Uint32Array,
  from: number,
): { number: number; last: number } {
  unpackNumbers(row, ofMetric);
  for (let c = 0; c < CRITICALITIES.length; c++) counts[from + c] = ofMetric[2 + c]!;
  return { number: ofMetric[0]!, last: ofMetric[1]! + EARLIEST };
}

export function packMetric(number: number, last: number, counts: readonly number[]): PackedMetric {
  return packNumbers([number, last - EARLIEST, ...counts]);
}

/** An action by the time it occurred; that and its position are in the row's key. */
export type ActionEntry = [metric: string, criticality: number, sign?: -1];
/** A credonation, in the same way. */
export type CredonationEntry = [amount: number, from: string, sign?: -1];
export type DayEntry = ActionEntry | CredonationEntry;

/** Numbers of a slot of a sender: its number, the number of credonations, the sum of their amounts. */
export const SENDER_STRIDE = 3;

/** The owner of a platform, and the position of the registration. */
export interface Owner {
  org: string;
  at: number;
}

export const metricsOf = keysOf('identities.metrics');

export function metricRow(trisId: string, metric: string) {
  return rowIn(metricsOf(trisId), metric);
}

/** Where an action comes from: the platform, and the counterparty if there is one. */
export function placeOf({ platform_id, counterparty }: { platform_id: string; counterparty?: string }): string {
  return counterparty === undefined ? platform_id : `${platform_id}/${counterparty}`;
}

export const platformsOf = keysOf('identities.platforms');

/** Cells of the totals of every category: `<total>/<period>`. */
export const totalsOf = keysOf('identities.totals');

/** Cells of one metric: `<period>`. */
export function cellsOf(trisId: string, metric: string) {
  return { view: 'identities.cells', key: `${trisId}/${metric}` };
}

/** Actions after `Spread.since`: `<position of the first action in the row>`. */
export const actionsOf = keysOf('identities.actions');

export type Named = 'metric' | 'platform';

/** Names by number: `<what is named>/<row>`. */
export const namesOf = keysOf('identities.names');

/** The row with the name of a number. */
export function namesRow(trisId: string, named: Named, number: number): Row {
  const row = String(Math.floor(number / NAMES_PER_ROW)).padStart(8, '0');
  return rowIn(namesOf(trisId), `${named}/${row}`);
}

/**
 * Cells of every sender of credonations: `<period>/<platform>/<registration of its owner>`, or `<period>//<counterparty>`;
 * of all counterparties together: `<period>//`.
 */
export const sendersOf = keysOf('identities.senders');

/** The number of metrics that an organization was the first to relay, after `Spread.since`. */
export function relayedRow(trisId: string, relayer: string) {
  return { view: 'identities.relayed', key: trisId, sort: relayer };
}

export const ownerRow = keysOf('identities.owners');
export const blocksOf = keysOf('identities.blocks');
export const statementsOf = keysOf('identities.statements');

/** Entries of the day, or of its part, that contains a time. */
export function entriesOf(trisId: string, level: number, ms: number) {
  return { view: 'identities.days', key: partOf(trisId, level, ms) };
}

/** Cells of the divided series in the day, or in its part, that contains a time: `<name of a series>`. */
export function partsOf(trisId: string, level: number, ms: number) {
  return { view: 'identities.parts', key: partOf(trisId, level, ms) };
}

function partOf(trisId: string, level: number, ms: number): string {
  const day = `${trisId}/${dayOf(ms)}`;
  return level === 0 ? day : `${day}/${level}/${slotOf(level - 1, ms)}`;
}

/** The slot of a time among the parts that a day, or a part of that level, is divided into. */
export function slotOf(level: number, ms: number): number {
  return Math.floor((ms - dayOf(ms) * PARTS_MS[0]) / PARTS_MS[level + 1]!);
}

/** The row that keeps a cell as it was after its last change. */
export function earlierRow({ key, sort }: Row, { changed }: Cell): Row {
  return { view: 'identities.earlier', key, sort: `${sort}/${sortByPosition(changed)}` };
}

/** The range that finds the earlier cell whose recent events are around a position; only for a position before `since`. */
export function earlierAt({ key, sort }: Pick<Row, 'key' | 'sort'>, position: number) {
  return { view: 'identities.earlier', key, after: `${sort}/${sortByPosition(position - 1)}`, limit: 1 };
}

/** The text that is added to the recent events of a cell. */
export function packRecent(position: number, slot: number, value: number, sign: 1 | -1): string {
  return packNumbers([position, (slot & (RECENT_SLOTS - 1)) + (sign < 0 ? RECENT_SLOTS : 0), value]);
}

const recentNumbers = new Float64Array(2 * RECENT);

/** How many numbers a slot of a cell has. */
export function strideOf({ from }: Pick<Cell, 'from'>): number {
  return from === undefined ? STRIDE : SENDER_STRIDE;
}

/**
 * Counts an event in the slot at this index, or takes it out.
 * @param value its criticality or, of a credonation, its amount
 */
export function countIn({ slots, from }: Pick<Cell, 'slots' | 'from'>, at: number, value: number, sign: 1 | -1): void {
  if (from === undefined) slots[at + 1 + value]! += sign;
  else {
    slots[at + 1]! += sign;
    slots[at + 2]! += sign * value;
  }
}

/** The slots of a cell without its events after a position that is not before `since`. Some may count nothing. */
export function slotsAt({ slots, recent, from }: Cell, position: number): number[] {
  const left = { slots: [...slots], from };
  const stride = strideOf(left);
  for (let i = unpackNumbers(recent, recentNumbers) - RECENT_STRIDE; i >= 0; i -= RECENT_STRIDE) {
    if (recentNumbers[i]! <= position) break;
    const slot = recentNumbers[i + 1]! % RECENT_SLOTS;
    let at = 0;
    // The slot is there: none is ever removed from a stored cell.
    while ((left.slots[at]! & (RECENT_SLOTS - 1)) !== slot) at += stride;
    countIn(left, at, recentNumbers[i + 2]!, recentNumbers[i + 1]! < RECENT_SLOTS ? -1 : 1);
  }
  return left.slots;
}

/**
 * The total that a metric's actions count in. It is named like a metric; each category has one, and another one for
 * flags.
 */
export function totalOf(metric: string): string {
  return `${metricCategory(metric)}_${isFlags(metric) ? 'flags' : 'earned'}`;
}

/** The sort key of a day's period among the cells of a metric or total; in the order of the days, also before 1970. */
export function periodOf(day: number): string {
  return String(Math.floor(day / PERIOD_DAYS) + 100_000).padStart(PERIOD_DIGITS, '0');
}

/** Characters of a `periodOf`. */
export const PERIOD_DIGITS = 6;

/** The sort key of a time of day, or of an action at that time, among the entries of its day. */
export function timeOfDay(ms: number, position?: number): string {
  const time = String(ms - dayOf(ms) * PARTS_MS[0]).padStart(8, '0');
  return position === undefined ? time : `${time}/${sortByPosition(position)}`;
}

/** Names of series among the parts of a day. */
export const totalPart = (total: string) => `total/${total}`;
export const metricPart = (metric: string) => `metric/${metric}`;
export const SENDER_PARTS = 'sender/';
