import { type Actor, keyIdOf } from '../../commands/context.js';
import { Problem } from '../../kernel/problems.js';
import type { LensScope } from '../lenses/domain/lenses.events.js';

/** A key of an organization can only act for that one, and not for the platform (null). @throws Problem forbidden */
export function refuseUnlessOwner({ name, organization }: Actor, trisOrg: string | null): void {
  if (organization === null || organization === trisOrg) return;
  const detail = `The key "${keyIdOf(name)}" is bound to ${organization} and cannot act for ${trisOrg ?? 'the platform'}.`;
  throw new Problem('forbidden', detail);
}

/** @throws Problem forbidden unless the actor may switch this lens */
export function refuseSwitch(actor: Actor, scope: LensScope, trisOrg: string): void {
  const needed = scope === 'platform' ? 'ops' : 'policies:write';
  if (!actor.scopes.has(needed)) {
    throw new Problem('forbidden', `The key "${keyIdOf(actor.name)}" lacks the scope "${needed}".`);
  }
  refuseUnlessOwner(actor, trisOrg);
}
