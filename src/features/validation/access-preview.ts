import type { IdentityState } from '../../../projections/identities.js';
import type { Lens } from '../../scoring/lens.js';
import type { LensOwner } from '../lenses/domain/lens-stream.js';

/** One access policy, ready to be tried on any number of identities. */
export interface AccessProbe {
  policy_id: string;
  /** What its checks see through whatever is switched; null: through the lens that is switched. */
  lens: Lens | null;
  /** Would it grant, seen through this lens (or its own)? */
  grants(state: IdentityState, lens: Lens, asOf: number): boolean;
}

/** What previews ask of the access policies. Without a provider no access is previewed. */
export interface AccessPreview {
  /**
   * Each as a check would see: through the validation policy it names, else its owner's lens, else the platform's.
   * @param switched whose lens the change that is previewed switches
   * @param policyIds default: all there are
   * @throws Problem policy_not_found
   */
  probes(switched: LensOwner, policyIds?: readonly string[]): Promise<AccessProbe[]>;
}
export const ACCESS_PREVIEW = Symbol('AccessPreview');
