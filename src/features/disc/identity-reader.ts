import { Inject, Injectable } from '@nestjs/common';
import { accreditationRow } from '../../../projections/accreditations.js';
import { type Spread, blocksOf, statementsOf } from '../../../projections/evidence-rows.js';
import {
  type IdentityFacts,
  type IdentityRow,
  type IdentityState,
  evolve,
  evolveFacts,
  identityRow,
  newIdentity,
} from '../../../projections/identities.js';
import type { IdentityEvent } from '../../../projections/identity-events.js';
import { UNATTRIBUTED } from '../../../projections/dead-letters.js';
import { rowAt, sortByPosition } from '../../../projections/projection.js';
import { timelineOf, unpack } from '../../../projections/timeline.js';
import { CLOCK, type Clock } from '../../kernel/clock.js';
import type { Position } from '../../kernel/event.js';
import { parsePosition } from '../../kernel/positions.js';
import { Problem, unknownIdentity } from '../../kernel/problems.js';
import { type Accreditation, isTrusted, lastChange } from '../identity/domain/accreditation.js';
import type { Verification } from '../identity/domain/identity.js';
import { Lenses } from '../lenses/lenses.js';
import { Views } from '../../read-side/views.js';
import { isDue, yieldIfDue } from '../../kernel/turn.js';
import type { RangeRow } from '../../stores/ports/read-models.js';
import { type Evidence, countActions } from '../../scoring/evidence.js';
import { MODEL_LENS } from '../../scoring/lens.js';
import type { Scoring } from '../../scoring/models/all.js';
import { type Coordinates, endOfHour } from './coordinates.js';
import { EvidenceReader, type SpreadIdentity } from './evidence-reader.js';
import { SourceReader } from './source-reader.js';

/** The point of view of an answer. (as_of, position, lens, model) determine all its numbers. */
export interface Viewpoint {
  /** ms: nothing that occurred later counts. */
  as_of: number;
  /** Nothing after this position counts. */
  position: Position;
  /** The lens, with the version of the model. */
  lens: Scoring;
  /** Generation that served the rows. */
  generation: string;
}

/** The state of an identity as of a viewpoint. */
export interface IdentitySnapshot extends Viewpoint {
  tris_id: string;
  /** Whether this is the present. In the present, statements about the identity count whatever their time. */
  isPresent: boolean;
  /** The state with all evidence or, for a large identity (`large` is set), only the evidence that the lens needs. */
  state: IdentityState;
  large: SpreadIdentity | null;
  /** Whether a verification counts for a policy that names no issuer, as of the position. */
  trusts: (verification: Verification) => boolean;
  /** With `known_at`: the identity has no event after `position` and before this one. */
  end?: Position;
}

/** The viewpoint on an identity, before anything but its row was read. */
export interface IdentityViewpoint extends Omit<IdentitySnapshot, 'state' | 'large' | 'trusts'> {
  /** Whether there is a damaged event about an unknown identity. */
  mayLackMore?: boolean;
  /** The rows of a large identity of which not all actions up to the position may count. */
  past?: Spread;
}

/** What is known of an identity at a viewpoint, before the accreditations are read. */
interface Found extends Pick<IdentitySnapshot, 'state' | 'large'> {
  viewpoint: IdentityViewpoint;
}

/** Reads identities: the accumulated rows, and a fold of the timeline for the past of a small one. */
@Injectable()
export class IdentityReader {
  readonly evidence: EvidenceReader;
  readonly sources: SourceReader;

  constructor(
    private readonly views: Views,
    @Inject(CLOCK) private readonly clock: Clock,
    private readonly lenses: Lenses,
  ) {
    this.evidence = new EvidenceReader(views);
    this.sources = new SourceReader(views, this.evidence);
  }

  get logId(): string {
    return this.views.logId;
  }

  /** @throws Problem identity_not_found, policy_not_found, position_unknown, projection_behind, projection_rebuilding */
  async snapshot(trisId: string, coordinates: Coordinates): Promise<IdentitySnapshot> {
    const [snapshot] = await this.snapshots([trisId], coordinates);
    if (snapshot instanceof Problem) throw snapshot;
    return snapshot!;
  }

