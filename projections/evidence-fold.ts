import { type Evidence, STRIDE, addToDays, dayOf } from '../src/scoring/evidence.js';
import { isFlags } from '../src/scoring/names.js';
import { CRITICALITIES } from '../src/scoring/model.js';
import { endorserOf, relayerOf } from '../src/features/relay/domain/relay.js';
import type { DomainEvent } from './events.js';
import {
  ACTIONS_PER_ROW,
  ACTION_TYPES,
  ALL_COUNTERPARTIES,
  BLOCK,
  type Cell,
  type DayEntry,
  EARLIEST,
  FEW_ENTRIES,
  LEVELS,
  type Named,
  type Owner,
  type PackedActions,
  type PackedMetric,
  type PlatformRow,
  RECENT,
  type Row,
  SENDER_PARTS,
  type Spread,
  actionsOf,
  blocksOf,
  cellsOf,
  countIn,
  earlierRow,
  entriesOf,
  metricPart,
  metricRow,
  namesRow,
  packMetric,
  packRecent,
  partsOf,
  periodOf,
  placeOf,
  platformsOf,
  relayedRow,
  sendersOf,
  slotOf,
  statementsOf,
  strideOf,
  timeOfDay,
  totalOf,
  totalPart,
  totalsOf,
  unpackMetric,
} from './evidence-rows.js';
import { type ActionEvent, type IdentityEvent, isActionChange, isOfAction, signOf } from './identity-events.js';
import { packNumbers } from './packed-numbers.js';
import { type Rows, rowAt, rowIn } from './projection.js';
import { pack } from './timeline.js';

/** How an event changes the rows of a large identity's evidence (evidence-rows.ts). */

/** The credonation that an event records, withdraws or reinstates, if any. @param owner the owner of its platform */
export function credonationIn(event: DomainEvent, owner: Owner | undefined) {
  if (event.type !== 'CredonationRecorded' && !isActionChange(event)) return undefined;
  const { position, occurred_at, type } = event;
  const { platform_id, counterparty, amount } = event.data;
  // Then the action has an entry of its own.
  const beside = type !== 'CredonationRecorded';
  const from = beside ? event.data.endorser : endorserOf(event.data, owner?.org);
  if (from === undefined || amount === undefined) return undefined;
  // The registration of the platform's owner; 0: it had none. It may have got one, or another one, after the action.
  const registered = from === owner?.org ? owner.at : from === endorserOf({ platform_id }, null) ? 0 : from;
  const sign = beside ? signOf(event) : 1;
  return { position, occurred_at, platform_id, counterparty, amount, from, registered, sign, beside };
}
type Credonation = NonNullable<ReturnType<typeof credonationIn>>;

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

function seriesOfSenders(trisId: string, credonation: Credonation): Series[] {
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

/**
 * Rows that an action changes.
 * @param owner the owner of its platform
 */
export function rowsToAddTo(trisId: string, state: Spread, event: ActionEvent, owner: Owner | undefined): Row[] {
  const { metric, platform_id } = event.data;
  const rows = [
    metricRow(trisId, metric),
    rowIn(platformsOf(trisId), placeOf(event.data)),
    relayedRow(trisId, relayerOf(platform_id, owner?.org)),
    rowAt(actionsOf(trisId), state.row),
    namesRow(trisId, 'metric', state.metrics),
    namesRow(trisId, 'platform', state.platforms),
  ];
  return [...rows, ...cellsOfSeries(trisId, seriesOf(trisId, event), event.occurred_at, state.divided)];
}

/** Rows that a credonation changes. */
export function rowsToEndorse(trisId: string, state: Spread, credonation: Credonation): Row[] {
  return cellsOfSeries(trisId, seriesOfSenders(trisId, credonation), credonation.occurred_at, state.divided);
}

function cellsOfSeries(trisId: string, series: readonly Series[], ms: number, divided = false): Row[] {
  const rows = series.map(({ cell }) => cell);
  if (!divided) return rows;
  for (let level = 0; level < LEVELS; level++) {
    for (const { part } of series) rows.push(rowIn(partsOf(trisId, level, ms), part));
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
      for (const criticality of CRITICALITIES.keys()) {
        for (let n = days[at + 1 + criticality]!; n > 0; n--) {
          counts[criticality]!++;
          for (const row of [
            rowIn(cellsOf(trisId, metric), period),
            rowIn(totalsOf(trisId), `${totalOf(metric)}/${period}`),
          ]) {
            const cell = rows.find<Cell>(row) ?? { changed: since, slots: [], recent: '' };
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
  let number: number;
  let last = occurred_at;
  if (packed === undefined) {
    number = addName(trisId, 'metric', state.metrics++, metric, rows);
    const relayed = relayedRow(trisId, relayerOf(platform_id, owner?.org));
    rows.put(relayed, (rows.find<number>(relayed) ?? 0) + 1);
  } else {
    const sums = unpackMetric(packed, counts, 0);
    number = sums.number;
    last = Math.max(sums.last, occurred_at);
  }
  counts[criticality]! += sign;
  rows.put(sumsRow, packMetric(number, last, counts));
  const place = placeOf(event.data);
  const platformRow = rowIn(platformsOf(trisId), place);
  let platform = rows.find<PlatformRow>(platformRow);
  if (!platform) {
    const number = addName(trisId, 'platform', state.platforms++, place, rows);
    platform = { number, counts: [...CRITICALITIES, ...CRITICALITIES].map(() => 0) };
  }
  platform.counts[criticality + (isFlags(metric) ? CRITICALITIES.length : 0)]! += sign;
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
  { position, occurred_at, type }: ActionEvent,
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
  const action: PackedActions = packNumbers([
    position - state.row,
    occurred_at - EARLIEST,
    kind,
    platform * ACTION_TYPES.length + ACTION_TYPES.indexOf(type),
  ]);
  rows.put(row, (rows.find<PackedActions>(row) ?? '') + action);
}

/**
 * Adds a credonation to the rows of its receiver, if the receiver is not the sender.
 * @returns whether `state` was changed
 */
export function endorse(trisId: string, state: Spread, credonation: Credonation, rows: Rows): boolean {
  const { from, amount } = credonation;
  if (from === trisId) return false;
  const wasDivided = state.divided;
  const suffix = credonation.beside ? '/credonation' : '';
  addToSeries(trisId, state, credonation, seriesOfSenders(trisId, credonation), [amount, from], rows, suffix);
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
