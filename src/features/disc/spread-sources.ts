import {
  ACTION_STRIDE,
  ACTIONS_PER_ROW,
  ALL_COUNTERPARTIES,
  type Cell,
  type CredonationEntry,
  type DayEntry,
  EARLIEST,
  type Named,
  type PackedActions,
  type PackedMetric,
  type PlatformRow,
  SENDER_PARTS,
  SENDER_STRIDE,
  actionsOf,
  metricsOf,
  namesOf,
  PERIOD_DIGITS,
  periodOf,
  platformsOf,
  sendersOf,
  statementsOf,
  unpackMetric,
} from '../../../projections/evidence-rows.js';
import { identityRow, type IdentityRow } from '../../../projections/identities.js';
import { type IdentityEvent, isOfAction, signOf } from '../../../projections/identity-events.js';
import { unpackNumbers } from '../../../projections/packed-numbers.js';
import { rowAt } from '../../../projections/projection.js';
import { timelineOf, unpack } from '../../../projections/timeline.js';
import type { Position } from '../../kernel/event.js';
import { positionOf, sortByPosition } from '../../kernel/positions.js';
import { isDue, yieldIfDue } from '../../kernel/turn.js';
import { dayOf } from '../../scoring/evidence.js';
import { CRITICALITIES } from '../../scoring/model.js';
import type { RangeRow } from '../../stores/ports/read-models.js';
import { ActionTally, type DayLedgers, type MetricTotals } from './action-tally.js';
import type { PlatformShares } from './platform-shares.js';
import type { RowPages } from './row-pages.js';
import { SpreadEvidence, type SpreadIdentity, type StoredCell } from './spread-evidence.js';

export type CountCredonations = (from: string, credonations: number, amount: number) => void;

/** Reads from which platforms a large identity's actions came, who endorsed it for them, and which actions count. */
export class SpreadSources {
  constructor(
    private readonly rows: RowPages,
    private readonly identity: SpreadIdentity,
  ) {}

  /** Sums the actions after the first events by metric and platform. @param after and `days` as for `ActionTally` */
  async actions(platforms: PlatformShares, after: number, days: DayLedgers): Promise<ActionTally> {
    const { tris_id, position, as_of = Infinity } = this.identity;
    const names = await this.names('metric');
    const tally = new ActionTally(names, await this.names('platform'), platforms, after, days);
    const isIn = ({ sort }: RangeRow) => positionOf(sort) <= position;
    for await (const rows of this.rows.of(actionsOf(tris_id), { page: ACTION_ROWS, isIn })) {
      for (const { sort, value } of rows) tally.addRow(positionOf(sort), value as PackedActions, position, as_of);
    }
    await tally.share();
    return tally;
  }

  /** The events after a position that count, in log order. Reads no others: few of the timeline's may count. */
  async *events(after: Position): AsyncIterable<IdentityEvent[]> {
    const { tris_id } = this.identity;
    let begin = after;
    for await (const { found, end } of this.positions(after)) {
      const gets = found.map((each) => ({ get: rowAt(timelineOf(tris_id), each) }));
      const results = gets.length > 0 ? await this.rows.read(gets) : [];
      const events = found.map((each, i) => unpack(tris_id, each, results[i]));
      const isIn = ({ sort }: RangeRow) => positionOf(sort) <= end;
      for await (const rows of this.rows.of(statementsOf(tris_id), { after: sortByPosition(begin), isIn })) {
        for (const { sort, value } of rows) events.push(unpack(tris_id, positionOf(sort), value));
      }
      begin = end;
      yield events.sort((a, b) => a.position - b.position);
    }
  }

  /**
   * Positions of the actions after one position that occurred up to the viewpoint's time, in log order. Each part has
   * those up to `end`, at most `PAGE`; the last part ends at the viewpoint's position.
   */
  private async *positions(after: Position): AsyncIterable<{ found: Position[]; end: Position }> {
    const { tris_id, position, as_of = Infinity } = this.identity;
    const list = actionsOf(tris_id);
    const range = { ...list, after: sortByPosition(after + 1), reverse: true, limit: 1 };
    const [row] = (await this.rows.read([{ range }]))[0] as RangeRow[];
    const begin = row && sortByPosition(positionOf(row.sort) - 1);
    const numbers = new Float64Array(ACTIONS_PER_ROW * ACTION_STRIDE);
    for await (const rows of this.rows.of(list, { after: begin, page: ACTION_ROWS })) {
      let found: Position[] = [];
      let end = after;
      for (const { sort, value } of rows) {
        const count = unpackNumbers(value as PackedActions, numbers);
        for (let at = 0; at < count && end < position; at += ACTION_STRIDE) {
          const each = positionOf(sort) + numbers[at]!;
          if (each <= after) continue;
          end = Math.min(each, position);
          if (each <= position && numbers[at + 1]! + EARLIEST <= as_of) found.push(each);
          if (found.length < PAGE) continue;
          yield { found, end };
          found = [];
        }
      }
      yield { found, end };
      if (end === position) return;
    }
    yield { found: [], end: position };
  }

