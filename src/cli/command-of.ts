import { type CommandContext, internalActor, internalContext } from '../commands/context.js';

/** Reads. Anyone who can run a command on the store's folder may act for every organization. */
export const OPERATOR = internalActor('cli', ['ops', 'policies:write']);

/** A command of this actor. Without an Idempotency-Key, since repeating these commands changes nothing. */
export function commandOf(actor: string, body: object): CommandContext {
  return { ...internalContext(actor, body), actor: { ...OPERATOR, name: actor } };
}
