import { Command, CommandHandler, type ICommandHandler, type IQueryHandler, Query, QueryHandler } from '@nestjs/cqrs';
import type { CommandContext } from '../../commands/context.js';
import { Views } from '../../read-side/views.js';
import { MODELS, modelOf, modelOrFirst } from '../../scoring/models/all.js';
import type { ModelId } from '../../scoring/models/scoring-model.js';
import {
  decidePromote,
  decidePromoteModel,
  decideRollback,
  decideRollbackModel,
  lensOwner,
  refuseUnlessBasis,
  refuseUnlessModelBasis,
} from '../lenses/domain/lens-stream.js';
import type { LensScope } from '../lenses/domain/lenses.events.js';
import { Lenses } from '../lenses/lenses.js';
import { refuseSwitch, refuseUnlessPlatform } from './permissions.js';
import { type How, Promotions, type Switched, WAIT_MS } from './promotions.js';
import { Replays } from './replays.js';
import type { ModelSwitchDto, ModelsDto } from './vp.dto.js';

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

/** The versions of the scoring model. */
export class ListModels extends Query<ModelsDto> {}

@QueryHandler(ListModels)
export class ListModelsHandler implements IQueryHandler<ListModels> {
  constructor(private readonly views: Views) {}

  async execute(): Promise<ModelsDto> {
    const active = modelOrFirst((await this.views.manifest()).model_hash);
    return { models: MODELS.map((model) => ({ id: model.id, hash: model.hash, active: model === active })) };
  }
}

/** Makes a version of the model the one that serves the platform, or returns to the one that was active before it. */
export class SwitchModel extends Command<Switched<ModelSwitchDto>> {
  constructor(
    readonly modelId: ModelId,
    readonly how: How,
    readonly context: CommandContext,
    readonly waitMs: number = WAIT_MS,
  ) {
    super();
  }
}

@CommandHandler(SwitchModel)
export class SwitchModelHandler implements ICommandHandler<SwitchModel> {
  constructor(
    private readonly promotions: Promotions,
    private readonly replays: Replays,
  ) {}

  /** @throws Problem forbidden, replay_not_found, replay_not_usable, model_not_active, promotion_conflict */
  async execute(command: SwitchModel): Promise<Switched<ModelSwitchDto>> {
    const { modelId, how, context } = command;
    refuseUnlessPlatform(context.actor);
    const model = modelOf(modelId);
    if (how === 'rollback') return this.promotions.switchModel(command, (stack) => decideRollbackModel(stack, model));
    const { replayId } = how;
    if (replayId !== null) refuseUnlessModelBasis(await this.replays.find(replayId), model);
    return this.promotions.switchModel(command, (stack) => decidePromoteModel(stack, model, replayId));
  }
}
