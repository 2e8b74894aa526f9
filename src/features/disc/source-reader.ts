import { type CredonationRow, credonationsOf } from '../../../projections/credonations.js';
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
  blocksOf,
  metricsOf,
  namesOf,
  PERIOD_DIGITS,
  periodOf,
  platformsOf,
  sendersOf,
  unpackMetric,
} from '../../../projections/evidence-rows.js';
import { identityRow, type IdentityRow } from '../../../projections/identities.js';
import { unpackNumbers } from '../../../projections/packed-numbers.js';
import { sortByPosition } from '../../../projections/projection.js';
import { timelineOf } from '../../../projections/timeline.js';
import type { Position } from '../../kernel/event.js';
import type { Views } from '../../read-side/views.js';
import { isDue, yieldIfDue } from '../../kernel/turn.js';
import { dayOf } from '../../scoring/evidence.js';
import { type Lens, tctOf } from '../../scoring/lens.js';
import { isFlags } from '../../scoring/names.js';
import { CRITICALITIES } from '../../scoring/model.js';
import type { Ledger } from '../../scoring/score.js';
import type { RangeRow } from '../../stores/ports/read-models.js';
import type { EvidenceReader, SpreadIdentity, StoredCell } from './evidence-reader.js';
import type { PlatformShares } from './platform-shares.js';

/** Sums of an identity's actions by metric. */
export interface MetricTotals {
  /** By number of the metric. */
  names: readonly string[];
  /** Actions by number of the metric times the number of criticalities, plus the criticality. */
  actions: Uint32Array;
  /** Latest occurrence by number of the metric, ms; -Infinity: none of its actions counts. */
  last: Float64Array;
}

/** The sums of metrics without actions. */
export function noActions(names: readonly string[]): MetricTotals {
  return {
    names,
    actions: new Uint32Array(names.length * CRITICALITIES.length),
    last: new Float64Array(names.length).fill(-Infinity),
  };
}

/** Sums, for each of some times, the TCT of the actions of its UTC day up to it. */
export class DayLedgers {
  readonly ledgers: Ledger[];
  private readonly first: number;
  /** By day after the first one: the times of the day, by their index. */
  private readonly byDay: (number[] | undefined)[] = [];

  /** @param times ms, ascending, not many years apart */
  constructor(private readonly times: readonly number[]) {
    this.ledgers = times.map(() => ({ earned: 0, flagged: 0 }));
    this.first = dayOf(times[0] ?? 0);
    for (const [i, time] of times.entries()) (this.byDay[dayOf(time) - this.first] ??= []).push(i);
  }

  /** @param tct of an action; below 0 if it is flagged */
  add(occurredAt: number, tct: number): void {
    const day = dayOf(occurredAt) - this.first;
    if (day < 0 || day >= this.byDay.length) return;
    for (const i of this.byDay[day] ?? []) {
      if (occurredAt > this.times[i]!) continue;
      if (tct < 0) this.ledgers[i]!.flagged -= tct;
      else this.ledgers[i]!.earned += tct;
    }
  }
}

export type CountCredonations = (from: string, credonations: number, amount: number) => void;

/** Reads from which platforms a large identity's actions came, and who endorsed it for them. */
export class SourceReader {
  constructor(
    private readonly views: Pick<Views, 'readSince'>,
    private readonly evidence: EvidenceReader,
  ) {}

