import { Inject } from '@nestjs/common';
import { type IQueryHandler, QueryHandler } from '@nestjs/cqrs';
import { accreditationRow } from '../../../projections/accreditations.js';
import { UNATTRIBUTED } from '../../../projections/dead-letters.js';
import {
  type IdentityFacts,
  type IdentityRow,
  type IdentityState,
  identityRow,
} from '../../../projections/identities.js';
import { QueryWith } from '../../commands/messages.js';
import { CLOCK, type Clock } from '../../kernel/clock.js';
import type { Position } from '../../kernel/event.js';
import { parsePosition } from '../../kernel/positions.js';
import { Problem, unknownIdentity } from '../../kernel/problems.js';
import { isDue, yieldIfDue } from '../../kernel/turn.js';
import { Views } from '../../read-side/views.js';
import type { Scoring } from '../../scoring/models/all.js';
import { type Accreditation, isTrusted, lastChange } from '../identity/domain/accreditation.js';
import type { Verification } from '../identity/domain/identity.js';
import { Lenses } from '../lenses/lenses.js';
import { type Coordinates, endOfHour } from './coordinates.js';
import { EvidenceReader } from './evidence-reader.js';

/** An identity as of a viewpoint. Its (as_of, position, lens, model) determine all numbers of an answer. */
export interface IdentitySnapshot {
  tris_id: string;
  /** ms: nothing that occurred later counts. */
  as_of: number;
  /** Whether this is the present. In the present, statements about the identity count whatever their time. */
  isPresent: boolean;
  /** Nothing after this position counts. */
  position: Position;
  /** The lens, with the version of the model. */
  lens: Scoring;
  /** Generation that served the rows. */
  generation: string;
  /** The state, with at least the evidence that the lens needs. */
  state: IdentityState;
  /** Whether a verification counts for a policy that names no issuer, as of the position. */
  trusts: (verification: Verification) => boolean;
  /** Reads everything else that is known of the identity at the viewpoint. */
  reader: EvidenceReader;
}

/** The states of identities as of one viewpoint, from which scores and metrics are computed. */
export class GetIdentities extends QueryWith<
  { trisIds: readonly string[]; coordinates: Coordinates },
  (IdentitySnapshot | Problem)[]
> {}

/** Finds identities at coordinates. */
@QueryHandler(GetIdentities)
export class IdentityReader implements IQueryHandler<GetIdentities> {
  constructor(
    private readonly views: Views,
    @Inject(CLOCK) private readonly clock: Clock,
    private readonly lenses: Lenses,
  ) {}

  get logId(): string {
    return this.views.logId;
  }

  execute({ input: { trisIds, coordinates } }: GetIdentities): Promise<(IdentitySnapshot | Problem)[]> {
    return this.snapshots(trisIds, coordinates);
  }

  /** @throws Problem identity_not_found, policy_not_found, position_unknown, projection_behind, projection_rebuilding */
  async snapshot(trisId: string, coordinates: Coordinates): Promise<IdentitySnapshot> {
    const { snapshots } = await this.look([trisId], coordinates);
    const [snapshot] = snapshots;
    if (snapshot instanceof Problem) throw snapshot;
    return snapshot!;
  }

  /**
   * Several identities under the same lens and from the same state of the read models; identity_not_found in place of
   * unknown ones.
   * @throws Problem policy_not_found, position_unknown, projection_behind, projection_rebuilding
   */
  async snapshots(trisIds: readonly string[], coordinates: Coordinates): Promise<(IdentitySnapshot | Problem)[]> {
    return (await this.look(trisIds, coordinates)).snapshots;
  }

  /** The same, with the lens, and the position at which unknown ones were not known. */
  async look(trisIds: readonly string[], coordinates: Coordinates) {
    return this.views.lookUp(async () => {
      const found = await this.find(trisIds, coordinates);
      const { lens, position } = found;
      return { snapshots: await this.read(found, coordinates.known_at), lens, position };
    }, areAllFound);
  }

  /**
   * An identity without its state, which is enough to read its events.
   * @param isKnown whether an earlier answer showed that the identity is known at the viewpoint
   * @throws Problem as `snapshot`
   */
  async open(trisId: string, coordinates: Coordinates, isKnown: boolean) {
    const look = async () => {
      const { readers, lens, generation } = await this.find([trisId], coordinates);
      const [reader] = readers as [EvidenceReader | Problem];
      if (reader instanceof Problem) return reader;
      if (isKnown || (await reader.isKnown())) return { reader, lens, generation };
      return unknownIdentity(trisId, 'at that time');
    };
    const found = await this.views.lookUp(look, (answer) => !(answer instanceof Problem));
    if (found instanceof Problem) throw found;
    return found;
  }

