import { Inject, Injectable } from '@nestjs/common';
import { type IdentityState, evolve, identityRow, newIdentity } from '../../../projections/identities.js';
import type { IdentityEvent } from '../../../projections/identity-events.js';
import { sortByPosition } from '../../../projections/projection.js';
import { timelineOf, unpack } from '../../../projections/timeline.js';
import { CLOCK, type Clock } from '../../kernel/clock.js';
import type { Position } from '../../kernel/event.js';
import { parsePosition } from '../../kernel/positions.js';
import { Problem, unknownIdentity } from '../../kernel/problems.js';
import { ValidationPolicies } from '../lenses/validation-policies.js';
import { Views } from '../../read-side/views.js';
import type { RangeRow } from '../../stores/ports/read-models.js';
import type { Lens } from '../../scoring/lens.js';
import { type Coordinates, endOfHour } from './coordinates.js';

/** The point of view of an answer. (as_of, position, lens, model) determine all its numbers. */
export interface Viewpoint {
  /** ms: nothing that occurred later counts. */
  as_of: number;
  /** Nothing after this position counts. */
  position: Position;
  lens: Lens;
  /** Generation that served the rows. */
  generation: string;
}

/** The state of an identity as of a viewpoint. */
export interface IdentitySnapshot extends Viewpoint {
  tris_id: string;
  /**
   * Whether this is the present. In the present, statements about the identity count whatever their time, which may
   * come from a clock that is ahead of this one; only actions are filtered by time.
   */
  isPresent: boolean;
  state: IdentityState;
}

const PAGE = 1_000;

/** Reads identities: the accumulated row for the present, a fold of the timeline for the past. */
@Injectable()
export class IdentityReader {
  constructor(
    private readonly views: Views,
    @Inject(CLOCK) private readonly clock: Clock,
    private readonly policies: ValidationPolicies,
  ) {}

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
    const limit = coordinates.as_of_position === undefined ? undefined : await this.limitOf(coordinates.as_of_position);
    return this.views.lookUp(
      () => this.look(trisIds, coordinates, limit),
      (snapshots) => !snapshots.some((snapshot) => snapshot instanceof Problem),
    );
  }

  private async look(
    trisIds: readonly string[],
    coordinates: Coordinates,
    limit: Position | undefined,
  ): Promise<(IdentitySnapshot | Problem)[]> {
    const rows = trisIds.map((trisId) => ({ get: identityRow(trisId) }));
    const read = await this.views.read([...rows, ...this.policies.queries(coordinates)]);
    const { manifest, generation, results } = read;
    const lens = await this.policies.resolve(coordinates, manifest, results.slice(trisIds.length));
    const position = limit ?? read.position;
    const isPresent = coordinates.as_of === undefined && coordinates.known_at === undefined;
    const snapshots: (IdentitySnapshot | Problem)[] = [];
    for (const [i, tris_id] of trisIds.entries()) {
      const state = results[i] as unknown as IdentityState | undefined;
      if (!state) {
        snapshots.push(unknownIdentity(tris_id));
        continue;
      }
      const as_of = coordinates.as_of ?? coordinates.now ?? this.defaultAsOf(state);
      const snapshot = { tris_id, as_of, isPresent, position, lens, generation, state };
      const isAll = coordinates.known_at === undefined && state.latest <= as_of && state.changed <= position;
      snapshots.push(isAll ? snapshot : await this.pastSnapshot(snapshot, coordinates));
    }
    return snapshots;
  }

  /** The events of an identity's timeline up to a viewpoint, in log order, in pages. */
  async *events(
    trisId: string,
    viewpoint: Omit<IdentitySnapshot, 'state'>,
    after: Position = 0,
  ): AsyncIterable<IdentityEvent[]> {
    for (let last = after; ;) {
      const range = { ...timelineOf(trisId), after: sortByPosition(last), limit: PAGE };
      const { results } = await this.views.readSince(viewpoint.position, [{ range }]);
      const rows = results[0] as RangeRow[];
      const known = rows.filter(({ sort }) => Number(sort) <= viewpoint.position);
      const events = known.map(({ sort, value }) => unpack(trisId, sort, value));
      yield events.filter((event) => counts(event, viewpoint));
      if (rows.length < PAGE || known.length < rows.length) return;
      last = Number(rows.at(-1)!.sort);
    }
  }

  private async pastSnapshot(
    snapshot: IdentitySnapshot,
    { as_of, now, known_at, as_of_position }: Coordinates,
  ): Promise<IdentitySnapshot | Problem> {
    const viewpoint = { ...snapshot };
    if (known_at !== undefined) viewpoint.position = await this.lastKnown(snapshot, known_at);
    const state = newIdentity();
    for await (const page of this.events(snapshot.tris_id, viewpoint)) {
      for (const event of page) evolve(state, event);
    }
    const isAsked = [as_of, now, known_at, as_of_position].some((coordinate) => coordinate !== undefined);
    if (state.changed === 0 && isAsked) return unknownIdentity(snapshot.tris_id, 'at that time');
    return { ...viewpoint, state };
  }

  /** Position of the identity's last event that was recorded by a time; 0 if none was. */
  private async lastKnown(present: IdentitySnapshot, knownAt: number): Promise<Position> {
    let last = 0;
    for await (const page of this.events(present.tris_id, { ...present, as_of: Infinity })) {
      for (const event of page) if (event.recorded_at <= knownAt) last = event.position;
    }
    return last;
  }

  /** The end of the current hour, or just before a verification expires within it, so that the expiry is exact. */
  private defaultAsOf(state: IdentityState): number {
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
    if (position === undefined || position > (await this.views.head())) {
      throw new Problem('position_unknown', 'as_of_position must be a position of this log that has been reached.');
    }
    await this.views.requirePosition(position, 'The read models have not reached as_of_position yet.');
    return position;
  }
}

/** Whether an event counts at the time of a viewpoint. */
export function counts(
  { type, occurred_at }: IdentityEvent,
  { as_of, isPresent }: Pick<IdentitySnapshot, 'as_of' | 'isPresent'>,
): boolean {
  return occurred_at <= as_of || (isPresent && type !== 'ActionRelayed');
}