  /**
   * Several identities under the same lens and from the same state of the read models; identity_not_found in place of
   * unknown ones.
   * @throws Problem policy_not_found, position_unknown, projection_behind, projection_rebuilding
   */
  async snapshots(trisIds: readonly string[], coordinates: Coordinates): Promise<(IdentitySnapshot | Problem)[]> {
    const found = await this.each(trisIds, coordinates, async (viewpoint, row) =>
      lackingMore(await this.stateAt(viewpoint, row, coordinates)),
    );
    return this.withTrust(found, coordinates);
  }

  /**
   * Reads the accreditations of those issuers whose grants count only with one. Few identities have any. With
   * `known_at`, the position becomes that of the last accreditation or withdrawal that was known, if it is later.
   */
  private async withTrust(
    found: readonly (Found | Problem)[],
    { known_at }: Coordinates,
  ): Promise<(IdentitySnapshot | Problem)[]> {
    const known = new Map<string, Accreditation | undefined>();
    let position = 0;
    for (const each of found) {
      if (each instanceof Problem) continue;
      for (const issuer of issuersToTrust(each)) {
        known.set(issuer, undefined);
        position = Math.max(position, each.viewpoint.position);
      }
    }
    const issuers = [...known.keys()];
    if (issuers.length > 0) {
      const gets = issuers.map((issuer) => ({ get: accreditationRow(issuer) }));
      const { results } = await this.views.readSince(position, gets);
      issuers.forEach((issuer, i) => known.set(issuer, results[i] as Accreditation | undefined));
    }
    return found.map((each) => {
      if (each instanceof Problem) return each;
      // Written out: copying all properties would take a tenth of the time of an answer.
      const { tris_id, as_of, isPresent, lens, generation, end } = each.viewpoint;
      let { position } = each.viewpoint;
      if (known_at !== undefined) {
        const changes = issuersToTrust(each).map((issuer) => lastChange(known.get(issuer), known_at, end!));
        position = Math.max(position, ...changes);
      }
      const trusts = (held: Verification) => isTrusted(held, known.get(held.issuer), position);
      const { state, large } = each;
      return { tris_id, as_of, isPresent, position, lens, generation, state, large, trusts, end };
    });
  }

  /**
   * The viewpoint on an identity without its state, which is enough to read its events.
   * @param isKnown whether an earlier answer showed that the identity is known at the viewpoint
   * @throws Problem as `snapshot`
   */
  async viewpoint(trisId: string, coordinates: Coordinates, isKnown: boolean): Promise<IdentityViewpoint> {
    const [found] = await this.each([trisId], coordinates, async (present, row) => {
      const viewpoint = withPast(await this.withKnownAt(present, row, coordinates), row);
      if (isKnown || isAll(viewpoint, row, coordinates)) return viewpoint;
      for await (const page of this.events(trisId, viewpoint)) if (page.length > 0) return viewpoint;
      return unknownIdentity(trisId, 'at that time');
    });
    if (found instanceof Problem) throw found;
    return found!;
  }

  /**
   * What `find` finds of each identity, with the viewpoint on it and its row; identity_not_found in place of unknown ones.
   */
  private async each<T>(
    trisIds: readonly string[],
    coordinates: Coordinates,
    find: (viewpoint: IdentityViewpoint, row: IdentityRow) => Promise<T | Problem>,
  ): Promise<(T | Problem)[]> {
    const limit = coordinates.as_of_position === undefined ? undefined : await this.limitOf(coordinates.as_of_position);
    return this.views.lookUp(
      () => this.eachNow(trisIds, coordinates, limit, find),
      (found) => !found.some((each) => each instanceof Problem),
    );
  }

