import { Command, CommandHandler, type ICommandHandler } from '@nestjs/cqrs';
import type { CommandContext, Actor } from '../../commands/context.js';
import { Replays } from './replays.js';
import { Lenses } from '../lenses/lenses.js';
import { modelOf } from '../../scoring/models/all.js';
import type { ModelId } from '../../scoring/models/scoring-model.js';
import type { LensScope } from '../lenses/domain/lenses.events.js';
import type { ReplayDto } from './vp.dto.js';
import { refuseUnlessOwner, refuseUnlessPlatform } from './permissions.js';

/** What is compared with what serves: a policy, by a version of the model (default: the platform's), or such a version. */
type Replayed = { policyId: string; scope: LensScope; model?: ModelId } | { modelId: ModelId };

/** Starts a replay over the whole population. */
export class StartReplay extends Command<ReplayDto> {
  constructor(
    readonly of: Replayed,
    readonly accessPolicies: readonly string[] | undefined,
    readonly context: CommandContext,
  ) {
    super();
  }
}

@CommandHandler(StartReplay)
export class StartReplayHandler implements ICommandHandler<StartReplay> {
  constructor(
    private readonly replays: Replays,
    private readonly lenses: Lenses,
  ) {}

  /** @throws Problem policy_not_found, forbidden, idempotency_key_reused */
  async execute({ of, accessPolicies, context }: StartReplay): Promise<ReplayDto> {
    if ('modelId' in of) {
      refuseUnlessPlatform(context.actor);
      const { id, hash } = modelOf(of.modelId);
      const platform = { policy_id: null, tris_org: null, content_hash: null, scope: 'platform' as const };
      return this.replays.start({ ...platform, promotes: { id, hash } }, accessPolicies, context);
    }
    const { policy_id, tris_org, content_hash } = await this.lenses.policy(of.policyId);
    refuseUnlessOwner(context.actor, tris_org);
    const policy = { policy_id, tris_org, content_hash, scope: of.scope };
    return this.replays.start({ ...policy, ...(of.model && { model: of.model }) }, accessPolicies, context);
  }
}

/** Cancels a queued or running replay. */
export class CancelReplay extends Command<ReplayDto> {
  constructor(
    readonly replayId: string,
    readonly actor: Actor,
  ) {
    super();
  }
}

@CommandHandler(CancelReplay)
export class CancelReplayHandler implements ICommandHandler<CancelReplay> {
  constructor(private readonly replays: Replays) {}

  /** @throws Problem replay_not_found, also for a replay that the actor may not read */
  async execute({ replayId, actor }: CancelReplay): Promise<ReplayDto> {
    await this.replays.find(replayId, actor);
    return this.replays.cancel(replayId, actor);
  }
}
