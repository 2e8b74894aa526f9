import { Command, CommandHandler, type ICommandHandler, type IQueryHandler, Query, QueryHandler } from '@nestjs/cqrs';
import type { CommandContext } from '../../commands/context.js';
import { decidePromote, decideRollback, lensOwner, refuseUnlessBasis } from '../lenses/domain/lens-stream.js';
import type { LensScope } from '../lenses/domain/lenses.events.js';
import { Lenses } from '../lenses/lenses.js';
import { refuseSwitch } from './permissions.js';
import { Promotions, type Switched, WAIT_MS } from './promotions.js';
import { Replays } from './replays.js';
import type { PromotionDto } from './vp.dto.js';

/** Makes a policy the lens of the platform or of its organization. */
export class PromotePolicy extends Command<Switched> {
  constructor(
    readonly policyId: string,
    readonly scope: LensScope,
    readonly replayId: string | null,
    readonly context: CommandContext,
    readonly waitMs = WAIT_MS,
  ) {
    super();
  }
}

@CommandHandler(PromotePolicy)
export class PromotePolicyHandler implements ICommandHandler<PromotePolicy> {
  constructor(
    private readonly promotions: Promotions,
    private readonly lenses: Lenses,
    private readonly replays: Replays,
  ) {}

  /**
   * @throws Problem policy_not_found, forbidden, replay_not_found, replay_not_usable, policy_retired,
   * total_weight_out_of_range, promotion_conflict
   */
  async execute(command: PromotePolicy): Promise<Switched> {
    const { policyId, scope, replayId, context } = command;
    const policy = await this.lenses.policy(policyId);
    refuseSwitch(context.actor, scope, policy.tris_org);
    if (replayId !== null) refuseUnlessBasis(await this.replays.find(replayId), policy, scope);
    const owner = lensOwner(scope, policy.tris_org);
    return this.promotions.switchLens(owner, policyId, command, (stack) =>
      decidePromote(stack, owner, policy, replayId),
    );
  }
}

/** Returns to the lens that was active before a policy was promoted. */
export class RollBackPolicy extends Command<Switched> {
  constructor(
    readonly policyId: string,
    readonly scope: LensScope,
    readonly context: CommandContext,
    readonly waitMs = WAIT_MS,
  ) {
    super();
  }
}

@CommandHandler(RollBackPolicy)
export class RollBackPolicyHandler implements ICommandHandler<RollBackPolicy> {
  constructor(
    private readonly promotions: Promotions,
    private readonly lenses: Lenses,
  ) {}

  /** @throws Problem policy_not_found, forbidden, policy_not_active, promotion_conflict */
  async execute(command: RollBackPolicy): Promise<Switched> {
    const { policyId, scope, context } = command;
    const { tris_org } = await this.lenses.policy(policyId);
    refuseSwitch(context.actor, scope, tris_org);
    const owner = lensOwner(scope, tris_org);
    return this.promotions.switchLens(owner, policyId, command, (stack) => decideRollback(stack, owner, policyId));
  }
}

/** The status of a switch that outlasted its request. */
export class GetPromotion extends Query<PromotionDto> {
  constructor(readonly jobId: string) {
    super();
  }
}

@QueryHandler(GetPromotion)
export class GetPromotionHandler implements IQueryHandler<GetPromotion> {
  constructor(private readonly promotions: Promotions) {}

  execute({ jobId }: GetPromotion): Promise<PromotionDto> {
    return this.promotions.find(jobId);
  }
}
