import { Problem, refuseMisspelled } from '../../kernel/problems.js';
import type { IdentityReader } from '../disc/identity-reader.js';
import type { Observation } from './access-check.js';
import type { AccessPolicy } from './domain/access-policy.js';
import { SubjectFacts } from './facts.js';

/**
 * Reads what is known of subjects in one state of the read models: as of now, not of the end of the hour, so that a
 * verification counts exactly until it expires. If a server's clock that is ahead has given a later time to an event
 * about a subject, as of that time.
 * @param now ms
 * @throws Problem identity_not_found if one is misspelled, policy_not_found for the lens, projection_rebuilding
 */
export async function observe(
  trisIds: readonly string[],
  { vp, owner }: Pick<AccessPolicy, 'vp' | 'owner'>,
  identities: IdentityReader,
  now: number,
): Promise<Observation[]> {
  const coordinates = { now, organization: owner, ...(vp !== null && { vp }) };
  const looked = await identities.look(trisIds, coordinates);
  return looked.snapshots.map((snapshot, i) => {
    if (snapshot instanceof Problem) {
      refuseMisspelled(trisIds[i]);
      return { now, as_of: now, position: looked.position, model: looked.lens.model, seen: null };
    }
    const { state, lens, position, as_of, trusts } = snapshot;
    const facts = new SubjectFacts(state, lens, as_of, trusts);
    return { now, as_of, position, model: lens.model, seen: { facts, lens, state } };
  });
}
