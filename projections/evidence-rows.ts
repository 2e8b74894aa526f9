import { type Evidence, STRIDE, addToDays, dayOf } from '../src/scoring/evidence.js';
import { isFlags, metricCategory } from '../src/scoring/names.js';
import { CRITICALITIES } from '../src/scoring/model.js';
import { relayerOf } from '../src/features/relay/domain/relay.js';
import type { EventOf } from './events.js';
import type { IdentityEvent } from './identity-events.js';
import { packNumbers, unpackNumbers } from './packed-numbers.js';
import { type Rows, rowAt, sortByPosition } from './projection.js';
import { pack } from './timeline.js';

/**
 * The evidence of a large identity, in rows of bounded size, so that an event costs the same however many preceded it.
 * Actions are counted several times:
 *
 * - `identities.metrics`: per metric, over all time. Earned and flagged TCT under any lens follow from these.
 * - `identities.platforms`: per platform, over all time, flags apart.
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
 * So that any past state can be read, the identity's events are divided into blocks, and `identities.earlier` keeps
 * each cell as it was before a block first changed it. A cell as of a position is the cell before that position's
 * block, plus the events of the block up to the position. `identities.blocks` has the start of each block, and the
 * latest recording time of the events before it, in ms. `identities.statements` has all events that are not actions.
 *
 * A state as of a time within a day needs the entries of that day by their time of occurrence: `identities.days`. A
 * busy day is divided: once a day has `FEW_ENTRIES` entries of a total, later events are counted in cells for quarters
 * of an hour (`identities.parts`), and their entries belong to the quarter, which is divided in the same way, down to
 * milliseconds.
 */

