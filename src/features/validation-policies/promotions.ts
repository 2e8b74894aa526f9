import { Inject } from '@nestjs/common';
import { type IQueryHandler, Query, QueryHandler } from '@nestjs/cqrs';
import type { NewEvent, Position } from '../../kernel/event.js';
import { EVENT_STORE, type EventStore, WrongExpectedRevision } from '../../stores/ports/event-store.js';
import type { Fact } from '../../kernel/event-definition.js';
import type { CommandContext } from '../../commands/context.js';
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
  type ModelStack,
  activeLens,
  PLATFORM,
  lensStackAfter,
  lensStream,
  modelStackAfter,
  noLens,
  noModel,
} from '../lenses/domain/lens-stream.js';
import type { LensName, ModelName } from '../lenses/domain/lenses.events.js';
import type { ModelSwitchDto, PromotionDto, SwitchDto } from './vp.dto.js';

/** How long a switch waits by default. */
export const WAIT_MS = 2_000;
/** How long the outcome of a switch that outlasted its request can be queried. */
const KEPT_MS = 86_400_000;

/** Promotes, on the basis of a replay or of none (null), or returns to what was active before. */
export type How = { replayId: string | null } | 'rollback';

/** A command that switches a lens or a version of the model. */
interface Switch {
  context: CommandContext;
  /** How long it waits for the read models to apply it. */
  waitMs: number;
}

/** Whether and where the read models have applied a switch. */
type Applied = Pick<SwitchDto, 'generation' | 'position' | 'job_id'>;

export interface Switched<B = SwitchDto> {
  body: B;
  position: Position;
  /** Whether the read models have applied it. */
  applied: boolean;
}

/** The status of a switch that outlasted its request. */
export class GetPromotion extends Query<PromotionDto> {
  constructor(readonly jobId: string) {
    super();
  }
}

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
    return this.switch(owner, this.stacks, command, decide, (events, stack) => ({
      policy_id: policyId,
      scope: owner.scope,
      ...(switchOf(events) ?? unchanged(stack)),
    }));
  }

  /** Switches the version of the model that serves the platform. */
  async switchModel(command: Switch, decide: (stack: ModelStack) => Fact[]): Promise<Switched<ModelSwitchDto>> {
    return this.switch(PLATFORM, this.models, command, decide, (events, stack) => {
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
    { context, waitMs }: Switch,
    decide: (state: S) => Fact[],
    bodyOf: (events: readonly NewEvent[], before: S) => B,
  ): Promise<Switched<B & Applied>> {
    const stream = lensStream(owner);
    // A caller cannot have seen the result of a switch that is still being applied.
    if (this.underWay.has(stream)) throw conflict(owner);
    this.underWay.add(stream);
    try {
      const once = this.writer.executeFolded(stream, context, streams, decide, { once: true });
      const { position, before, events } = await once;
      const body = {
        ...bodyOf(events, before.state),
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
  async execute({ jobId }: GetPromotion): Promise<PromotionDto> {
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
  const what = tris_org === null ? 'The lens or the model of the platform' : `The lens of ${tris_org}`;
  const detail = `${what} was switched at the same time. Check what is active and decide again.`;
  return new Problem('promotion_conflict', detail);
}