  /**
   * Finds identities in what the read models contain now, without their states; identity_not_found in place of unknown
   * ones. `unattributed` is for `lackingMore`.
   * @throws Problem as `snapshots`
   */
  async find(trisIds: readonly string[], coordinates: Coordinates) {
    const { known_at, as_of_position, ahead } = coordinates;
    const limit = as_of_position === undefined ? undefined : await this.limitOf(as_of_position);
    const rows = trisIds.map((trisId) => ({ get: identityRow(trisId) }));
    const read = await this.views.read([...rows, ...this.lenses.queries(coordinates), { get: UNATTRIBUTED }]);
    const { manifest, generation, position, results } = read;
    const lens = await this.lenses.resolve(coordinates, manifest, results.slice(trisIds.length, -1));
    const isPresent = coordinates.as_of === undefined && known_at === undefined;
    const known = results.slice(0, trisIds.length) as (IdentityRow | undefined)[];
    if (ahead && !known.some((row) => row && row.stamped >= coordinates.as_of!)) throw ahead;
    const readers: (EvidenceReader | Problem)[] = [];
    for (const [i, row] of known.entries()) {
      if (!row) {
        readers.push(unknownIdentity(trisIds[i]!));
        continue;
      }
      const now = coordinates.now ?? this.defaultAsOf(row);
      const as_of = coordinates.as_of ?? (isPresent ? Math.max(now, row.stamped) : now);
      const reader = new EvidenceReader(this.views, trisIds[i]!, row, limit ?? position, as_of, isPresent);
      if (known_at === undefined) readers.push(reader);
      else {
        const last = await reader.lastRecorded(known_at);
        readers.push(reader.at(last.position, last.end));
      }
    }
    return { readers, lens, generation, position, unattributed: results.at(-1) };
  }

  /**
   * Reads the states of identities, and the accreditations of those issuers whose grants count only with one. Few
   * identities have any. With `known_at`, the position becomes that of the last accreditation or withdrawal that was
   * known, if it is later.
   */
  private async read(
    { readers, lens, generation, unattributed }: Awaited<ReturnType<IdentityReader['find']>>,
    known_at: number | undefined,
  ): Promise<(IdentitySnapshot | Problem)[]> {
    const snapshots: (IdentitySnapshot | Problem)[] = [];
    const issuers = new Map<string, Accreditation | undefined>();
    const grants: { issuer: string; snapshot: IdentitySnapshot }[] = [];
    for (const [i, reader] of readers.entries()) {
      // Not before the first: a look-up of one identity would wait until each long piece of work has had its turn.
      if (i > 0 && isDue()) await yieldIfDue();
      if (reader instanceof Problem) {
        snapshots.push(reader);
        continue;
      }
      const known = reader.known ?? (await reader.state([lens]));
      const { tris_id, as_of, isPresent, position } = reader;
      if (known.changed === 0 && !reader.isAll) {
        snapshots.push(unknownIdentity(tris_id, 'at that time'));
        continue;
      }
      const state = unattributed ? lackingMore(known, unattributed) : known;
      const trusts = (held: Verification) => isTrusted(held, issuers.get(held.issuer), snapshot.position);
      const snapshot = { tris_id, as_of, isPresent, position, lens, generation, state, trusts, reader };
      snapshots.push(snapshot);
      for (const held of state.verifications) if (!trusts(held)) grants.push({ issuer: held.issuer, snapshot });
    }
    if (grants.length === 0) return snapshots;
    const names = [...new Set(grants.map(({ issuer }) => issuer))];
    const last = grants.reduce((latest, { snapshot }) => Math.max(latest, snapshot.position), 0);
    const gets = names.map((issuer) => ({ get: accreditationRow(issuer) }));
    const { results } = await this.views.readSince(last, gets);
    for (const [i, issuer] of names.entries()) issuers.set(issuer, results[i] as Accreditation | undefined);
    if (known_at === undefined) return snapshots;
    for (const { issuer, snapshot } of grants) {
      const change = lastChange(issuers.get(issuer), known_at, snapshot.reader.end);
      snapshot.position = Math.max(snapshot.position, change);
    }
    return snapshots;
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

/**
 * A state while there are damaged events about an unknown identity: one may be about this one.
 * @param unattributed the row of their number
 */
export function lackingMore(state: IdentityState, unattributed: unknown): IdentityState {
  return Number(unattributed ?? 0) > 0 ? { ...state, dead_letters: [...state.dead_letters, 'unattributed'] } : state;
}

const areAllFound = ({ snapshots }: { snapshots: readonly unknown[] }): boolean =>
  !snapshots.some((each) => each instanceof Problem);