/** The state of the rows of an identity's evidence. */
export interface Spread {
  /** Position of the last event before the evidence was spread. Earlier events are in the timeline only. */
  since: number;
  /** Position of the first event of the present block, and the number of events in the block. */
  block: number;
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
const FEW_ENTRIES = 128;
/**
 * Length in ms of a day, of its parts, of their parts, and so on. A part of one level is divided into parts of the
 * next.
 */
const PARTS_MS = [86_400_000, 900_000, 10_000, 100, 1] as const;
/** Levels that can be divided; the first is that of days. */
export const LEVELS = PARTS_MS.length - 1;

/**
 * The counts of one series in one period or one part of a day, by slot. Slots are the days of the period, or the parts
 * of the part.
 */
export interface Cell {
  /** Position of the last event counted. */
  changed: number;
  /** By slot, ascending: the slot's number, then the numbers of the series. */
  slots: number[];
  /** The endorser; only in cells of senders. */
  from?: string;
}

/**
 * The sums of all actions of one metric, packed (see packed-numbers.ts): the metric's number, the time of their latest
 * occurrence in ms since `EARLIEST`, and the number of actions by criticality. An explanation reads the rows of all
 * metrics, of which there may be thousands.
 */
export type PackedMetric = string;
/** How many numbers that are. */
const METRIC_NUMBERS = 2 + CRITICALITIES.length;

/** All actions of one platform after `Spread.since`, and the platform's number. */
export interface PlatformRow {
  /** By criticality, then flags by criticality. */
  counts: number[];
  number: number;
}

/**
 * Actions in log order, packed (see packed-numbers.ts), `ACTION_STRIDE` numbers each: by how much the position is above
 * that of the row's first action, the time of the occurrence in ms since `EARLIEST`, the number of the metric times the
 * number of criticalities plus the criticality, and the number of the platform.
 */
export type PackedActions = string;
export const ACTION_STRIDE = 4;
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

function packMetric(number: number, last: number, counts: readonly number[]): PackedMetric {
  return packNumbers([number, last - EARLIEST, ...counts]);
}

/** An action by the time it occurred; that and its position are in the row's key. */
export type ActionEntry = [metric: string, criticality: number];
/** A credonation, in the same way. */
export type CredonationEntry = [amount: number, from: string];
export type DayEntry = ActionEntry | CredonationEntry;

/** Numbers of a slot of a sender: its number, the number of credonations, the sum of their amounts. */
export const SENDER_STRIDE = 3;

type Action = EventOf<'ActionRelayed'>;
type Credonation = EventOf<'CredonationRecorded'>;

/** The owner of a platform, and the position of the registration. */
export interface Owner {
  org: string;
  at: number;
}

export function metricsOf(trisId: string) {
  return { view: 'identities.metrics', key: trisId };
}

export function metricRow(trisId: string, metric: string) {
  return { ...metricsOf(trisId), sort: metric };
}

export function platformsOf(trisId: string) {
  return { view: 'identities.platforms', key: trisId };
}

/** Cells of the totals of every category: `<total>/<period>`. */
export function totalsOf(trisId: string) {
  return { view: 'identities.totals', key: trisId };
}

/** Cells of one metric: `<period>`. */
export function cellsOf(trisId: string, metric: string) {
  return { view: 'identities.cells', key: `${trisId}/${metric}` };
}

/** Actions after `Spread.since`: `<position of the first action in the row>`. */
export function actionsOf(trisId: string) {
  return { view: 'identities.actions', key: trisId };
}

export type Named = 'metric' | 'platform';

/** Names by number: `<what is named>/<row>`. */
export function namesOf(trisId: string) {
  return { view: 'identities.names', key: trisId };
}

/** The row with the name of a number. */
function namesRow(trisId: string, named: Named, number: number): Row {
  const row = String(Math.floor(number / NAMES_PER_ROW)).padStart(8, '0');
  return { ...namesOf(trisId), sort: `${named}/${row}` };
}

/** Cells of every sender of credonations: `<period>/<platform>/<registration of its owner>`. */
export function sendersOf(trisId: string) {
  return { view: 'identities.senders', key: trisId };
}

/** The number of metrics that an organization was the first to relay, after `Spread.since`. */
export function relayedRow(trisId: string, relayer: string) {
  return { view: 'identities.relayed', key: trisId, sort: relayer };
}

export function ownerRow(platformId: string) {
  return { view: 'identities.owners', key: platformId };
}

export function blocksOf(trisId: string) {
  return { view: 'identities.blocks', key: trisId };
}

export function statementsOf(trisId: string) {
  return { view: 'identities.statements', key: trisId };
}

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

/** The range that finds a cell as it was after its last change before a position. */
export function earlierThan(cell: { key: string; sort: string }, position: number) {
  const after = `${cell.sort}/${sortByPosition(position)}`;
  return { view: 'identities.earlier', key: cell.key, after, reverse: true, limit: 1 };
}

/** Whether the row that `earlierThan` found belongs to this cell. */
export function isEarlier(sort: string, cell: { sort: string }): boolean {
  return sort.startsWith(`${cell.sort}/`);
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
  return String(Math.floor(day / PERIOD_DAYS) + 100_000).padStart(6, '0');
}

/** The sort key of a time of day, or of an action at that time, among the entries of its day. */
export function timeOfDay(ms: number, position?: number): string {
  const time = String(ms - dayOf(ms) * PARTS_MS[0]).padStart(8, '0');
  return position === undefined ? time : `${time}/${sortByPosition(position)}`;
}

/** A series of counts over time that an event counts in. */
interface Series {
  /** Its cell of the event's period. */
  cell: Row;
  /** Its name among the cells of divided days. */
  part: string;
  stride: number;
  count(slots: number[], at: number): void;
  /** The number of events in the slot at this index. */
  countAt(slots: readonly number[], at: number): number;
  from?: string;
}

/** Names of series among the parts of a day. */
export const totalPart = (total: string) => `total/${total}`;
export const metricPart = (metric: string) => `metric/${metric}`;
export const SENDER_PARTS = 'sender/';

/** The number of entries of the first one decides when a day is divided. */
function seriesOf(trisId: string, { data, occurred_at }: Action): Series[] {
  const { metric } = data;
  const criticality = CRITICALITIES.indexOf(data.criticality);
  const period = periodOf(dayOf(occurred_at));
  const total = totalOf(metric);
  const count = (slots: number[], at: number) => void slots[at + 1 + criticality]!++;
  const countAt = (slots: readonly number[], at: number) => {
    let actions = 0;
    for (let i = at + 1; i < at + STRIDE; i++) actions += slots[i]!;
    return actions;
  };
  return [
    {
      cell: { ...totalsOf(trisId), sort: `${total}/${period}` },
      part: totalPart(total),
      stride: STRIDE,
      count,
      countAt,
    },
    { cell: { ...cellsOf(trisId, metric), sort: period }, part: metricPart(metric), stride: STRIDE, count, countAt },
  ];
}

function seriesOfSender(trisId: string, { data, occurred_at }: Credonation, owner: Owner | undefined): Series {
  const { platform_id, amount } = data;
  const sender = `${platform_id}/${owner?.at ?? 0}`;
  return {
    cell: { ...sendersOf(trisId), sort: `${periodOf(dayOf(occurred_at))}/${sender}` },
    part: SENDER_PARTS + sender,
    stride: SENDER_STRIDE,
    count(slots, at) {
      slots[at + 1]!++;
      slots[at + 2]! += amount;
    },
    countAt: (slots, at) => slots[at + 1]!,
    from: relayerOf(platform_id, owner?.org),
  };
}

/**
 * Rows that an action changes.
 * @param owner the owner of its platform
 */
export function rowsToAddTo(trisId: string, state: Spread, event: Action, owner: Owner | undefined): Row[] {
  const { metric, platform_id } = event.data;
  const rows = [
    metricRow(trisId, metric),
    { ...platformsOf(trisId), sort: platform_id },
    relayedRow(trisId, relayerOf(platform_id, owner?.org)),
    rowAt(actionsOf(trisId), state.row) as Row,
    namesRow(trisId, 'metric', state.metrics),
    namesRow(trisId, 'platform', state.platforms),
  ];
  return [...rows, ...cellsOfSeries(trisId, seriesOf(trisId, event), event.occurred_at, state.divided)];
}

/** Rows that a credonation changes. @param owner the owner of its platform */
export function rowsToEndorse(trisId: string, state: Spread, event: Credonation, owner: Owner | undefined): Row[] {
  return cellsOfSeries(trisId, [seriesOfSender(trisId, event, owner)], event.occurred_at, state.divided);
}

function cellsOfSeries(trisId: string, series: readonly Series[], ms: number, divided = false): Row[] {
  const rows = series.map(({ cell }) => cell);
  if (!divided) return rows;
  for (let level = 0; level < LEVELS; level++) {
    for (const { part } of series) rows.push({ ...partsOf(trisId, level, ms), sort: part });
  }
  return rows;
}

/**
 * Spreads evidence that was stored in one row. That row contains no platforms and no credonations: for the events up to
 * `since`, these are in the timeline and in the view of credonations.
 * @param since position of the last event in the row
 */
export function spread(trisId: string, evidence: Evidence, since: number, rows: Rows): Spread {
  const state: Spread = { since, block: 0, in_block: BLOCK, metrics: 0, platforms: 0, row: 0, in_row: ACTIONS_PER_ROW };
  // Sorted: the order of an object's members may differ between a stored row and one that was folded just now.
  for (const metric of Object.keys(evidence).sort()) {
    const { last, days } = evidence[metric]!;
    const number = addName(trisId, 'metric', state.metrics++, metric, rows);
    const counts = CRITICALITIES.map(() => 0);
    for (let at = 0; at < days.length; at += STRIDE) {
      const day = days[at]!;
      const period = periodOf(day);
      for (const criticality of CRITICALITIES.keys()) {
        for (let n = days[at + 1 + criticality]!; n > 0; n--) {
          counts[criticality]!++;
          for (const row of [
            { ...cellsOf(trisId, metric), sort: period },
            { ...totalsOf(trisId), sort: `${totalOf(metric)}/${period}` },
          ]) {
            const cell = rows.find<Cell>(row) ?? { changed: since, slots: [] };
            addToDays(cell.slots, day, criticality);
            rows.put(row, cell);
          }
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
 * @param ownerOf the owner of a platform
 */
export function addToRows(
  trisId: string,
  state: Spread,
  event: IdentityEvent,
  recorded: number,
  ownerOf: (platformId: string) => Owner | undefined,
  rows: Rows,
): void {
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
  const sumsRow = metricRow(trisId, metric);
  const packed = rows.find<PackedMetric>(sumsRow);
  const counts = CRITICALITIES.map(() => 0);
  let number: number;
  let last = occurred_at;
  if (packed === undefined) {
    number = addName(trisId, 'metric', state.metrics++, metric, rows);
    const relayed = relayedRow(trisId, relayerOf(platform_id, ownerOf(platform_id)?.org));
    rows.put(relayed, (rows.find<number>(relayed) ?? 0) + 1);
  } else {
    const sums = unpackMetric(packed, counts, 0);
    number = sums.number;
    last = Math.max(sums.last, occurred_at);
  }
  counts[criticality]!++;
  rows.put(sumsRow, packMetric(number, last, counts));
  const platformRow = { ...platformsOf(trisId), sort: platform_id };
  let platform = rows.find<PlatformRow>(platformRow);
  if (!platform) {
    const number = addName(trisId, 'platform', state.platforms++, platform_id, rows);
    platform = { number, counts: [...CRITICALITIES, ...CRITICALITIES].map(() => 0) };
  }
  platform.counts[criticality + (isFlags(metric) ? CRITICALITIES.length : 0)]!++;
  rows.put(platformRow, platform);
  addToActions(trisId, state, event, number * CRITICALITIES.length + criticality, platform.number, rows);
  addToSeries(trisId, state, event, seriesOf(trisId, event), [metric, criticality], rows);
}

/** Adds a name to those of its kind. @returns its number */
function addName(trisId: string, named: Named, number: number, name: string, rows: Rows): number {
  const row = namesRow(trisId, named, number);
  rows.put(row, [...(rows.find<string[]>(row) ?? []), name]);
  return number;
}

function addToActions(
  trisId: string,
  state: Spread,
  { position, occurred_at }: Action,
  kind: number,
  platform: number,
  rows: Rows,
): void {
  if (state.in_row === ACTIONS_PER_ROW) {
    state.row = position;
    state.in_row = 0;
  }
  state.in_row++;
  const row = rowAt(actionsOf(trisId), state.row);
  const action: PackedActions = packNumbers([position - state.row, occurred_at - EARLIEST, kind, platform]);
  rows.put(row, (rows.find<PackedActions>(row) ?? '') + action);
}

/**
 * Adds a credonation to the rows of its receiver, if the receiver is not the owner of the platform itself.
 * @returns whether `state` was changed
 */
export function endorse(
  trisId: string,
  state: Spread,
  event: Credonation,
  owner: Owner | undefined,
  rows: Rows,
): boolean {
  const series = seriesOfSender(trisId, event, owner);
  if (series.from === trisId) return false;
  const wasDivided = state.divided;
  addToSeries(trisId, state, event, [series], [event.data.amount, series.from!], rows);
  return state.divided !== wasDivided;
}

/** Adds an event to its cells and, if its day or its part of the day has few entries, adds an entry there. */
function addToSeries(
  trisId: string,
  state: Spread,
  { position, occurred_at }: Pick<IdentityEvent, 'position' | 'occurred_at'>,
  series: readonly Series[],
  entry: DayEntry,
  rows: Rows,
): void {
  const entries = series.map((each) => add(each.cell, dayOf(occurred_at), each, state, position, rows));
  for (let level = 0, before = entries[0]!; level < LEVELS; level++) {
    if (before < FEW_ENTRIES) {
      rows.insert({ ...entriesOf(trisId, level, occurred_at), sort: timeOfDay(occurred_at, position) }, entry);
      return;
    }
    state.divided = true;
    const slot = slotOf(level, occurred_at);
    const parts = partsOf(trisId, level, occurred_at);
    before = series.map((each) => add({ ...parts, sort: each.part }, slot, each, state, position, rows))[0]!;
  }
}

/** Counts an event in a cell. @returns the number of events that its slot had before */
function add(row: Row, slot: number, series: Series, { block }: Spread, position: number, rows: Rows): number {
  const { stride, from } = series;
  const cell = rows.find<Cell>(row) ?? { changed: block, slots: [], ...(from !== undefined && { from }) };
  // The first change in the present block: keep the previous cell.
  if (cell.changed < block) {
    const sort = `${row.sort}/${sortByPosition(cell.changed)}`;
    rows.insert({ view: 'identities.earlier', key: row.key, sort }, cell);
  }
  const at = slotIn(cell.slots, slot, stride);
  const before = series.countAt(cell.slots, at);
  series.count(cell.slots, at);
  cell.changed = position;
  rows.put(row, cell);
  return before;
}

/** The index of a slot among slots of `stride` numbers each; a missing slot is added. */
export function slotIn(slots: number[], slot: number, stride: number): number {
  let at = slots.length;
  while (at > 0 && slots[at - stride]! > slot) at -= stride;
  if (at > 0 && slots[at - stride] === slot) return at - stride;
  slots.splice(at, 0, slot, ...Array<number>(stride - 1).fill(0));
  return at;
}

interface Row {
  view: string;
  key: string;
  sort: string;
}
