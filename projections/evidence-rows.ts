import { endorserOf, relayerOf } from '../src/features/relay/domain/relay.js';
import { sortByPosition } from '../src/kernel/positions.js';
import { type Evidence, STRIDE, addToDays, dayOf } from '../src/scoring/evidence.js';
import { isFlags, metricCategory } from '../src/scoring/names.js';
import { CRITICALITIES } from '../src/scoring/model.js';
import type { RowKey } from '../src/stores/ports/read-models.js';
import type { DomainEvent, Passing } from './events.js';
import {
  type ActionEvent,
  type IdentityEvent,
  isActionChange,
  isOfAction,
  type isOnPlatform,
  signOf,
} from './identity-events.js';
import { packNumbers, unpackNumbers } from './packed-numbers.js';
import { type Rows, keysOf, rowAt, rowIn } from './projection.js';
import { pack } from './timeline.js';

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
 *
 * First come the rows and their addresses, then how an event changes them: `rowsToChange`, `spread`, `addToRows`,
 * `endorse`.
 */

/** The address of a row of a range. */
type Row = Required<RowKey>;

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
const BLOCK = 256;
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
const RECENT = 240;

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
export function unpackMetric(row: PackedMetric, counts: number[] | Uint32Array, from: number) {
  unpackNumbers(row, ofMetric);
  for (let c = 0; c < CRITICALITIES.length; c++) counts[from + c] = ofMetric[2 + c]!;
  return { number: ofMetric[0]!, last: ofMetric[1]! + EARLIEST };
}