  private async names(named: Named): Promise<string[]> {
    const names: string[] = [];
    const after = `${named}/`;
    const isIn = ({ sort }: RangeRow) => sort.startsWith(after);
    for await (const rows of this.rows.of(namesOf(this.identity.tris_id), { after, page: NAME_ROWS, isIn })) {
      for (const { value } of rows) names.push(...(value as string[]));
    }
    return names;
  }

  /**
   * The sums of all actions, from the sums over all time; undefined if these are not those of the viewpoint, or if the
   * lens needs sums by metric and platform together.
   */
  async present(platforms: PlatformShares): Promise<MetricTotals | undefined> {
    const { tris_id, as_of } = this.identity;
    if (as_of !== undefined || platforms.lens.tct_by_metric !== null) return undefined;
    if (!(await this.presentRow())) return undefined;
    // Unpacked at once: many requests that keep thousands of rows each would make every collection of garbage long.
    const names: string[] = [];
    const actions: number[] = [];
    const last: number[] = [];
    for await (const rows of this.rows.of(metricsOf(tris_id))) {
      for (const { sort, value } of rows) {
        names.push(sort);
        last.push(unpackMetric(value as PackedMetric, actions, actions.length).last);
      }
    }
    const found: RangeRow[] = [];
    for await (const rows of this.rows.of(platformsOf(tris_id))) found.push(...rows);
    // Again: an event that was added meanwhile counts too.
    const row = await this.presentRow();
    if (!row) return undefined;
    for (const { sort, value } of found) {
      platforms.addRow(sort, value as PlatformRow);
      if (isDue()) await yieldIfDue();
    }
    for (const event of await this.identity.firstEvents()) {
      if (!isOfAction(event)) continue;
      platforms.addAction(event.data, CRITICALITIES.indexOf(event.data.criticality), signOf(event));
    }
    return { names, actions: new Int32Array(actions), last: new Float64Array(last), withdrawn: row.withdrawn ?? 0 };
  }

  /** The row of the identity, if none of its events follows the viewpoint's position. */
  private async presentRow(): Promise<IdentityRow | undefined> {
    const [row] = (await this.rows.read([{ get: identityRow(this.identity.tris_id) }])) as [IdentityRow];
    return row.changed <= this.identity.position ? row : undefined;
  }

  /** The credonations after the first events that occurred after one time and not after another, ms. */
  async credonations(after: number, as_of: number, count: CountCredonations): Promise<void> {
    const evidence = new SpreadEvidence(this.rows, this.identity);
    const [first, end] = [dayOf(after), dayOf(as_of)];
    const cells = await this.cells(first, end);
    await evidence.asOf(cells);
    for (const { cell } of cells) {
      countCredonations(cell, [first, end], count);
      if (isDue()) await yieldIfDue();
    }
    for (const [time, sign] of [
      [as_of, 1],
      [after, -1],
    ] as const) {
      const part = await evidence.partOfDay<CredonationEntry>(time, SENDER_PARTS, isCredonation);
      const signed: CountCredonations = (from, n, amount) => count(from, sign * n, sign * amount);
      for (const entry of part.entries) signed(entry[1], entry[2] ?? 1, (entry[2] ?? 1) * entry[0]);
      for (const { cell, until } of part.cells) {
        countCredonations(cell, [-Infinity, until], signed);
        if (isDue()) await yieldIfDue();
      }
    }
  }

  private async cells(first: number, end: number): Promise<StoredCell[]> {
    const list = sendersOf(this.identity.tris_id);
    const cells: StoredCell[] = [];
    const last = periodOf(end - 1);
    const isIn = ({ sort }: RangeRow) => sort.slice(0, PERIOD_DIGITS) <= last;
    for await (const rows of this.rows.of(list, { after: periodOf(first), isIn })) {
      for (const { sort, value } of rows) cells.push({ key: list.key, sort, cell: value as StoredCell['cell'] });
    }
    return cells;
  }
}

/** Rows in one read: about half a millisecond's work. */
const ACTION_ROWS = 32;
const NAME_ROWS = 64;
/** Actions read one by one at once: the same. */
const PAGE = 128;

function countCredonations(
  { from, slots }: Cell,
  [first, end]: readonly [number, number],
  count: CountCredonations,
): void {
  if (from === ALL_COUNTERPARTIES) return;
  for (let at = 0; at < slots.length && slots[at]! < end; at += SENDER_STRIDE) {
    if (slots[at]! >= first) count(from!, slots[at + 1]!, slots[at + 2]!);
  }
}

function isCredonation(entry: DayEntry): entry is CredonationEntry {
  return typeof entry[0] === 'number';
}
