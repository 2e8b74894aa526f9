import { IsWrittenTrisId, Matches } from '../../http/fields.js';
import { POLICY_NAME } from './domain/policy-name.js';

export class AssignPolicyNameDto {
  /** `VP_<NAME>` or `AP_<NAME>`: the ids of policies without their version. */
  @Matches(POLICY_NAME, { message: '$property must have the form VP_<NAME> or AP_<NAME>, without a version' })
  name: string;

  /** The organization whose keys may create versions of it from now on. */
  @IsWrittenTrisId()
  tris_org: string;
}

export class PolicyNameDto {
  /** The id of a policy without its version. */
  name: string;
  tris_org: string;
}