  /**
   * Sums the actions up to the identity's viewpoint by metric, and adds them to the shares of their platforms.
   * @param after ms: only actions that occurred later count, except for the sums of days
   */
  async actions(
    identity: SpreadIdentity,
    platforms: PlatformShares,
    after = -Infinity,
    days = new DayLedgers([]),
  ): Promise<MetricTotals> {
    const { tris_id, position, as_of = Infinity } = identity;
    const names = await this.names(identity, 'metric');
    const tally = new ActionTally(names, await this.names(identity, 'platform'), platforms.lens, days);
    for await (const rows of this.evidence.pages(actionsOf(tris_id), position, Infinity, undefined, ACTION_ROWS)) {
      for (const { sort, value } of rows) tally.add(Number(sort), value as PackedActions, position, after, as_of);
      if (Number(rows.at(-1)?.sort) > position) break;
    }
    await tally.share(platforms);
    const { totals } = tally;
    // The metrics of the first events have the first numbers, and there are no more of them than events.
    const first = await this.evidence.firstEvents(identity);
    const numbers = new Map(names.slice(0, first.length).map((name, number) => [name, number]));
    for (const { type, data, occurred_at } of first) {
      if (type !== 'ActionRelayed' || occurred_at > as_of) continue;
      const criticality = CRITICALITIES.indexOf(data.criticality);
      const number = numbers.get(data.metric)!;
      const kind = number * CRITICALITIES.length + criticality;
      days.add(occurred_at, tally.tct[kind]!);
      if (occurred_at <= after) continue;
      platforms.addAction(data, criticality);
      totals.actions[kind]!++;
      totals.last[number] = Math.max(totals.last[number]!, occurred_at);
    }
    return totals;
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
  async present(identity: SpreadIdentity, platforms: PlatformShares): Promise<MetricTotals | undefined> {
    const { tris_id, as_of, position } = identity;
    if (as_of !== undefined || platforms.lens.tct_by_metric !== null) return undefined;
    if (!(await this.isLast(tris_id, position))) return undefined;
    // Unpacked at once: many requests that keep thousands of rows each would make every collection of garbage long.
    const names: string[] = [];
    const actions: number[] = [];
    const last: number[] = [];
    for await (const rows of this.evidence.pages(metricsOf(tris_id), position, Infinity)) {
      for (const { sort, value } of rows) {
        names.push(sort);
        last.push(unpackMetric(value as PackedMetric, actions, actions.length).last);
      }
    }
    const found: RangeRow[] = [];
    for await (const rows of this.evidence.pages(platformsOf(tris_id), position, Infinity)) found.push(...rows);
    // Again: an event that was added meanwhile counts too.
    if (!(await this.isLast(tris_id, position))) return undefined;
    for (const { sort, value } of found) platforms.addRow(sort, value as PlatformRow);
    for (const { type, data } of await this.evidence.firstEvents(identity)) {
      if (type === 'ActionRelayed') platforms.addAction(data, CRITICALITIES.indexOf(data.criticality));
    }
    return { names, actions: new Uint32Array(actions), last: new Float64Array(last) };
  }

  private async isLast(trisId: string, position: Position): Promise<boolean> {
    const { results } = await this.views.readSince(position, [{ get: identityRow(trisId) }]);
    return (results[0] as IdentityRow).changed <= position;
  }

  /**
   * All credonations up to the identity's viewpoint that occurred after one time and not after another, ms. A
   * credonation counts with its action, which precedes it in the same append: those before the identity's next event do.
   */
  async credonations(viewpoint: SpreadIdentity, after: number, as_of: number, count: CountCredonations): Promise<void> {
    const identity = { ...viewpoint, position: await this.lastCredonation(viewpoint), as_of };
    await this.firstCredonations(identity, after, count);
    const [first, end] = [dayOf(after), dayOf(as_of)];
    const cells = await this.cells(identity, sendersOf(identity.tris_id), first, end);
    await this.evidence.asOf(identity.position, cells);
    for (const { cell } of cells) countCredonations(cell, [first, end], count);
    for (const [time, sign] of [
      [as_of, 1],
      [after, -1],
    ] as const) {
      const part = await this.evidence.partOfDay<CredonationEntry>(identity, time, SENDER_PARTS, isCredonation);
      const signed: CountCredonations = (from, n, amount) => count(from, sign * n, sign * amount);
      for (const { entry } of part.entries) signed(entry[1], 1, entry[0]);
      for (const { cell, until } of part.cells) countCredonations(cell, [-Infinity, until], signed);
    }
  }

  /** Those before the evidence was spread, which no cell includes. */
  private async firstCredonations(
    { tris_id, position, as_of = Infinity }: SpreadIdentity,
    after: number,
    count: CountCredonations,
  ): Promise<void> {
    const { results } = await this.views.readSince(position, [{ range: { ...blocksOf(tris_id), limit: 1 } }]);
    const end = (results[0] as RangeRow[])[0]!.sort;
    for await (const rows of this.evidence.pages(credonationsOf(tris_id), position, Infinity)) {
      for (const { sort, value } of rows) {
        if (sort >= end) return;
        const row = value as CredonationRow;
        if (row.occurred_at > after && row.occurred_at <= as_of) count(row.from, 1, row.amount);
      }
    }
  }

  /** Position up to which credonations belong to a viewpoint. */
  private async lastCredonation({ tris_id, position }: SpreadIdentity): Promise<Position> {
    const range = { ...timelineOf(tris_id), after: sortByPosition(position), limit: 1 };
    const read = await this.views.readSince(position, [{ range }]);
    const [next] = read.results[0] as RangeRow[];
    return next ? Number(next.sort) - 1 : read.position;
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
        cells.push({ key: list.key, sort, cell: value as StoredCell['cell'] });
      }
    }
    return cells;
  }
}

