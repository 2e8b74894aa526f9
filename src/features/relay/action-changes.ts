import { Injectable } from '@nestjs/common';
import type { CommandContext } from '../../commands/context.js';
import { Writer } from '../../commands/writer.js';
import type { Position, RecordedEvent } from '../../kernel/event.js';
import { RelayMetrics } from './relay-metrics.js';
import { Platforms } from '../organizations/platforms.js';
import type { Reason } from './domain/relay.events.js';
import { type ActionState, type RecordedAction, actionIn, decideChange } from './domain/withdrawal.js';

interface Change {
  /** As it was read from its stream. */
  action: RecordedAction;
  to: ActionState;
  reason: Reason;
  context: CommandContext;
}

/** Withdraws actions, and reinstates them, in their own streams. */
@Injectable()
export class ActionChanges {
  constructor(
    private readonly writer: Writer,
    private readonly platforms: Platforms,
    private readonly metrics: RelayMetrics,
  ) {}

  /**
   * @returns the position of the event that brought it into this state; asked again, the first answer
   * @throws Problem action_not_withdrawn, write_conflict, idempotency_key_reused
   */
  async change({ action, to, reason, context }: Change): Promise<Position> {
    const { id: action_id, stream } = action.relayed;
    const owner = await this.ownerThen(action);
    const decide = (history: readonly RecordedEvent[]) =>
      decideChange(actionIn(history, action_id)!, to, reason, owner);
    const { own, position, history, isNew } = await this.writer.execute(stream, context, decide);
    if (isNew) this.metrics.changes.inc(action.relayed.data.platform_id, to);
    return own ? position : actionIn(history, action_id)!.changes.at(-1)!.position;
  }

  /** The organization that owned the platform when the action's credonation was recorded, or null. */
  async ownerThen({ credonation }: RecordedAction): Promise<string | null> {
    return credonation ? this.platforms.ownerAt(credonation.data.platform_id, credonation.position) : null;
  }
}