  /** As `each`, of what the read models contain now. */
  private async eachNow<T>(
    trisIds: readonly string[],
    coordinates: Coordinates,
    limit: Position | undefined,
    find: (viewpoint: IdentityViewpoint, row: IdentityRow) => Promise<T | Problem>,
  ): Promise<(T | Problem)[]> {
    const rows = trisIds.map((trisId) => ({ get: identityRow(trisId) }));
    const read = await this.views.read([...rows, ...this.lenses.queries(coordinates), { get: UNATTRIBUTED }]);
    const { manifest, generation, results } = read;
    const lens = await this.lenses.resolve(coordinates, manifest, results.slice(trisIds.length, -1));
    const mayLackMore = ((results.at(-1) as number | undefined) ?? 0) > 0;
    const position = limit ?? read.position;
    const isPresent = coordinates.as_of === undefined && coordinates.known_at === undefined;
    const known = results.slice(0, trisIds.length) as (IdentityRow | undefined)[];
    const { ahead } = coordinates;
    if (ahead && !known.some((row) => row && row.stamped >= coordinates.as_of!)) throw ahead;
    const found: (T | Problem)[] = [];
    for (const [i, tris_id] of trisIds.entries()) {
      // Not before the first: a look-up of one identity would wait until each long piece of work has had its turn.
      if (i > 0 && isDue()) await yieldIfDue();
      const row = known[i];
      if (!row) {
        found.push(unknownIdentity(tris_id));
        continue;
      }
      const now = coordinates.now ?? this.defaultAsOf(row);
      const as_of = coordinates.as_of ?? (isPresent ? Math.max(now, row.stamped) : now);
      found.push(await find({ tris_id, as_of, isPresent, position, lens, generation, mayLackMore }, row));
    }
    return found;
  }

  /**
   * The events of an identity's timeline up to a viewpoint, in log order, in pages between which other requests can
   * run.
   */
  async *events(trisId: string, viewpoint: IdentityViewpoint, after: Position = 0): AsyncIterable<IdentityEvent[]> {
    const { past, position } = viewpoint;
    const isLarge = past !== undefined && position > past.since;
    for await (const events of this.evidence.eventsUntil(trisId, isLarge ? past.since : position, after)) {
      yield events.filter((event) => countsAsOf(event, viewpoint));
    }
    if (isLarge) yield* this.pastEvents(viewpoint, past, Math.max(after, past.since));
  }

  /** As `events`, but reads only the events that count: few of the timeline's may. */
  private async *pastEvents(
    viewpoint: IdentityViewpoint,
    spread: Spread,
    after: Position,
  ): AsyncIterable<IdentityEvent[]> {
    const { tris_id, position } = viewpoint;
    let begin = after;
    for await (const part of this.sources.positions({ ...viewpoint, spread }, after)) {
      for (let from = 0; from === 0 || from < part.found.length; from += PAGE) {
        const found = part.found.slice(from, from + PAGE);
        const end = from + PAGE < part.found.length ? found.at(-1)! : part.end;
        const gets = found.map((each) => ({ get: rowAt(timelineOf(tris_id), each) }));
        await yieldIfDue();
        const results = gets.length > 0 ? (await this.views.readSince(position, gets)).results : [];
        const events = found.map((each, i) => unpack(tris_id, sortByPosition(each), results[i]));
        for await (const rows of this.evidence.pages(statementsOf(tris_id), end, Infinity, sortByPosition(begin))) {
          const until = rows.filter(({ sort }) => Number(sort) <= end);
          for (const { sort, value } of until) events.push(unpack(tris_id, sort, value));
          if (until.length < rows.length) break;
        }
        begin = end;
        yield events.filter((event) => countsAsOf(event, viewpoint)).sort((a, b) => a.position - b.position);
      }
    }
  }

  /** The viewpoint with the position of what was known at `known_at`, if that is given. */
  private async withKnownAt(
    viewpoint: IdentityViewpoint,
    row: IdentityRow,
    { known_at }: Coordinates,
  ): Promise<IdentityViewpoint> {
    return known_at === undefined ? viewpoint : { ...viewpoint, ...(await this.lastKnown(viewpoint, row, known_at)) };
  }

  private async stateAt(
    present: IdentityViewpoint,
    row: IdentityRow,
    coordinates: Coordinates,
  ): Promise<Found | Problem> {
    const { tris_id } = present;
    if (isAll(present, row, coordinates)) {
      if (hasEvidence(row)) return { viewpoint: present, state: row, large: null };
      const { spread } = row;
      const large = { tris_id, spread: spread!, position: present.position };
      const evidence = await this.evidence.through(large, present.lens);
      return { viewpoint: present, state: { ...row, evidence }, large };
    }
    const viewpoint = await this.withKnownAt(present, row, coordinates);
    const { spread } = row;
    const past =
      spread && viewpoint.position >= spread.since
        ? await this.pastOfLarge(viewpoint, row, spread)
        : { state: await this.fold(viewpoint), large: null };
    if (past.state.changed === 0) return unknownIdentity(tris_id, 'at that time');
    return { viewpoint, ...past };
  }