/** Rows in one read: about half a millisecond's work. */
const ACTION_ROWS = 32;
const NAME_ROWS = 64;

/** Sums actions by the numbers of their metrics and platforms. */
class ActionTally {
  readonly totals: MetricTotals;
  /** TCT of one action under the lens, in the order of `totals.actions`; below 0 if it is flagged. */
  readonly tct: Float64Array;
  private readonly numbers = new Float64Array(ACTIONS_PER_ROW * ACTION_STRIDE);
  private readonly byPlatform: { actions: Float64Array; tct: Float64Array; flagged: Float64Array };

  constructor(
    metrics: readonly string[],
    private readonly platforms: readonly string[],
    lens: Lens,
    private readonly days: DayLedgers,
  ) {
    this.totals = noActions(metrics);
    this.tct = new Float64Array(metrics.length * CRITICALITIES.length);
    for (let number = 0; number < metrics.length; number++) {
      const metric = metrics[number]!;
      const sign = isFlags(metric) ? -1 : 1;
      for (let c = 0; c < CRITICALITIES.length; c++) {
        this.tct[number * CRITICALITIES.length + c] = sign * tctOf(lens, metric, c);
      }
    }
    const zeros = () => new Float64Array(platforms.length);
    this.byPlatform = { actions: zeros(), tct: zeros(), flagged: zeros() };
  }

  /** Adds those actions of a row that are not after a position and occurred after one time and not after another. */
  add(first: Position, row: PackedActions, position: Position, after: number, until: number): void {
    const { numbers, tct, byPlatform, days } = this;
    const { actions, last } = this.totals;
    const end = unpackNumbers(row, numbers);
    for (let at = 0; at < end && first + numbers[at]! <= position; at += ACTION_STRIDE) {
      const occurred = numbers[at + 1]! + EARLIEST;
      if (occurred > until) continue;
      const kind = numbers[at + 2]!;
      const each = tct[kind]!;
      days.add(occurred, each);
      if (occurred <= after) continue;
      const metric = Math.floor(kind / CRITICALITIES.length);
      const platform = numbers[at + 3]!;
      actions[kind]!++;
      if (occurred > last[metric]!) last[metric] = occurred;
      byPlatform.actions[platform]!++;
      if (each < 0) byPlatform.flagged[platform]! -= each;
      else byPlatform.tct[platform]! += each;
    }
  }

  /** Adds the sums by platform to the shares of platforms. */
  async share(shares: PlatformShares): Promise<void> {
    const { actions, tct, flagged } = this.byPlatform;
    for (const [number, platform] of this.platforms.entries()) {
      if (actions[number]! > 0) shares.add(platform, actions[number]!, tct[number]!, flagged[number]!);
      if (isDue()) await yieldIfDue();
    }
  }
}

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
