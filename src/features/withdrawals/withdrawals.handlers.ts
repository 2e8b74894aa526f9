import { CommandHandler, type ICommandHandler, type IQueryHandler, QueryHandler } from '@nestjs/cqrs';
import type { Actor, CommandContext } from '../../commands/context.js';
import { CommandWith, QueryWith } from '../../commands/messages.js';
import type { Position } from '../../kernel/event.js';
import { formatPosition } from '../../kernel/positions.js';
import { Views } from '../../read-side/views.js';
import { changedBy, countedAction } from '../disc/evidence-reader.js';
import { score } from '../disc/score.js';
import { IdentityReader } from '../disc/identity-reader.js';
import type { Reason } from '../relay/domain/relay.events.js';
import { type ActionState, decideChange, stateOf } from '../relay/domain/withdrawal.js';
import { RecordedActions } from '../relay/recorded-actions.js';
import type { ActionDto, ChangedActionDto } from './withdrawals.dto.js';

/** What is asked for an action. */
export interface ActionChange {
  action_id: string;
  to: ActionState;
  reason: Reason;
}

/** Withdraws an action, or reinstates it. Asked again, gives the first answer. */
export class ChangeAction extends CommandWith<ActionChange & { context: CommandContext }, Position> {}

@CommandHandler(ChangeAction)
export class ChangeActionHandler implements ICommandHandler<ChangeAction> {
  constructor(private readonly actions: RecordedActions) {}

  /** @throws Problem not_found, forbidden, self_statement, action_not_withdrawn, write_conflict, idempotency_key_reused */
  async execute({ input: { action_id, to, reason, context } }: ChangeAction): Promise<Position> {
    const action = await this.actions.findToChange(action_id, context.actor);
    return this.actions.change({ action, to, reason, context });
  }
}

/** The score before and after such a change, which is not made. */
export class PreviewChange extends QueryWith<ActionChange & { actor: Actor }, ChangedActionDto> {}

@QueryHandler(PreviewChange)
export class PreviewChangeHandler implements IQueryHandler<PreviewChange> {
  constructor(
    private readonly actions: RecordedActions,
    private readonly identities: IdentityReader,
    private readonly views: Views,
  ) {}

  /** @throws Problem as `ChangeAction`, projection_behind */
  async execute({ input: { action_id, to, reason, actor } }: PreviewChange): Promise<ChangedActionDto> {
    const action = await this.actions.findToChange(action_id, actor);
    const { relayed, changes } = action;
    const facts = decideChange(action, to, reason, await this.actions.ownerThen(action));
    const last = changes.at(-1) ?? relayed;
    await this.views.requirePosition(last.position, 'The read models have not reached the last change of the action.');
    const before = await this.identities.snapshot(relayed.data.tris_id, { organization: actor.organization });
    const sign = to === 'counted' ? 1 : -1;
    const counted = facts.length > 0 && relayed.occurred_at <= before.as_of ? [countedAction(relayed)] : [];
    const after = { ...before, state: changedBy(before.state, counted, sign, before.lens) };
    const { logId } = this.views;
    return { action_id, state: to, before: score(before, logId), after: score(after, logId) };
  }
}

/** An action, as its stream is now. */
export class GetAction extends QueryWith<{ action_id: string; actor: Actor }, ActionDto> {}

@QueryHandler(GetAction)
export class GetActionHandler implements IQueryHandler<GetAction> {
  constructor(
    private readonly actions: RecordedActions,
    private readonly views: Views,
  ) {}

  /** @throws Problem not_found, forbidden */
  async execute({ input: { action_id, actor } }: GetAction): Promise<ActionDto> {
    const found = await this.actions.find(action_id);
    this.actions.refuseRead(found, actor);
    const { relayed, changes } = found.action;
    const { tris_id, metric, criticality, platform_id, source, counterparty } = relayed.data;
    const at = (position: number) => formatPosition(this.views.logId, position);
    return {
      action_id,
      tris_id,
      metric,
      criticality,
      platform_id,
      organization: found.owner,
      source,
      ...(counterparty !== undefined && { counterparty }),
      occurred_at: new Date(relayed.occurred_at).toISOString(),
      recorded_at: new Date(relayed.recorded_at).toISOString(),
      position: at(relayed.position),
      state: stateOf(found.action),
      changes: changes.map(({ type, recorded_at, by, data, position }) => ({
        state: type === 'ActionWithdrawn' ? 'withdrawn' : 'counted',
        at: new Date(recorded_at).toISOString(),
        by: actor.session ? null : by,
        reason: data.reason,
        position: at(position),
      })),
    };
  }
}
