import { type Actor, keyIdOf } from '../../commands/context.js';
import { Problem } from '../../kernel/problems.js';
import type { LensScope } from '../lenses/domain/lenses.events.js';

/** A key of an organization can only act for that one. @throws Problem forbidden */
export function refuseUnlessOwner({ name, organization }: Pick<Actor, 'name' | 'organization'>, trisOrg: string): void {
  if (organization !== null && organization !== trisOrg) throw bound(name, organization, trisOrg);
}

/** A key of an organization cannot act for the platform. @throws Problem forbidden */
export function refuseUnlessPlatform({ name, organization }: Pick<Actor, 'name' | 'organization'>): void {
  if (organization !== null) throw bound(name, organization, 'the platform');
}

/** @throws Problem forbidden unless the actor may switch this lens */
export function refuseSwitch(actor: Actor, scope: LensScope, trisOrg: string): void {
  const needed = scope === 'platform' ? 'ops' : 'policies:write';
  if (!actor.scopes.has(needed)) {
    throw new Problem('forbidden', `The key "${keyIdOf(actor.name)}" lacks the scope "${needed}".`);
  }
  refuseUnlessOwner(actor, trisOrg);
}

function bound(name: string, organization: string, other: string): Problem {
  const detail = `The key "${keyIdOf(name)}" is bound to ${organization} and cannot act for ${other}.`;
  return new Problem('forbidden', detail);
}
