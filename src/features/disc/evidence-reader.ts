import { type CredonationRow, credonationsOf } from '../../../projections/credonations.js';
import type { EventOf } from '../../../projections/events.js';
import { blocksOf, statementsOf, totalOf } from '../../../projections/evidence-rows.js';
import {
  type IdentityRow,
  type IdentityState,
  evolve,
  evolveFacts,
  newIdentity,
} from '../../../projections/identities.js';
import { type IdentityEvent, isOfAction } from '../../../projections/identity-events.js';
import { timelineOf, unpack } from '../../../projections/timeline.js';
import type { Position } from '../../kernel/event.js';
import { positionOf, sortByPosition } from '../../kernel/positions.js';
import { yieldIfDue } from '../../kernel/turn.js';
import type { Views } from '../../read-side/views.js';
import { type Evidence, addAction, countActions, takeDays } from '../../scoring/evidence.js';
import { type Lens, MODEL_LENS } from '../../scoring/lens.js';
import { CRITICALITIES } from '../../scoring/model.js';
import { type Scoring, isLimited } from '../../scoring/models/all.js';
import type { Ledger } from '../../scoring/score.js';
import type { RangeRow } from '../../stores/ports/read-models.js';
import { ActionTally, DayLedgers, type MetricTotals, totalsIn } from './action-tally.js';
import { PlatformShares } from './platform-shares.js';
import { RowPages } from './row-pages.js';
import { SpreadEvidence, type SpreadIdentity } from './spread-evidence.js';
import { type CountCredonations, SpreadSources } from './spread-sources.js';

/**
 * Reads what is known of one identity up to a position and a time. The evidence of a small identity is in its row, and
 * its past is a fold of its few events; the evidence of a large one is spread over rows. Only this class knows which.
 */
export class EvidenceReader {
  private readonly large: SpreadIdentity | null;
  private first: Promise<IdentityEvent[]> | undefined;

  /**
   * @param row as of the position or later
   * @param as_of ms: actions that occurred later do not count, nor other events unless this is the present
   * @param end position up to which no event follows those up to `position`
   */
  constructor(
    private readonly views: Pick<Views, 'readSince'>,
    readonly tris_id: string,
    readonly row: IdentityRow,
    readonly position: Position,
    readonly as_of = Infinity,
    readonly isPresent = true,
    readonly end: Position = position + 1,
  ) {
    const { spread, latest } = row;
    this.large =
      spread && position >= spread.since
        ? { tris_id, spread, position, ...(as_of < latest && { as_of }), firstEvents: () => this.firstEvents() }
        : null;
  }

  /** The same as of an earlier position. */
  at(position: Position, end?: Position): EvidenceReader {
    return new EvidenceReader(this.views, this.tris_id, this.row, position, this.as_of, this.isPresent, end);
  }

  /** Whether all events in its row count. */
  get isAll(): boolean {
    return this.row.latest <= this.as_of && this.row.changed <= this.position;
  }

  /** The state with all evidence, if nothing more has to be read for it. */
  get known(): IdentityState | undefined {
    return this.row.evidence !== null && this.isAll ? (this.row as IdentityRow & IdentityState) : undefined;
  }

  /** The state with at least the evidence that some lenses need. `changed` is 0 if no event counts. */
  async state(lenses: readonly Lens[]): Promise<IdentityState> {
    if (!this.large) return this.known ?? this.fold();
    if (this.isAll) return { ...this.row, evidence: await this.evidence(lenses) };
    const { evidence: _none, ...facts } = newIdentity();
    for await (const events of this.statements()) for (const event of events) evolveFacts(facts, event);
    const evidence = await this.evidence([MODEL_LENS, ...lenses]);
    for (const days of Object.values(evidence)) facts.actions += countActions(days);
    // Caches of results are keyed by this position.
    // Where all of them are withdrawn, too.
    if (facts.actions > 0 || (this.row.withdrawn !== undefined && (await this.isKnown())))
      facts.changed = Math.min(this.row.changed, this.position);
    return { ...facts, evidence };
  }

  private async fold(): Promise<IdentityState> {
    const state = newIdentity();
    for (const event of await this.firstEvents()) evolve(state, event);
    return state;
  }

