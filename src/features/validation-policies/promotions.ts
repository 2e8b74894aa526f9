import { Inject } from '@nestjs/common';
import { CommandHandler, type ICommandHandler, type IQueryHandler, Query, QueryHandler } from '@nestjs/cqrs';
import type { Position } from '../../kernel/event.js';
import { EVENT_STORE, type EventStore, WrongExpectedRevision } from '../../stores/ports/event-store.js';
import type { Fact } from '../../kernel/event-definition.js';
import type { CommandContext } from '../../commands/context.js';
import { FoldedStreams } from '../../commands/folded-streams.js';
import { CommandWith, QueryWith } from '../../commands/messages.js';
import { Writer } from '../../commands/writer.js';
import { formatPosition } from '../../kernel/positions.js';
import type { JsonObject } from '../../kernel/json.js';
import { KEY_VALUE, type KeyValue } from '../../stores/ports/key-value.js';
import { Problem } from '../../kernel/problems.js';
import { Views } from '../../read-side/views.js';
import { MODELS, modelOf, modelOrFirst } from '../../scoring/models/all.js';
import type { ModelId } from '../../scoring/models/scoring-model.js';
import {
  type LensOwner,
  type LensStack,
  type ModelStack,
  activeLens,
  PLATFORM,
  decidePromote,
  decidePromoteModel,
  decideRollback,
  decideRollbackModel,
  lensOwner,
  lensStackAfter,
  lensStream,
  modelStackAfter,
  noLens,
  noModel,
  refuseUnlessBasis,
  refuseUnlessModelBasis,
} from '../lenses/domain/lens-stream.js';
import type { LensName, LensScope, ModelName } from '../lenses/domain/lenses.events.js';
import { Lenses } from '../lenses/lenses.js';
import { refuseSwitch, refuseUnlessOwner } from './permissions.js';
import { Replays } from './replays.js';
import type { ModelSwitchDto, ModelsDto, PromotionDto, SwitchDto } from './vp.dto.js';

/** How long a switch waits by default. */
const WAIT_MS = 2_000;
/** How long the outcome of a switch that outlasted its request can be queried. */
const KEPT_MS = 86_400_000;

/** Promotes, on the basis of a replay or of none (null), or returns to what was active before. */
export type How = { replayId: string | null } | 'rollback';

/** A command that switches a lens or a version of the model. */
interface Switch {
  context: CommandContext;
  /** How long it waits for the read models to apply it; default 2,000. */
  waitMs?: number;
}

/** What a switch replaced, and the replay that it was based on. */
type Replaced<N> = { previous: N; replay_id: string | null };

/** Whether and where the read models have applied a switch. */
type Applied = Pick<SwitchDto, 'generation' | 'position' | 'job_id'>;

export interface Switched<B = SwitchDto> {
  body: B;
  position: Position;
  /** Whether the read models have applied it. */
  applied: boolean;
}

/** The status of a switch that outlasted its request. */
export class GetPromotion extends QueryWith<{ jobId: string }, PromotionDto> {}

/** Switches the lens of the platform or of an organization, and the platform's version of the model. */
@QueryHandler(GetPromotion)
export class Promotions implements IQueryHandler<GetPromotion> {
  private readonly underWay = new Set<string>();
  private readonly stacks: FoldedStreams<LensStack>;
  private readonly models: FoldedStreams<ModelStack>;

  constructor(
    private readonly writer: Writer,
    private readonly views: Views,
    @Inject(EVENT_STORE) private readonly store: EventStore,
    @Inject(KEY_VALUE) private readonly keyValue: KeyValue,
  ) {
    this.stacks = new FoldedStreams(store, noLens, lensStackAfter);
    this.models = new FoldedStreams(store, noModel, modelStackAfter);
  }

  /**
   * Appends at exactly the revision that the decision was based on. Of two concurrent switches one fails; it is not
   * decided again on a state that its author has not seen.
   * @throws Problem promotion_conflict, idempotency_key_reused
   */
  async switchLens(
    owner: LensOwner,
    policyId: string,
    command: Switch,
    decide: (stack: LensStack) => Fact[],
  ): Promise<Switched> {
    return this.switch(owner, this.stacks, command, decide, (data, stack) => {
      const now = activeLens(stack);
      const unchanged = { ...now, previous: stack.at(-2) ?? now, replay_id: null };
      const switched = data as (LensName & Replaced<LensName>) | undefined;
      const { policy_id, content_hash, previous, replay_id } = switched ?? unchanged;
      return { policy_id: policyId, scope: owner.scope, active: { policy_id, content_hash }, previous, replay_id };
    });
  }