  /** The evidence as of an earlier position, limited to what the lens needs. */
  async evidenceAt(viewpoint: IdentityViewpoint, position: Position): Promise<Evidence> {
    const { spread, latest } = await this.rowOf(viewpoint);
    if (!spread || position < spread.since) return (await this.fold({ ...viewpoint, position })).evidence;
    return this.evidenceOfLarge({ ...viewpoint, position }, spread, latest);
  }

  private evidenceOfLarge(viewpoint: IdentityViewpoint, spread: Spread, latest: number): Promise<Evidence> {
    const { tris_id, as_of, position, lens } = viewpoint;
    return this.evidence.through({ tris_id, spread, position, ...(as_of < latest && { as_of }) }, lens);
  }

  /** As `evidenceAt`, with the BAD status after the event at that position. */
  async stateAfter(
    viewpoint: IdentityViewpoint,
    position: Position,
  ): Promise<Pick<IdentityState, 'evidence' | 'bad_status'>> {
    const at = { ...viewpoint, position };
    const { spread, latest } = await this.rowOf(viewpoint);
    if (!spread || position < spread.since) return this.fold(at);
    const { bad_status } = await this.pastFacts(at, spread);
    return { evidence: await this.evidenceOfLarge(at, spread, latest), bad_status };
  }

  /**
   * The position up to which the identity's events were recorded by a time, at most that of the viewpoint; 0 if none
   * was. When they occurred does not matter. For a clock that was set back see `lastKnown`.
   */
  async lastRecorded({ past: _none, ...viewpoint }: IdentityViewpoint, time: number): Promise<Position> {
    const { position } = await this.lastKnown(viewpoint, await this.rowOf(viewpoint), time);
    return Math.min(viewpoint.position, position);
  }

  private async rowOf({ tris_id, position }: IdentityViewpoint): Promise<IdentityRow> {
    const { results } = await this.views.readSince(position, [{ get: identityRow(tris_id) }]);
    return results[0] as IdentityRow;
  }

  /** The state of an identity that had few events at the viewpoint. */
  private async fold(viewpoint: IdentityViewpoint): Promise<IdentityState> {
    const state = newIdentity();
    for await (const page of this.events(viewpoint.tris_id, viewpoint)) {
      for (const event of page) evolve(state, event);
    }
    return state;
  }

  private async pastOfLarge(viewpoint: IdentityViewpoint, row: IdentityRow, spread: Spread) {
    const { tris_id, position, as_of, lens } = viewpoint;
    const large: SpreadIdentity = { tris_id, spread, position, ...(as_of < row.latest && { as_of }) };
    const facts = await this.pastFacts(viewpoint, spread);
    const totals = await this.evidence.through(large, MODEL_LENS);
    for (const total of Object.values(totals)) facts.actions += countActions(total);
    // Caches of results are keyed by this position.
    if (facts.actions > 0) facts.changed = Math.min(row.changed, position);
    const evidence = lens.tct_by_metric === null ? totals : await this.evidence.through(large, lens);
    return { state: { ...facts, evidence }, large };
  }

  /** The statements about a large identity up to the viewpoint. */
  private async pastFacts(viewpoint: IdentityViewpoint, spread: Spread): Promise<IdentityFacts> {
    const { evidence: _none, ...facts } = newIdentity();
    for await (const events of this.statements(viewpoint, spread))
      for (const event of events) evolveFacts(facts, event);
    return facts;
  }

  /** Events of a large identity that count at the viewpoint and are not actions, in log order. */
  async *statements(viewpoint: IdentityViewpoint, { since }: Spread): AsyncIterable<IdentityEvent[]> {
    const { tris_id, position } = viewpoint;
    const isOne = (event: IdentityEvent) =>
      event.type !== 'ActionRelayed' && event.position <= position && countsAsOf(event, viewpoint);
    for await (const events of this.evidence.eventsUntil(tris_id, since)) yield events.filter(isOne);
    for await (const rows of this.evidence.pages(statementsOf(tris_id), position, Infinity)) {
      yield rows.map(({ sort, value }) => unpack(tris_id, sort, value)).filter(isOne);
    }
  }