  /**
   * The evidence that some lenses need, or more. Metrics that none of them weighs may count together in their category,
   * where the model's own lens is among the lenses: they are named like no metric.
   */
  async evidence(lenses: readonly Lens[]): Promise<Evidence> {
    if (!this.large) return (this.known ?? (await this.fold())).evidence;
    const cells = new SpreadEvidence(this.rows, this.large);
    const weighed = lenses.flatMap(({ tct_by_metric }) => [...(tct_by_metric?.keys() ?? [])]);
    const evidence = await cells.ofMetrics(weighed);
    if (lenses.every(({ tct_by_metric }) => tct_by_metric !== null)) return evidence;
    const totals = await cells.totals();
    for (const [metric, { days }] of Object.entries(evidence)) {
      takeDays(totals[totalOf(metric)]!.days, days);
      if (this.rows.isDue()) await yieldIfDue();
    }
    for (const [total, others] of Object.entries(totals)) evidence[nameOfOthers(total)] = others;
    return evidence;
  }

  /** The evidence of at least these metrics; metrics without evidence are absent. */
  async evidenceOf(metrics: readonly string[]): Promise<Evidence> {
    if (!this.large) return this.evidence([]);
    return new SpreadEvidence(this.rows, this.large).ofMetrics(metrics);
  }

  /** Names of the metrics with evidence, of which there may be more if there are `limit`. */
  async metrics(limit: number): Promise<string[]> {
    if (!this.large) return Object.keys(await this.evidence([]));
    const recorded = await new SpreadEvidence(this.rows, this.large).metrics(limit);
    return Object.keys(await this.evidenceOf(recorded));
  }

  /** The ledger under a lens, if nothing more has to be read for it. */
  knownLedger(lens: Scoring): Ledger | undefined {
    const { earned, flagged } = this.row;
    if (this.isAll && lens.tct_by_metric === null && !isLimited(lens)) return { earned, flagged };
    return this.known && lens.model.ledger(this.known.evidence, lens);
  }

  async ledger(lens: Scoring): Promise<Ledger> {
    return this.knownLedger(lens) ?? lens.model.ledger(await this.evidence([lens]), lens);
  }

  /** The sums of all metrics. */
  async metricTotals(): Promise<MetricTotals> {
    if (this.large) return this.sums(new PlatformShares(MODEL_LENS));
    return totalsIn(await this.evidence([]));
  }

  /**
   * Sums the actions by metric, and adds them to the shares of their platforms.
   * @param after ms: only actions that occurred later count, except for the sums of days
   */
  async sums(platforms: PlatformShares, after = -Infinity, days = new DayLedgers([])): Promise<MetricTotals> {
    const sources = this.large && new SpreadSources(this.rows, this.large);
    if (sources && after === -Infinity) {
      const present = await sources.present(platforms);
      if (present) return present;
    }
    const first = await this.firstEvents();
    const tally =
      (await sources?.actions(platforms, after, days)) ?? new ActionTally(metricsIn(first), [], platforms, after, days);
    tally.addFirst(first);
    return tally.totals;
  }

  /**
   * Counts the credonations that occurred after a time, ms, by sender; some may be counted first and taken away again. A
   * credonation counts with its action, which precedes it in the same append: those before the identity's next event do.
   */
  async credonations(after: number, count: CountCredonations): Promise<void> {
    const { tris_id, as_of, large } = this;
    const following = { ...timelineOf(tris_id), after: sortByPosition(this.position), limit: 1 };
    const { results, position: applied } = await this.rows.readAt([
      { range: following },
      { range: { ...blocksOf(tris_id), limit: 1 } },
    ]);
    const [[next], [block]] = results as [RangeRow[], RangeRow[]];
    const position = next ? positionOf(next.sort) - 1 : applied;
    const rows = new RowPages(this.views, position);
    // Those before the evidence was spread are in no cell.
    const last = large ? positionOf(block!.sort) - 1 : position;
    for await (const page of rows.of(credonationsOf(tris_id), { isIn: ({ sort }) => positionOf(sort) <= last })) {
      for (const { value } of page) {
        const [from, amount, occurred_at, , , change = 1] = value as CredonationRow;
        if (occurred_at > after && occurred_at <= as_of) count(from, change, change * amount);
      }
    }
    if (large) await new SpreadSources(rows, { ...large, position }).credonations(after, as_of, count);
  }

  /** The events that count after a position, in log order, in pages between which other requests can run. */
  async *events(after: Position = 0): AsyncIterable<IdentityEvent[]> {
    const past = this.large?.as_of === undefined ? null : this.large;
    const parts = [this.rows.events(this.tris_id, past?.spread.since ?? this.position, after)];
    if (past) parts.push(new SpreadSources(this.rows, past).events(Math.max(after, past.spread.since)));
    for (const part of parts) {
      for await (const events of part) yield events.filter((event) => countsAsOf(event, this));
    }
  }

