import type { IdentityState } from '../../../projections/identities.js';
import type { Actor } from '../../commands/context.js';
import type { Lens } from '../../scoring/lens.js';
import type { Scoring } from '../../scoring/models/all.js';
import type { LensOwner } from '../lenses/domain/lens-stream.js';

/** An access policy, prepared for evaluating many identities. */
export interface AccessProbe {
  policy_id: string;
  /** The lens of its checks, if the previewed change does not affect it; null if the change switches it. */
  lens: Lens | null;
  /** Whether it would grant under this lens, or under its own if it has one, by this version of the model. */
  grants(state: IdentityState, lens: Scoring, asOf: number): boolean;
}

/** The actor that asks for a preview; of its scopes only `ops` matters. */
export type RulesReader = Pick<Actor, 'organization' | 'scopes' | 'session'>;

/** Gives previews access to the access policies. Without a provider, previews contain no access decisions. */
export interface AccessPreview {
  /**
   * Probes use the same lens as a check: the validation policy that the access policy names, or its owner's lens, or
   * the platform's.
   * @param switched owner of the lens that the previewed change switches
   * @param policyIds default: all that are not retired and whose rules the reader may read
   * @param reader undefined: may read all. Who passes says as much as the rules do.
   * @throws Problem policy_not_found; forbidden for a policy whose rules the reader may not read
   */
  probes(switched: LensOwner, policyIds?: readonly string[], reader?: RulesReader): Promise<AccessProbe[]>;

  /** Those of these policies whose rules the reader may read. */
  readable(policyIds: readonly string[], reader: RulesReader): Promise<Set<string>>;
}
export const ACCESS_PREVIEW = Symbol('AccessPreview');
