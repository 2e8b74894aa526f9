import { type Fact, fact, streamFold } from '../../../kernel/event-definition.js';
import { fieldProblem } from '../../../kernel/problems.js';
import { policyNameAssigned } from './policy-names.events.js';

/** `VP_<NAME>` or `AP_<NAME>`: the id of a policy without its version. */
export const POLICY_NAME = /^[AV]P_[A-Z0-9_]{1,125}$/;

/** Who may create versions of a name; undefined: nobody has yet. `owner` null: the platform's operators. */
export type NameOwnership = { owner: string | null } | undefined;

/** @param policyId a valid id of a validation policy or of an access policy */
export function policyNameOf(policyId: string): string {
  return policyId.replace(/_V\d+$/, '');
}

export function policyNameStream(name: string): string {
  return `policy-name-${name}`;
}

/** Folds a `policy-name-<name>` stream. @throws Problem history_unreadable */
export const nameOwnershipOf = streamFold(
  [policyNameAssigned],
  (_before: NameOwnership, { data: { owner } }): NameOwnership => ({ owner }),
);

/**
 * The organization that creates the first version of a name owns it. Keys of other organizations cannot create further
 * versions.
 * @param older the owner of the oldest version, for a name that was in use before ownership was recorded
 * @param owner of the policy to be created @param organization of the key; null: an operator's key
 * @throws Problem policy_name_not_owned
 */
export function decideUseName(
  recorded: NameOwnership,
  older: NameOwnership,
  { name, owner, organization }: { name: string; owner: string | null; organization: string | null },
): Fact[] {
  const ownership = recorded ?? older ?? { owner };
  if (organization !== null && organization !== ownership.owner) {
    const message = `the name ${name} belongs to ${ownership.owner ?? 'the operators'}`;
    const detail = `${organization} cannot create this policy: ${message}.`;
    throw fieldProblem('/policy_id', 'policy_name_not_owned', message, detail);
  }
  return recorded ? [] : [fact(policyNameAssigned, { name, owner: ownership.owner })];
}

/** An operator's decision, for example about a name that somebody took first. Does nothing if it is so already. */
export function decideAssignName(recorded: NameOwnership, name: string, owner: string | null): Fact[] {
  return recorded?.owner === owner ? [] : [fact(policyNameAssigned, { name, owner })];
}