  /**
   * Position of the identity's last event before the first one that was recorded after a time; 0 if there is none.
   * Later events with an earlier time, from a clock that was set back, do not count, so that what is known at a time is
   * always a prefix of the log. `end` is the position of that first one or, if there is none, follows the viewpoint's.
   */
  private async lastKnown(
    { tris_id, ...present }: IdentityViewpoint,
    row: IdentityRow,
    knownAt: number,
  ): Promise<{ position: Position; end: Position }> {
    const viewpoint: IdentityViewpoint = { tris_id, ...present, as_of: Infinity };
    const end = present.position + 1;
    if (row.recorded <= knownAt && row.changed <= present.position) return { position: row.changed, end };
    let last = 0;
    let after = 0;
    if (row.spread) {
      // The last block before which nothing was recorded later.
      for await (const rows of this.evidence.pages(blocksOf(tris_id), present.position, Infinity)) {
        for (const { sort, value } of rows) if ((value as number) <= knownAt) after = Number(sort) - 1;
      }
      if (after < row.spread.since) after = 0;
      else last = await this.lastUpTo(viewpoint, after);
    }
    for await (const page of this.events(tris_id, viewpoint, after)) {
      for (const event of page) {
        if (event.recorded_at > knownAt) return { position: last, end: event.position };
        last = event.position;
      }
    }
    return { position: last, end };
  }

  /** Position of an identity's last event up to one; 0 if there is none. */
  private async lastUpTo({ tris_id, position }: IdentityViewpoint, upTo: Position): Promise<Position> {
    const range = { ...timelineOf(tris_id), after: sortByPosition(upTo + 1), reverse: true, limit: 1 };
    const { results } = await this.views.readSince(position, [{ range }]);
    return Number((results[0] as RangeRow[])[0]?.sort ?? 0);
  }

  /** The end of the current hour, or just before a verification expires within it, so that expiry is exact. */
  private defaultAsOf(state: IdentityFacts): number {
    const now = this.clock();
    let asOf = endOfHour(now);
    for (const { expires_at } of state.verifications) {
      const expiry = expires_at === null ? Infinity : Date.parse(expires_at);
      if (expiry > now && expiry <= asOf) asOf = expiry - 1;
    }
    return asOf;
  }

  private async limitOf(wire: string): Promise<Position> {
    const position = parsePosition(wire, this.views.logId);
    // A position that the log has lost is none either: an answer for it would leave out what was acknowledged.
    if (position === undefined || !(await this.views.has(position))) {
      throw new Problem('position_unknown', 'as_of_position must be a position of this log that has been reached.');
    }
    await this.views.requirePosition(position, 'The read models have not reached as_of_position yet.');
    return position;
  }
}

/** Actions read one by one at once: about half a millisecond's work. */
const PAGE = 128;

/** Issuers of an identity's verifications whose grants count only if they are accredited. */
function issuersToTrust({ state, viewpoint }: Found): string[] {
  return state.verifications
    .filter((held) => !isTrusted(held, undefined, viewpoint.position))
    .map(({ issuer }) => issuer);
}

/** With `past`, if the identity is large and not all its actions up to the position may count. */
function withPast(viewpoint: IdentityViewpoint, { spread, latest }: IdentityRow): IdentityViewpoint {
  return spread && viewpoint.as_of < latest ? { ...viewpoint, past: spread } : viewpoint;
}

/** A damaged event about an unknown identity may be about any identity. */
function lackingMore(found: Found | Problem): Found | Problem {
  if (found instanceof Problem || !found.viewpoint.mayLackMore) return found;
  const { state } = found;
  return { ...found, state: { ...state, dead_letters: [...state.dead_letters, 'unattributed'] } };
}

/** Whether all events about an identity count at a viewpoint. */
function isAll({ as_of, position }: IdentityViewpoint, row: IdentityRow, { known_at }: Coordinates): boolean {
  return known_at === undefined && row.latest <= as_of && row.changed <= position;
}

function hasEvidence(row: IdentityRow): row is IdentityRow & IdentityState {
  return row.evidence !== null;
}

/** Whether an event counts at the time of a viewpoint. */
export function countsAsOf(
  { type, occurred_at }: IdentityEvent,
  { as_of, isPresent }: Pick<IdentitySnapshot, 'as_of' | 'isPresent'>,
): boolean {
  return occurred_at <= as_of || (isPresent && type !== 'ActionRelayed');
}
