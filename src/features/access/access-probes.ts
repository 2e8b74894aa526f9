import { Injectable } from '@nestjs/common';
import { ACCESS_POLICIES } from '../../../projections/access-policies.js';
import { ACCREDITATIONS } from '../../../projections/accreditations.js';
import { type Accreditation, isTrusted } from '../identity/domain/accreditation.js';
import type { Verification } from '../identity/domain/identity.js';
import type { IdentityState } from '../../../projections/identities.js';
import { Problem } from '../../kernel/problems.js';
import { Views } from '../../read-side/views.js';
import type { Lens } from '../../scoring/lens.js';
import { type Scoring, scoringBy } from '../../scoring/models/all.js';
import { Lenses } from '../lenses/lenses.js';
import type { LensOwner } from '../lenses/domain/lens-stream.js';
import { type AccessPolicy, type AccessPolicyContent, type Reader, mayReadRules } from './domain/access-policy.js';
import { AccessPolicies } from './access-policies.js';
import { TRUE, evaluate } from './evaluate.js';
import { type Facts, SubjectFacts } from './facts.js';
import { type Rule, validRules } from './rules.js';

/** An access policy, prepared for evaluating many identities. */
export interface AccessProbe {
  policy_id: string;
  /** The lens of its checks, if the previewed change does not affect it; null if the change switches it. */
  lens: Lens | null;
  /** Whether it would grant under this lens, or under its own if it has one, by this version of the model. */
  grants(state: IdentityState, lens: Scoring, asOf: number): boolean;
}

/** Evaluates access policies for previews of validation policies. Records nothing. */
@Injectable()
export class AccessProbes {
  constructor(
    private readonly views: Views,
    private readonly policies: AccessPolicies,
    private readonly lenses: Lenses,
  ) {}

  /**
   * Probes use the same lens as a check: the validation policy that the access policy names, or its owner's lens, or
   * the platform's.
   * @param switched owner of the lens that the previewed change switches
   * @param policyIds default: all that are not retired and whose rules the reader may read
   * @param reader undefined: may read all. Who passes says as much as the rules do.
   * @throws Problem policy_not_found; forbidden for a policy whose rules the reader may not read
   */
  async probes(switched: LensOwner, policyIds?: readonly string[], reader?: Reader): Promise<AccessProbe[]> {
    const ids = policyIds ?? (await this.views.rows(ACCESS_POLICIES)).map(({ sort }) => sort);
    const asked = await Promise.all(ids.map((policyId) => this.policies.get(policyId)));
    const isHidden = (policy: AccessPolicy) => reader !== undefined && !mayReadRules(policy, reader);
    const hidden = policyIds && asked.find(isHidden);
    if (hidden)
      throw new Problem('forbidden', `The rules of ${hidden.policy_id} are private, and so is whom they grant.`);
    const policies = policyIds ? asked : asked.filter((policy) => !policy.retired && !isHidden(policy));
    const facts = sharedFacts(await trustedNow(this.views));
    return Promise.all(
      policies.map(async (policy) => {
        const rule = this.policies.rulesOf(policy);
        return probeOf(policy.policy_id, rule, await this.fixedLens(policy, switched), facts);
      }),
    );
  }

  /** Those of these policies whose rules the reader may read. */
  async readable(policyIds: readonly string[], reader: Reader): Promise<Set<string>> {
    const policies = await Promise.all(policyIds.map((policyId) => this.policies.get(policyId)));
    return new Set(policies.filter((policy) => mayReadRules(policy, reader)).map(({ policy_id }) => policy_id));
  }

  /**
   * Probes of policies that need not be stored.
   * @param proposed with the lens of their checks; null: the one that the previewed change switches
   * @throws Problem validation_failed for rules that are not valid
   */
  async probesOf(
    proposed: readonly (Pick<AccessPolicyContent, 'policy_id' | 'rules'> & { lens: Lens | null })[],
  ): Promise<AccessProbe[]> {
    const facts = sharedFacts(await trustedNow(this.views));
    return proposed.map(({ policy_id, rules, lens }) => probeOf(policy_id, validRules(rules), lens, facts));
  }

  /** The lens of a policy's checks, if the switch does not affect it; null if it is the one that is switched. */
  private async fixedLens({ vp, owner }: AccessPolicy, switched: LensOwner): Promise<Lens | null> {
    if (vp !== null) return this.lenses.of(vp);
    if (owner === switched.tris_org) return null;
    const { lens, isOwn } = await this.lenses.current({ organization: owner }, this.views);
    // An organization that has promoted no lens uses the platform's.
    return switched.scope === 'platform' && !isOwn ? null : lens;
  }
}

function probeOf(policy_id: string, rule: Rule, own: Lens | null, facts: ReturnType<typeof sharedFacts>): AccessProbe {
  return {
    policy_id,
    lens: own,
    grants: (state, lens, asOf) => evaluate(rule, facts(state, own ? scoringBy(own, lens.model) : lens, asOf)) === TRUE,
  };
}

/** Whether a verification counts now for a policy that names no issuer; for many identities. */
export async function trustedNow(views: Views): Promise<(held: Verification) => boolean> {
  const rows = await views.rows(ACCREDITATIONS);
  const accreditations = new Map(rows.map(({ sort, value }) => [sort, value as Accreditation]));
  return (held) => isTrusted(held, accreditations.get(held.issuer), Number.MAX_SAFE_INTEGER);
}

/** Building the facts costs the most: those of one identity are built once for each lens and shared by all policies. */
function sharedFacts(trusts: (held: Verification) => boolean) {
  let last: { state: IdentityState; asOf: number; byLens: Map<Scoring, Facts> } | undefined;
  return (state: IdentityState, lens: Scoring, asOf: number): Facts => {
    if (last?.state !== state || last.asOf !== asOf) last = { state, asOf, byLens: new Map() };
    let facts = last.byLens.get(lens);
    if (!facts) last.byLens.set(lens, (facts = new SubjectFacts(state, lens, asOf, trusts)));
    return facts;
  };
}
