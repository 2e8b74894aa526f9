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
  PLATFORM,
  type Stack,
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
  how: How;
  context: CommandContext;
  /** How long it waits for the read models to apply it; default 2,000. */
  waitMs?: number;
}

/** What a switch replaced, and the replay that it was based on. */
type Replaced<N> = { previous: N; replay_id: string | null };

/** The same, with what is active now, and whether and where the read models have applied it. */
type Outcome<N> = Replaced<N> & { active: N } & Pick<SwitchDto, 'generation' | 'position' | 'job_id'>;

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
  readonly lenses: FoldedStreams<LensStack>;
  readonly models: FoldedStreams<ModelStack>;

  constructor(
    private readonly writer: Writer,
    private readonly views: Views,
    @Inject(EVENT_STORE) private readonly store: EventStore,
    @Inject(KEY_VALUE) private readonly keyValue: KeyValue,
  ) {
    this.lenses = new FoldedStreams(store, noLens, lensStackAfter);
    this.models = new FoldedStreams(store, noModel, modelStackAfter);
  }

  /**
   * Appends at exactly the revision that the decision was based on. Of two concurrent switches one fails; it is not
   * decided again on a state that its author has not seen.
   * @param streams `lenses` or `models`
   * @param nameIn gets the data of the event of the switch
   * @param about what the answer says besides
   * @throws Problem promotion_conflict, idempotency_key_reused
   */
  async switch<N, A extends object>(
    owner: LensOwner,
    streams: FoldedStreams<Stack<N>>,
    { context, waitMs = WAIT_MS }: Switch,
    decide: (stack: Stack<N>) => Fact[],
    nameIn: (data: JsonObject) => N,
    about: A,
  ): Promise<Switched<A & Outcome<N>>> {
    const stream = lensStream(owner);
    // A caller cannot have seen the result of a switch that is still being applied.
    if (this.underWay.has(stream)) throw conflict(owner);
    this.underWay.add(stream);
    try {
      const once = this.writer.executeFolded(stream, context, streams, decide, { once: true });
      const { position, before, events } = await once;
      const now = before.state.at(-1)!;
      // No data: it was active already.
      const data = events.at(-1)?.data;
      const unchanged = { previous: before.state.at(-2) ?? now, replay_id: null };
      const { previous, replay_id } = (data as Replaced<N> | undefined) ?? unchanged;
      const switched = { ...about, active: data ? nameIn(data) : now, previous, replay_id };
      const body = { ...switched, generation: null, position: formatPosition(this.store.logId, position) };
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
export class SwitchPolicy extends CommandWith<Switch & { policyId: string; scope: LensScope }, Switched> {}

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
    const replayId = how === 'rollback' ? null : how.replayId;
    if (replayId !== null) {
      const replay = await this.replays.find(replayId);
      refuseUnlessBasis(replay, replay.content_hash, { id: policyId, hash: policy.content_hash }, scope);
    }
    const decide = (stack: LensStack) =>
      how === 'rollback' ? decideRollback(stack, owner, policyId) : decidePromote(stack, owner, policy, replayId);
    const nameIn = ({ policy_id, content_hash }: JsonObject) => ({ policy_id, content_hash }) as LensName;
    return this.promotions.switch(owner, this.promotions.lenses, input, decide, nameIn, { policy_id: policyId, scope });
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
export class SwitchModel extends CommandWith<Switch & { modelId: ModelId }, Switched<ModelSwitchDto>> {}

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
    const replayId = how === 'rollback' ? null : how.replayId;
    if (replayId !== null) {
      const replay = await this.replays.find(replayId);
      refuseUnlessBasis(replay, replay.promotes?.hash, model, 'platform');
    }
    const decide = (stack: ModelStack) =>
      how === 'rollback' ? decideRollbackModel(stack, model) : decidePromoteModel(stack, model, replayId);
    const nameIn = (data: JsonObject) => data['model'] as ModelName;
    return this.promotions.switch(PLATFORM, this.promotions.models, input, decide, nameIn, {});
  }
}
