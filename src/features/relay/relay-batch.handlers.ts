import { randomUUID } from 'node:crypto';
import { Inject } from '@nestjs/common';
import { Command, CommandHandler, type ICommandHandler } from '@nestjs/cqrs';
import { bodyHash, type CommandContext } from '../../commands/context.js';
import { hashOf } from '../../kernel/hash.js';
import { Problem } from '../../kernel/problems.js';
import { yieldIfDue } from '../../kernel/turn.js';
import { EVENT_STORE, type EventStore, StoreUnavailable } from '../../stores/ports/event-store.js';
import { type Action, actionStream } from './domain/relay.js';
import { RelayAction, RelayActionHandler, type Relayed } from './relay.handlers.js';

/** Batches that are recorded at the same time. Others wait. */
const AT_WORK = 4;
/** Batches that may wait. With more, a batch is refused: each holds its actions in memory. */
const WAITING = 16;
/** Actions of one batch that are in flight. Those that arrive together are committed together. */
const IN_FLIGHT = 64;

/** What became of an action of a batch. */
export type ActionOutcome = Relayed | Problem | StoreUnavailable;

/** Records many actions, each as if it were relayed alone: what happens to one makes no difference to the others. */
export class RelayActions extends Command<ActionOutcome[]> {
  constructor(
    /** Validated actions, or why they are refused. */
    readonly actions: readonly (Action | Problem)[],
    readonly request: Omit<CommandContext, 'body_hash'>,
  ) {
    super();
  }
}

@CommandHandler(RelayActions)
export class RelayActionsHandler implements ICommandHandler<RelayActions> {
  private working = 0;
  private readonly waiting: (() => void)[] = [];

  constructor(
    private readonly single: RelayActionHandler,
    @Inject(EVENT_STORE) private readonly store: EventStore,
  ) {}

  /**
   * @returns the outcome of each action, in order
   * @throws StoreUnavailable if the log took none of them, so that the whole request can be repeated
   */
  async execute({ actions, request }: RelayActions): Promise<ActionOutcome[]> {
    await this.turn();
    try {
      const outcomes = await new Batch(this.single, this.store, actions, request).record();
      const failure = outcomes.find((outcome) => outcome instanceof StoreUnavailable);
      if (failure && !outcomes.some((outcome) => !(outcome instanceof Error))) throw failure;
      return outcomes;
    } finally {
      this.working--;
      this.waiting.shift()?.();
    }
  }

  private async turn(): Promise<void> {
    if (this.working >= AT_WORK) {
      if (this.waiting.length >= WAITING) {
        throw new StoreUnavailable('too many batches are waiting', { code: 'store_busy' });
      }
      await new Promise<void>((resolve) => this.waiting.push(resolve));
    }
    this.working++;
  }
}

class Batch {
  private readonly outcomes: ActionOutcome[] = [];
  /** By stream: the last action so far. Actions of one stream are recorded in their order. */
  private readonly last = new Map<string, Promise<void>>();
  private next = 0;
  /** Why the log takes nothing more: the remaining actions are not tried, so that the answer comes soon. */
  private failure: StoreUnavailable | undefined;

  constructor(
    private readonly single: RelayActionHandler,
    private readonly store: EventStore,
    private readonly actions: readonly (Action | Problem)[],
    private readonly request: Omit<CommandContext, 'body_hash'>,
  ) {}

  async record(): Promise<ActionOutcome[]> {
    const lines = Array.from({ length: Math.min(IN_FLIGHT, this.actions.length) }, () => this.recordInTurn());
    // All have ended before the answer, also if one of them fails.
    const ended = await Promise.allSettled(lines);
    const failed = ended.find(({ status }) => status === 'rejected') as PromiseRejectedResult | undefined;
    if (failed) throw failed.reason;
    return this.outcomes;
  }

  private async recordInTurn(): Promise<void> {
    while (this.next < this.actions.length) {
      const index = this.next++;
      const action = this.actions[index]!;
      if (action instanceof Problem) {
        this.outcomes[index] = action;
        continue;
      }
      if (action.external_id === null) await this.recordOne(index, action);
      else {
        const stream = actionStream(action, null, randomUUID);
        const turn = (this.last.get(stream) ?? Promise.resolve()).then(() => this.recordOne(index, action));
        this.last.set(stream, turn);
        await turn;
      }
      await yieldIfDue();
    }
  }

  private async recordOne(index: number, action: Action): Promise<void> {
    if (this.failure) {
      this.outcomes[index] = this.failure;
      return;
    }
    const { admission } = this.store;
    try {
      await admission?.enter();
      try {
        this.outcomes[index] = await this.single.execute(this.commandOf(index, action));
      } finally {
        admission?.leave();
      }
    } catch (error) {
      if (error instanceof StoreUnavailable) this.failure ??= error;
      else if (!(error instanceof Problem)) throw error;
      this.outcomes[index] = error;
    }
  }

  /** The Idempotency-Key of a batch stands for one of each action, so that a retry finds what was recorded. */
  private commandOf(index: number, action: Action): RelayAction {
    const { actor, correlation_id, idempotency } = this.request;
    const own = idempotency === null ? null : hashOf(idempotency, String(index));
    const context = { actor, correlation_id, idempotency: own, body_hash: bodyHash(action) };
    return new RelayAction(action, context, actor.organization);
  }
}
