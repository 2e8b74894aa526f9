import type { Actor } from '../../commands/context.js';
import { Problem } from '../../kernel/problems.js';
import { canonicalMetric, criticalityOf } from '../../scoring/names.js';
import type { PolicyContent } from '../lenses/domain/validation-policy.js';
import type { CreatePolicyDto } from './vp.dto.js';

/** Converts a request body to canonical terms. */
export function toContent({ policy_id, tris_org, inputs, metadata }: CreatePolicyDto): PolicyContent {
  const { total_weight, visibility, version } = metadata;
  return {
    policy_id,
    tris_org,
    inputs: inputs.map(({ metric, criticality, weight }) => ({
      metric: canonicalMetric(metric)!,
      criticality: criticalityOf(criticality)!,
      weight,
    })),
    metadata: { total_weight, visibility, version },
    names: inputs.map(({ metric }) => metric),
  };
}

/** The id of a key as its owner knows it: the actor's name without what the log puts before it. */
export const keyIdOf = (name: string): string => name.replace(/^key:/, '');

/** A key bound to an organization can only act for that one. @throws Problem forbidden */
export function refuseUnlessOwner({ name, organization }: Pick<Actor, 'name' | 'organization'>, trisOrg: string): void {
  if (organization === null || organization === trisOrg) return;
  throw new Problem(
    'forbidden',
    `The key "${keyIdOf(name)}" is bound to ${organization} and cannot act for ${trisOrg}.`,
  );
}

/** What concerns the whole platform is not for keys of an organization. @throws Problem forbidden */
export function refuseBound({ name, organization }: Pick<Actor, 'name' | 'organization'>): void {
  if (organization === null) return;
  throw new Problem('forbidden', `The key "${name}" is bound to ${organization} and cannot act for the platform.`);
}
