import { isIncomplete } from '../../../projections/identities.js';
import { BoundedMap } from '../../kernel/bounded-map.js';
import { formatPosition } from '../../kernel/positions.js';
import { categoryHealth } from '../../scoring/health.js';
import { type Standing, standingOf } from '../../scoring/score.js';
import type { BadStatus } from '../identity/domain/identity.js';
import type { BadStatusSinceDto, DiscScoreDto, ScoreDto } from './disc.dto.js';
import type { IdentitySnapshot } from './identity-reader.js';

/** The score, rating and TCT of an identity as of a viewpoint. */
export function standing({ state, lens }: IdentitySnapshot): Standing {
  return standingOf(lens.model.ledger(state.evidence, lens), state.bad_status?.level ?? null);
}

/** The public score (requirement 17). */
export function discScore(snapshot: IdentitySnapshot): DiscScoreDto {
  const { total_tct, score_rating } = standing(snapshot);
  const disc_metrics = categoryHealth(snapshot.state.evidence, snapshot.lens, snapshot.as_of);
  return { tris_id: snapshot.tris_id, total_tct, score_rating, disc_metrics };
}

/** Answers that are kept: about 2 MB. */
const KEPT = 4_000;

type Answered = Pick<IdentitySnapshot, 'generation' | 'lens' | 'as_of' | 'isPresent'> & {
  changed: number;
  text: string;
};

/**
 * Cache of serialized public scores. Generation, identity and the position of its last change determine a state; state,
 * lens and time determine the answer. While none of them changes, the answer is the same to the byte.
 */
export class ScoreAnswers {
  private readonly known = new BoundedMap<string, Answered>(KEPT);

  of(snapshot: IdentitySnapshot): string {
    const { tris_id, generation, lens, as_of, isPresent } = snapshot;
    const { changed } = snapshot.state;
    const last = this.known.get(tris_id);
    if (
      last?.changed === changed &&
      last.as_of === as_of &&
      last.isPresent === isPresent &&
      last.generation === generation &&
      last.lens === lens
    ) {
      return last.text;
    }
    const text = JSON.stringify(discScore(snapshot));
    this.known.set(tris_id, { generation, lens, as_of, isPresent, changed, text });
    return text;
  }
}

/** The full score with everything needed to reproduce it. */
export function score(snapshot: IdentitySnapshot, logId: string): ScoreDto {
  const { state, lens, as_of } = snapshot;
  const { ledger, assessment } = lens.model.measure(state.evidence, lens, as_of);
  return {
    tris_id: snapshot.tris_id,
    ...standingOf(ledger, state.bad_status?.level ?? null),
    ...assessment,
    disc_metrics: categoryHealth(state.evidence, lens, as_of),
    verification: verificationsOf(snapshot),
    bad_status: null,
    ...badStatusOf(state.bad_status),
    ...coordinatesOf(snapshot, logId),
    generation: snapshot.generation,
    ...(isIncomplete(state) && { incomplete: true }),
    ...disputedOf(snapshot),
  };
}

/** How many statements about an identity are disputed now; nothing if none is. */
export function disputedOf({ reader }: Pick<IdentitySnapshot, 'reader'>): { disputed?: number } {
  const { disputes } = reader.row;
  return disputes ? { disputed: disputes.length } : {};
}

/** A BAD status as answers show it; nothing without one. */
export function badStatusOf(status: BadStatus | null): { bad_status?: BadStatusSinceDto } {
  return status ? { bad_status: { ...status, since: new Date(status.since).toISOString() } } : {};
}

/** Reliability and its certainty; nothing in versions that do not say how sure it is. */
export function reliabilityOf({ state: { evidence }, lens, as_of }: IdentitySnapshot) {
  const assessed = lens.model.assess(evidence, lens, as_of);
  return assessed.evidence ? assessed : null;
}

/** Verifications that are valid at the viewpoint's time, and whether each counts for a policy that names no issuer. */
export function verificationsOf({ state, as_of, trusts }: IdentitySnapshot) {
  return state.verifications
    .filter(({ expires_at }) => expires_at === null || Date.parse(expires_at) > as_of)
    .map((held) => {
      const { status, issuer, scheme, expires_at } = held;
      return { status, issuer, scheme, expires_at, accredited: trusts(held) };
    });
}

/** The four coordinates of an answer. Equal coordinates always give equal numbers. */
export function coordinatesOf({ as_of, position, lens }: IdentitySnapshot, logId: string) {
  return {
    lens: { policy_id: lens.policy_id, content_hash: lens.content_hash },
    model: { id: lens.model.id, hash: lens.model.hash },
    as_of: new Date(as_of).toISOString(),
    position: formatPosition(logId, position),
  };
}

/** What an answer depends on besides its URL. */
export function etagPartsOf(
  answer: Pick<IdentitySnapshot, 'as_of' | 'position' | 'lens' | 'generation'> & Partial<IdentitySnapshot>,
): (string | number)[] {
  const { as_of, position, lens, generation, reader, state } = answer;
  const disputed = reader?.row.disputes?.length ?? 0;
  // No coordinates determine whether another event is damaged.
  const lacking = state?.dead_letters.length ?? 0;
  return [position, lens.content_hash, lens.model.hash, as_of, generation, disputed, lacking];
}
