import { internalContext } from '../../commands/context.js';
import { Writer } from '../../commands/writer.js';
import type { EventStore } from '../../stores/ports/event-store.js';
import { CHECKPOINTS_STREAM, decideBeginOrigin } from './domain/checkpoints.js';

/**
 * Begins a new origin of checkpoints, as an operator's decision.
 * @param replaces the origin of the last checkpoint that was signed; null: of none
 * @param reason a code
 * @returns the new origin
 */
export async function beginOrigin(
  store: EventStore,
  replaces: string | null,
  reason: string,
  actor: string,
): Promise<string> {
  const begun = decideBeginOrigin(replaces, reason, actor);
  const context = internalContext(actor, begun.data);
  await new Writer(store, Date.now).update(CHECKPOINTS_STREAM, context, () => [begun]);
  return String(begun.data['origin']);
}