  /** Switches the version of the model that serves the platform. */
  async switchModel(command: Switch, decide: (stack: ModelStack) => Fact[]): Promise<Switched<ModelSwitchDto>> {
    return this.switch(PLATFORM, this.models, command, decide, (data, stack) => {
      const now = stack.at(-1)!;
      const unchanged = { model: now, previous: stack.at(-2) ?? now, replay_id: null };
      const switched = data as ({ model: ModelName } & Replaced<ModelName>) | undefined;
      const { model: active, previous, replay_id } = switched ?? unchanged;
      return { active, previous, replay_id };
    });
  }

  /** @param bodyOf gets the data of the event of the switch; undefined: it was active already */
  private async switch<S, B extends object>(
    owner: LensOwner,
    streams: FoldedStreams<S>,
    { context, waitMs = WAIT_MS }: Switch,
    decide: (state: S) => Fact[],
    bodyOf: (data: JsonObject | undefined, before: S) => B,
  ): Promise<Switched<B & Applied>> {
    const stream = lensStream(owner);
    // A caller cannot have seen the result of a switch that is still being applied.
    if (this.underWay.has(stream)) throw conflict(owner);
    this.underWay.add(stream);
    try {
      const once = this.writer.executeFolded(stream, context, streams, decide, { once: true });
      const { position, before, events } = await once;
      const body = {
        ...bodyOf(events.at(-1)?.data, before.state),
        generation: null,
        position: formatPosition(this.store.logId, position),
      };
      if (await this.views.waitForPosition(position, waitMs)) {
        return { body: { ...body, generation: await this.generation() }, position, applied: true };
      }
      const job_id = events.at(-1)?.id ?? before.last!.id;
      const answer = { ...body, job_id } as JsonObject;
      await this.keyValue.put(keyOf(job_id), { position, answer }, KEPT_MS);
      return { body: { ...body, job_id }, position, applied: false };
    } catch (error) {
      throw error instanceof WrongExpectedRevision ? conflict(owner) : error;
    } finally {
      this.underWay.delete(stream);
    }
  }

  /** @throws Problem not_found */
  async execute({ input: { jobId } }: GetPromotion): Promise<PromotionDto> {
    const kept = await this.keyValue.get(keyOf(jobId));
    if (!kept) {
      const detail = 'Promotions can be queried for a day, if they were answered with 202.';
      throw new Problem('not_found', `There is no promotion ${jobId}. ${detail}`);
    }
    const { position, answer } = kept as unknown as { position: Position; answer: SwitchDto };
    if (!(await this.views.waitForPosition(position, 0))) return { ...answer, status: 'switching' };
    return { ...answer, generation: await this.generation(), status: 'applied' };
  }

  private async generation(): Promise<string> {
    return (await this.views.manifest()).views['identities']!;
  }
}

const keyOf = (jobId: string) => `promotion:${jobId}`;

function conflict({ tris_org }: LensOwner): Problem {
  const what = tris_org === null ? 'The lens or the model of the platform' : `The lens of ${tris_org}`;
  const detail = `${what} was switched at the same time. Check what is active and decide again.`;
  return new Problem('promotion_conflict', detail);
}

/** Makes a policy the lens of the platform or of its organization, or returns to the lens that was active before it. */
export class SwitchPolicy extends CommandWith<Switch & { policyId: string; scope: LensScope; how: How }, Switched> {}

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
  async execute({ input }: SwitchPolicy): Promise<Switched> {
    const { policyId, scope, how, context } = input;
    const policy = await this.lenses.policy(policyId);
    refuseSwitch(context.actor, scope, policy.tris_org);
    const owner = lensOwner(scope, policy.tris_org);
    if (how === 'rollback') {
      return this.promotions.switchLens(owner, policyId, input, (stack) => decideRollback(stack, owner, policyId));
    }
    const { replayId } = how;
    if (replayId !== null) refuseUnlessBasis(await this.replays.find(replayId), policy, scope);
    return this.promotions.switchLens(owner, policyId, input, (stack) => decidePromote(stack, owner, policy, replayId));
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
export class SwitchModel extends CommandWith<Switch & { modelId: ModelId; how: How }, Switched<ModelSwitchDto>> {}

@CommandHandler(SwitchModel)
export class SwitchModelHandler implements ICommandHandler<SwitchModel> {
  constructor(
    private readonly promotions: Promotions,
    private readonly replays: Replays,
  ) {}

  /** @throws Problem forbidden, replay_not_found, replay_not_usable, model_not_active, promotion_conflict */
  async execute({ input }: SwitchModel): Promise<Switched<ModelSwitchDto>> {
    const { modelId, how, context } = input;
    refuseUnlessOwner(context.actor, null);
    const model = modelOf(modelId);
    if (how === 'rollback') return this.promotions.switchModel(input, (stack) => decideRollbackModel(stack, model));
    const { replayId } = how;
    if (replayId !== null) refuseUnlessModelBasis(await this.replays.find(replayId), model);
    return this.promotions.switchModel(input, (stack) => decidePromoteModel(stack, model, replayId));
  }
}