  /** The events that count and are not actions, in log order. */
  async *statements(): AsyncIterable<IdentityEvent[]> {
    const isOne = (event: IdentityEvent) =>
      !isOfAction(event) && event.position <= this.position && countsAsOf(event, this);
    yield (await this.firstEvents()).filter(isOne);
    if (!this.large) return;
    for await (const rows of this.rows.of(statementsOf(this.tris_id))) {
      yield rows.map(({ sort, value }) => unpack(this.tris_id, positionOf(sort), value)).filter(isOne);
    }
  }

  /** Whether any event counts. */
  async isKnown(): Promise<boolean> {
    if (this.isAll) return true;
    for await (const page of this.events()) if (page.length > 0) return true;
    return false;
  }

  /**
   * Position of the identity's last event before the first one that was recorded after a time; 0 if there is none. When
   * events occurred does not matter. Later events with an earlier time, from a clock that was set back, do not count, so
   * that what is known at a time is always a prefix of the log. `end` is the position of that first one or, if there is
   * none, follows the viewpoint's.
   */
  async lastRecorded(time: number): Promise<{ position: Position; end: Position }> {
    const { tris_id, row, large, position } = this;
    if (row.recorded <= time && row.changed <= position) return { position: row.changed, end: position + 1 };
    let last = 0;
    let after = 0;
    if (large) {
      // The last block before which nothing was recorded later.
      for await (const rows of this.rows.of(blocksOf(tris_id))) {
        for (const { sort, value } of rows) if ((value as number) <= time) after = positionOf(sort) - 1;
      }
      if (after < large.spread.since) after = 0;
      else {
        const range = { ...timelineOf(tris_id), after: sortByPosition(after + 1), reverse: true, limit: 1 };
        const [found] = (await this.rows.read([{ range }]))[0] as RangeRow[];
        last = found ? positionOf(found.sort) : 0;
      }
    }
    for await (const page of this.rows.events(tris_id, position, after)) {
      for (const event of page) {
        if (event.recorded_at > time) return { position: last, end: event.position };
        last = event.position;
      }
    }
    return { position: Math.min(last, position), end: position + 1 };
  }

  /** The events that count, of a large identity those before its evidence was spread. Read once. */
  private firstEvents(): Promise<IdentityEvent[]> {
    return (this.first ??= this.readFirst());
  }

  private async readFirst(): Promise<IdentityEvent[]> {
    const first: IdentityEvent[] = [];
    const last = this.large ? this.large.spread.since : this.position;
    for await (const events of this.rows.events(this.tris_id, last)) {
      first.push(...events.filter((event) => countsAsOf(event, this)));
    }
    return first;
  }

  private get rows(): RowPages {
    return new RowPages(this.views, this.position);
  }
}

/** The name in evidence of the metrics of a total that are counted together. */
const nameOfOthers = (total: string) => total.replace('_', '_*_');

/** An action as evidence counts it. */
export interface CountedAction {
  metric: string;
  /** Its index in `CRITICALITIES`. */
  criticality: number;
  /** ms */
  occurred_at: number;
}

export function countedAction({
  data: { metric, criticality },
  occurred_at,
}: Pick<EventOf<'ActionRelayed'>, 'data' | 'occurred_at'>): CountedAction {
  return { metric, criticality: CRITICALITIES.indexOf(criticality), occurred_at };
}

/**
 * A state as if some actions that it counts did not count (-1), or others did (1).
 * @param lens for which it was read
 */
export function changedBy(
  state: IdentityState,
  actions: readonly CountedAction[],
  sign: 1 | -1,
  lens: Lens,
): IdentityState {
  const evidence = { ...state.evidence };
  const copied = new Set<string>();
  for (const { metric, criticality, occurred_at } of actions) {
    const others = nameOfOthers(totalOf(metric));
    const isApart = metric in evidence || !(others in evidence) || lens.tct_by_metric?.has(metric);
    const name = isApart ? metric : others;
    const known = evidence[name];
    // Evidence need not have a metric that its lens does not weigh.
    if (!known && sign < 0) continue;
    if (known && !copied.has(name)) evidence[name] = { last: known.last, days: [...known.days] };
    copied.add(name);
    addAction(evidence, name, criticality, occurred_at, sign);
  }
  return { ...state, evidence, actions: state.actions + sign * actions.length };
}

function metricsIn(events: readonly IdentityEvent[]): string[] {
  return [...new Set(events.flatMap((event) => (isOfAction(event) ? [event.data.metric] : [])))];
}

/** Whether an event counts as of a time. In the present, statements about the identity count whatever their time. */
export function countsAsOf(event: IdentityEvent, { as_of, isPresent }: { as_of: number; isPresent: boolean }): boolean {
  return event.occurred_at <= as_of || (isPresent && !isOfAction(event));
}
