import type { IdentityState } from '../../../projections/identities.js';
import type { Lens } from '../../scoring/lens.js';

/** One access policy, ready to be tried on any number of identities. */
export interface AccessProbe {
  policy_id: string;
  /** Would it grant, seen through this lens? One that names a validation policy of its own sees through that instead. */
  grants(state: IdentityState, lens: Lens, asOf: number): boolean;
}

/** What previews ask of the access policies. Without a provider no access is previewed. */
export interface AccessPreview {
  /** @param policyIds default: all there are @throws Problem policy_not_found */
  probes(policyIds?: readonly string[]): Promise<AccessProbe[]>;
}
export const ACCESS_PREVIEW = Symbol('AccessPreview');