function packMetric(number: number, last: number, counts: readonly number[]): PackedMetric {
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
export const metricRow = (trisId: string, metric: string) => rowIn(metricsOf(trisId), metric);

/** Where an action comes from: the platform, and the counterparty if there is one. */
export function placeOf({ platform_id, counterparty }: { platform_id: string; counterparty?: string }): string {
  return counterparty === undefined ? platform_id : `${platform_id}/${counterparty}`;
}

export const platformsOf = keysOf('identities.platforms');

/** Cells of the totals of every category: `<total>/<period>`. */
export const totalsOf = keysOf('identities.totals');

/** Cells of one metric: `<period>`. */
export const cellsOf = (trisId: string, metric: string) => ({ view: 'identities.cells', key: `${trisId}/${metric}` });

/** Actions after `Spread.since`: `<position of the first action in the row>`. */
export const actionsOf = keysOf('identities.actions');

export type Named = 'metric' | 'platform';

/** Names by number: `<what is named>/<row>`. */
export const namesOf = keysOf('identities.names');

/** The row with the name of a number. */
function namesRow(trisId: string, named: Named, number: number): Row {
  const row = String(Math.floor(number / NAMES_PER_ROW)).padStart(8, '0');
  return rowIn(namesOf(trisId), `${named}/${row}`);
}

/**
 * Cells of every sender of credonations: `<period>/<platform>/<registration of its owner>`, or `<period>//<counterparty>`;
 * of all counterparties together: `<period>//`.
 */
export const sendersOf = keysOf('identities.senders');

/** The number of metrics that an organization was the first to relay, after `Spread.since`. */
export const relayedRow = (trisId: string, relayer: string) =>
  rowIn({ view: 'identities.relayed', key: trisId }, relayer);

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
function earlierRow({ key, sort }: Row, { changed }: Cell): Row {
  return { view: 'identities.earlier', key, sort: `${sort}/${sortByPosition(changed)}` };
}

/** The range that finds the earlier cell whose recent events are around a position; only for a position before `since`. */
export function earlierAt({ key, sort }: Pick<Row, 'key' | 'sort'>, position: number) {
  return { view: 'identities.earlier', key, after: `${sort}/${sortByPosition(position - 1)}`, limit: 1 };
}

/** The text that is added to the recent events of a cell. */
function packRecent(position: number, slot: number, value: number, sign: 1 | -1): string {
  return packNumbers([position, (slot & (RECENT_SLOTS - 1)) + (sign < 0 ? RECENT_SLOTS : 0), value]);
}

const recentNumbers = new Float64Array(2 * RECENT);

/** How many numbers a slot of a cell has. */
function strideOf({ from }: Pick<Cell, 'from'>): number {
  return from === undefined ? STRIDE : SENDER_STRIDE;
}

/**
 * Counts an event in the slot at this index, or takes it out.
 * @param value its criticality or, of a credonation, its amount
 */
function countIn({ slots, from }: Pick<Cell, 'slots' | 'from'>, at: number, value: number, sign: 1 | -1): void {
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

/** The credonation that an event records, withdraws or reinstates, if any. @param owner the owner of its platform */
function credonationIn(event: DomainEvent, owner: Owner | undefined) {
  if (event.type !== 'CredonationRecorded' && !isActionChange(event)) return undefined;
  const { occurred_at, type } = event;
  const { platform_id, counterparty, amount } = event.data;
  // Then the action has an entry of its own.
  const beside = type !== 'CredonationRecorded';
  const from = beside ? event.data.endorser : endorserOf(event.data, owner?.org);
  if (from === undefined || amount === undefined) return undefined;
  // The registration of the platform's owner; 0: it had none. It may have got one, or another one, after the action.
  const registered = from === owner?.org ? owner.at : from === endorserOf({ platform_id }, null) ? 0 : from;
  const sign = beside ? signOf(event) : 1;
  return { occurred_at, platform_id, counterparty, amount, from, registered, sign, beside };
}

/** A series of counts over time that an event counts in. */
interface Series {
  /** Its cell of the event's period. */
  cell: Row;
  /** Its name among the cells of divided days. */
  part: string;
  /** Of a withdrawal -1. */
  sign: 1 | -1;
  /** The criticality of the event or, of a credonation, its amount. */
  value: number;
  from?: string;
}

/** The number of entries of the first one decides when a day is divided, as of those of senders. */
function seriesOf(trisId: string, event: ActionEvent): Series[] {
  const { metric, criticality } = event.data;
  const period = periodOf(dayOf(event.occurred_at));
  const total = totalOf(metric);
  const both = { sign: signOf(event), value: CRITICALITIES.indexOf(criticality) };
  return [
    { cell: rowIn(totalsOf(trisId), `${total}/${period}`), part: totalPart(total), ...both },
    { cell: rowIn(cellsOf(trisId, metric), period), part: metricPart(metric), ...both },
  ];
}

function seriesOfSenders(trisId: string, credonation: NonNullable<ReturnType<typeof credonationIn>>): Series[] {
  const { platform_id, counterparty, amount, occurred_at, sign, registered } = credonation;
  const of = (sender: string, from = credonation.from): Series => ({
    cell: rowIn(sendersOf(trisId), `${periodOf(dayOf(occurred_at))}/${sender}`),
    part: SENDER_PARTS + sender,
    sign,
    value: amount,
    from,
  });
  if (counterparty === undefined) return [of(`${platform_id}/${registered}`)];
  // A day with many counterparties is divided, too, however few credonations each sent.
  return [of('/', ALL_COUNTERPARTIES), of(`/${counterparty}`)];
}

/** Rows that an event on a platform changes. @param owner the owner of the platform */
export function rowsToChange(
  trisId: string,
  state: Spread,
  event: Passing<typeof isOnPlatform>,
  owner: Owner | undefined,
): Row[] {
  const credonation = credonationIn(event, owner);
  const series = credonation ? seriesOfSenders(trisId, credonation) : [];
  const rows: Row[] = [];
  if (isOfAction(event)) {
    const { metric, platform_id } = event.data;
    series.push(...seriesOf(trisId, event));
    rows.push(
      metricRow(trisId, metric),
      rowIn(platformsOf(trisId), placeOf(event.data)),
      relayedRow(trisId, relayerOf(platform_id, owner?.org)),
      rowAt(actionsOf(trisId), state.row),
      namesRow(trisId, 'metric', state.metrics),
      namesRow(trisId, 'platform', state.platforms),
    );
  }
  for (const { cell } of series) rows.push(cell);
  for (let level = 0; state.divided && level < LEVELS; level++) {
    for (const { part } of series) rows.push(rowIn(partsOf(trisId, level, event.occurred_at), part));
  }
  return rows;
}

/**
 * Spreads evidence that was stored in one row. That row contains no platforms and no credonations: for the events up to
 * `since`, these are in the timeline and in the view of credonations.
 * @param gone latest occurrence, ms, of each metric whose actions are all withdrawn
 * @param since position of the last event in the row
 */
export function spread(
  trisId: string,
  evidence: Evidence,
  gone: Readonly<Record<string, number>>,
  since: number,
  rows: Rows,
): Spread {
  const state: Spread = { since, in_block: BLOCK, metrics: 0, platforms: 0, row: 0, in_row: ACTIONS_PER_ROW };
  // Sorted: the order of an object's members may differ between a stored row and one that was folded just now.
  for (const metric of Object.keys({ ...evidence, ...gone }).sort()) {
    const { last, days } = evidence[metric] ?? { last: gone[metric]!, days: [] };
    const number = addName(trisId, 'metric', state.metrics++, metric, rows);
    const counts = CRITICALITIES.map(() => 0);
    for (let at = 0; at < days.length; at += STRIDE) {
      const day = days[at]!;
      const period = periodOf(day);
      const cells = [rowIn(cellsOf(trisId, metric), period), rowIn(totalsOf(trisId), `${totalOf(metric)}/${period}`)];
      for (const criticality of CRITICALITIES.keys()) {
        const actions = days[at + 1 + criticality]!;
        if (actions === 0) continue;
        counts[criticality]! += actions;
        for (const row of cells) {
          const cell = rows.find<Cell>(row) ?? { changed: since, slots: [], recent: '' };
          addToDays(cell.slots, day, criticality, actions);
          rows.put(row, cell);
        }
      }
    }
    rows.put(metricRow(trisId, metric), packMetric(number, last, counts));
  }
  return state;
}

/**
 * Adds an event to the rows of an identity's evidence, and updates `state`.
 * @param recorded latest recording time of the events before it, ms
 * @param owner the owner of the platform of an action
 */
export function addToRows(
  trisId: string,
  state: Spread,
  event: IdentityEvent,
  recorded: number,
  owner: Owner | undefined,
  rows: Rows,
): void {
  const { position, occurred_at } = event;
  if (state.in_block === BLOCK) {
    state.in_block = 0;
    rows.insert(rowAt(blocksOf(trisId), position), recorded);
  }
  state.in_block++;
  if (!isOfAction(event)) {
    rows.insert(rowAt(statementsOf(trisId), position), pack(event));
    return;
  }
  const { metric, platform_id } = event.data;
  const criticality = CRITICALITIES.indexOf(event.data.criticality);
  const sign = signOf(event);
  const sumsRow = metricRow(trisId, metric);
  const packed = rows.find<PackedMetric>(sumsRow);
  const counts = CRITICALITIES.map(() => 0);
  let sums = { number: state.metrics, last: occurred_at };
  if (packed !== undefined) sums = unpackMetric(packed, counts, 0);
  else {
    addName(trisId, 'metric', state.metrics++, metric, rows);
    const relayed = relayedRow(trisId, relayerOf(platform_id, owner?.org));
    rows.put(relayed, (rows.find<number>(relayed) ?? 0) + 1);
  }
  counts[criticality]! += sign;
  rows.put(sumsRow, packMetric(sums.number, Math.max(sums.last, occurred_at), counts));
  const place = placeOf(event.data);
  const platformRow = rowIn(platformsOf(trisId), place);
  let platform = rows.find<PlatformRow>(platformRow);
  if (!platform) {
    const number = addName(trisId, 'platform', state.platforms++, place, rows);
    platform = { number, counts: [...CRITICALITIES, ...CRITICALITIES].map(() => 0) };
  }
  platform.counts[criticality + (isFlags(metric) ? CRITICALITIES.length : 0)]! += sign;
  rows.put(platformRow, platform);
  if (state.in_row === ACTIONS_PER_ROW) {
    state.row = position;
    state.in_row = 0;
  }
  state.in_row++;
  const row = rowAt(actionsOf(trisId), state.row);
  const action: PackedActions = packNumbers([
    position - state.row,
    occurred_at - EARLIEST,
    sums.number * CRITICALITIES.length + criticality,
    platform.number * ACTION_TYPES.length + ACTION_TYPES.indexOf(event.type),
  ]);
  rows.put(row, (rows.find<PackedActions>(row) ?? '') + action);
  addToSeries(trisId, state, event, seriesOf(trisId, event), [metric, criticality], rows);
}

/** Adds a name to those of its kind. @returns its number */
function addName(trisId: string, named: Named, number: number, name: string, rows: Rows): number {
  const row = namesRow(trisId, named, number);
  rows.put(row, [...(rows.find<string[]>(row) ?? []), name]);
  return number;
}

/**
 * Adds the credonation of an event, if any, to the rows of its receiver, if the receiver is not the sender.
 * @param owner the owner of its platform
 * @returns whether `state` was changed
 */
export function endorse(trisId: string, state: Spread, event: DomainEvent, owner: Owner | undefined, rows: Rows) {
  const credonation = credonationIn(event, owner);
  if (!credonation || credonation.from === trisId) return false;
  const { from, amount, beside } = credonation;
  const wasDivided = state.divided;
  const series = seriesOfSenders(trisId, credonation);
  addToSeries(trisId, state, event, series, [amount, from], rows, beside ? '/credonation' : '');
  return state.divided !== wasDivided;
}

/**
 * Adds an event to its cells and, if its day or its part of the day has few entries, adds an entry there.
 * @param suffix of the entry's sort key
 */
function addToSeries(
  trisId: string,
  state: Spread,
  { position, occurred_at }: Pick<IdentityEvent, 'position' | 'occurred_at'>,
  series: readonly Series[],
  entry: DayEntry,
  rows: Rows,
  suffix = '',
): void {
  const entries = series.map((each) => add(each.cell, dayOf(occurred_at), each, position, rows));
  for (let level = 0, before = entries[0]!; level < LEVELS; level++) {
    if (before < FEW_ENTRIES) {
      const at = rowIn(entriesOf(trisId, level, occurred_at), timeOfDay(occurred_at, position) + suffix);
      rows.insert(at, series[0]!.sign < 0 ? [...entry, -1] : entry);
      return;
    }
    state.divided = true;
    const slot = slotOf(level, occurred_at);
    const parts = partsOf(trisId, level, occurred_at);
    before = series.map((each) => add(rowIn(parts, each.part), slot, each, position, rows))[0]!;
  }
}

/** Counts an event in a cell. @returns the number of events that its slot had before, withdrawals among them */
function add(row: Row, slot: number, series: Series, position: number, rows: Rows): number {
  const { from, value, sign } = series;
  const cell = rows.find<Cell>(row) ?? { changed: 0, slots: [], recent: '', ...(from !== undefined && { from }) };
  if (cell.recent.length >= RECENT) {
    rows.insert(earlierRow(row, cell), cell);
    cell.since = cell.changed;
    cell.recent = '';
  }
  const at = slotIn(cell.slots, slot, strideOf(cell));
  const withdrawn = cell.withdrawn ?? [];
  let i = 0;
  while (i < withdrawn.length && withdrawn[i] !== slot) i += 2;
  // Each withdrawal has taken out one of the others.
  const before = eventsIn(cell, at) + 2 * (withdrawn[i + 1] ?? 0);
  if (sign < 0) {
    withdrawn[i] = slot;
    withdrawn[i + 1] = (withdrawn[i + 1] ?? 0) + 1;
    cell.withdrawn = withdrawn;
  }
  countIn(cell, at, value, sign);
  cell.changed = position;
  cell.recent += packRecent(position, slot, value, sign);
  rows.put(row, cell);
  return before;
}

/** The number of events in the slot at this index. */
function eventsIn({ slots, from }: Cell, at: number): number {
  if (from !== undefined) return slots[at + 1]!;
  let actions = 0;
  for (let i = at + 1; i < at + STRIDE; i++) actions += slots[i]!;
  return actions;
}

/** The index of a slot among slots of `stride` numbers each; a missing slot is added. */
function slotIn(slots: number[], slot: number, stride: number): number {
  let at = slots.length;
  while (at > 0 && slots[at - stride]! > slot) at -= stride;
  if (at > 0 && slots[at - stride] === slot) return at - stride;
  slots.splice(at, 0, slot, ...Array<number>(stride - 1).fill(0));
  return at;
}
