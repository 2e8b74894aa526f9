import { Inject, Injectable } from '@nestjs/common';
import { Command, CommandHandler, type ICommandHandler, type IQueryHandler, Query, QueryHandler } from '@nestjs/cqrs';
import type { NewEvent, Position } from '../../kernel/event.js';
import { EVENT_STORE, type EventStore, WrongExpectedRevision } from '../../stores/ports/event-store.js';
import type { Fact } from '../../kernel/event-definition.js';
import type { CommandContext, Actor } from '../../commands/context.js';
import { FoldedStreams } from '../../commands/folded-streams.js';
import { Writer } from '../../commands/writer.js';
import { formatPosition } from '../../kernel/positions.js';
import type { JsonObject } from '../../kernel/json.js';
import { KEY_VALUE, type KeyValue } from '../../stores/ports/key-value.js';
import { Problem } from '../../kernel/problems.js';
import { Views } from '../../read-side/views.js';
import {
  type LensOwner,
  type LensStack,
  activeLens,
  decidePromote,
  decideRollback,
  lensOwner,
  lensStackAfter,
  lensStream,
  type ModelStack,
  modelStackAfter,
  noLens,
  noModel,
  ownerOfLensStream,
  refuseUnlessBasis,
} from '../lenses/domain/lens-stream.js';
import { Replays } from './replays.js';
import { Lenses } from '../lenses/lenses.js';
import type { LensName, LensScope, ModelName } from '../lenses/domain/lenses.events.js';
import type { ModelSwitchDto } from './models.dto.js';
import type { PromotionDto, SwitchDto } from './vp.dto.js';
import { keyIdOf, refuseUnlessOwner } from './vp.input.js';

/** How long a switch waits for the read models to apply it. */
export const WAIT_MS = 2_000;
/** How long the outcome of a switch that outlasted its request can be queried. */
const KEPT_MS = 86_400_000;

/** @throws Problem forbidden unless the actor may switch this lens */
export function refuseSwitch(actor: Actor, scope: LensScope, trisOrg: string): void {
  const needed = scope === 'platform' ? 'ops' : 'policies:write';
  if (!actor.scopes.has(needed)) {
    throw new Problem('forbidden', `The key "${keyIdOf(actor.name)}" lacks the scope "${needed}".`);
  }
  refuseUnlessOwner(actor, trisOrg);
}

/** Whether and where the read models have applied a switch. */
interface Applied {
  generation: string | null;
  position: string;
  job_id?: string;
}

export interface Switched<B = SwitchDto> {
  body: B;
  position: Position;
  /** Whether the read models have applied it. */
  applied: boolean;
}

/** Switches the lens of the platform or of an organization. */
@Injectable()
export class Promotions {
  private readonly underWay = new Set<string>();
  private readonly stacks: FoldedStreams<LensStack>;
  private readonly models: FoldedStreams<ModelStack>;

  constructor(
    private readonly writer: Writer,
    private readonly views: Views,
    @Inject(EVENT_STORE) private readonly store: EventStore,
    @Inject(KEY_VALUE) private readonly keyValue: KeyValue,
  ) {
    this.stacks = new FoldedStreams(store, (stream) => noLens(ownerOfLensStream(stream)), lensStackAfter);
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
    { context, waitMs }: Pick<PromotePolicy, 'context' | 'waitMs'>,
    decide: (stack: LensStack) => Fact[],
  ): Promise<Switched> {
    return this.switch(owner, this.stacks, { context, waitMs }, decide, (events, stack) => ({
      policy_id: policyId,
      scope: owner.scope,
      ...(switchOf(events) ?? unchanged(stack)),
    }));
  }

  /** As `switchLens`, of the version of the model that serves the platform. */
  async switchModel(
    { context, waitMs }: Pick<PromotePolicy, 'context' | 'waitMs'>,
    decide: (stack: ModelStack) => Fact[],
  ): Promise<Switched<ModelSwitchDto>> {
    const owner = lensOwner('platform', '');
    return this.switch(owner, this.models, { context, waitMs }, decide, (events, stack) => {
      const event = events.at(-1);
      const { model, previous, replay_id } = event
        ? (event.data as { model: ModelName; previous: ModelName; replay_id: string | null })
        : { model: stack.at(-1)!, previous: stack.at(-2) ?? stack.at(-1)!, replay_id: null };
      return { active: model, previous, replay_id };
    });
  }

  private async switch<S, B extends object>(
    owner: LensOwner,
    streams: FoldedStreams<S>,
    { context, waitMs }: Pick<PromotePolicy, 'context' | 'waitMs'>,
    decide: (state: S) => Fact[],
    bodyOf: (events: readonly NewEvent[], before: S) => B,
  ): Promise<Switched<B & Applied>> {
    const stream = lensStream(owner);
    // A caller cannot have seen the result of a switch that is still being applied.
    if (this.underWay.has(stream)) throw conflict(owner);
    this.underWay.add(stream);
    try {
      const outcome = await this.writer.executeFoldedOnce(stream, context, streams, decide);
      const { position, before, events } = outcome;
      const body = {
        ...bodyOf(events, before.state),
        generation: null,
        position: formatPosition(this.store.logId, position),
      };
      if (await this.views.waitForPosition(position, waitMs)) {
        return { body: { ...body, generation: await this.generation() }, position, applied: true };
      }
      const job_id = outcome.events.at(-1)?.id ?? before.last_id!;
      const answer = { ...body, job_id } as JsonObject;
      await this.keyValue.put(keyOf(job_id), { position, answer }, KEPT_MS);
      return { body: { ...body, job_id }, position, applied: false };
    } catch (error) {
      throw error instanceof WrongExpectedRevision ? conflict(owner) : error;
    } finally {
      this.underWay.delete(stream);
    }
  }

  /** Returns the status of a switch that outlasted its request. @throws Problem not_found */
  async find(jobId: string): Promise<PromotionDto> {
    const kept = await this.keyValue.get(keyOf(jobId));
    if (!kept)
      throw new Problem(
        'not_found',
        `There is no promotion ${jobId}. Promotions can be queried for a day, if they were answered with 202.`,
      );
    const { position, answer } = kept as unknown as { position: Position; answer: SwitchDto };
    if (!(await this.views.waitForPosition(position, 0))) return { ...answer, status: 'switching' };
    return { ...answer, generation: await this.generation(), status: 'applied' };
  }

  private async generation(): Promise<string> {
    return (await this.views.manifest()).views['identities']!;
  }
}

const keyOf = (jobId: string) => `promotion:${jobId}`;

function switchOf(events: readonly NewEvent[]) {
  const event = events.at(-1);
  if (!event) return undefined;
  const { policy_id, content_hash, previous, replay_id } = event.data as LensName & {
    previous: LensName;
    replay_id: string | null;
  };
  return { active: { policy_id, content_hash }, previous, replay_id };
}

/** The answer to promoting a policy that is already active. */
function unchanged(stack: LensStack) {
  return { active: activeLens(stack), previous: stack.at(-2) ?? activeLens(stack), replay_id: null };
}

function conflict({ tris_org }: LensOwner): Problem {
  const whose = tris_org ?? 'the platform';
  const detail = `The lens of ${whose} was switched at the same time. Check which policy is active and decide again.`;
  return new Problem('promotion_conflict', detail);
}

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
