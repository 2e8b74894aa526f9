import { Command, CommandHandler, type ICommandHandler } from '@nestjs/cqrs';
import type { CommandContext } from '../../commands/context.js';
import { decidePromote, decideRollback, lensOwner, refuseUnlessBasis } from '../lenses/domain/lens-stream.js';
import type { LensScope } from '../lenses/domain/lenses.events.js';
import { Lenses } from '../lenses/lenses.js';
import { refuseSwitch } from './permissions.js';
import { type How, Promotions, type Switched, WAIT_MS } from './promotions.js';
import { Replays } from './replays.js';

/** Makes a policy the lens of the platform or of its organization, or returns to the lens that was active before it. */
export class SwitchPolicy extends Command<Switched> {
  constructor(
    readonly policyId: string,
    readonly scope: LensScope,
    readonly how: How,
    readonly context: CommandContext,
    readonly waitMs = WAIT_MS,
  ) {
    super();
  }
}

@CommandHandler(SwitchPolicy)
export class SwitchPolicyHandler implements ICommandHandler<SwitchPolicy> {
  constructor(
    private readonly promotions: Promotions,
    private readonly lenses: Lenses,
    private readonly replays: Replays,
  ) {}

  /**
   * @throws Problem policy_not_found, forbidden, replay_not_found, replay_not_usable, policy_retired,
   * total_weight_out_of_range, policy_not_active, promotion_conflict
   */
  async execute(command: SwitchPolicy): Promise<Switched> {
    const { policyId, scope, how, context } = command;
    const policy = await this.lenses.policy(policyId);
    refuseSwitch(context.actor, scope, policy.tris_org);
    const owner = lensOwner(scope, policy.tris_org);
    if (how === 'rollback') {
      return this.promotions.switchLens(owner, policyId, command, (stack) => decideRollback(stack, owner, policyId));
    }
    const { replayId } = how;
    if (replayId !== null) refuseUnlessBasis(await this.replays.find(replayId), policy, scope);
    return this.promotions.switchLens(owner, policyId, command, (stack) =>
      decidePromote(stack, owner, policy, replayId),
    );
  }
}
