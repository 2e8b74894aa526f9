import { Inject } from '@nestjs/common';
import { Command, CommandHandler, type ICommandHandler } from '@nestjs/cqrs';
import { Batches, keyOfItem, type ItemOutcome } from '../../commands/batches.js';
import { bodyHash, type CommandContext, ownerOfTurns } from '../../commands/context.js';
import { Problem } from '../../kernel/problems.js';
import { EVENT_STORE, type EventStore } from '../../stores/ports/event-store.js';
import { Staleness } from '../../read-side/staleness.js';
import { Vetting } from '../organizations/vetting.js';
import type { Action } from './domain/relay.js';
import type { Source } from './domain/relay.events.js';
import { RelayAction, RelayActionHandler, type Relayed } from './relay.handlers.js';

export type ActionOutcome = ItemOutcome<Relayed>;

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
  private readonly batches: Batches;

  constructor(
    private readonly single: RelayActionHandler,
    private readonly vetting: Vetting,
    private readonly staleness: Staleness,
    @Inject(EVENT_STORE) store: EventStore,
  ) {
    this.batches = new Batches(store);
  }

  /**
   * @returns the outcome of each action, in order
   * @throws StoreUnavailable if the log took none of them, so that the whole request can be repeated
   */
  async execute({ actions, request }: RelayActions): Promise<ActionOutcome[]> {
    const { actor, correlation_id, idempotency, trace } = request;
    let source: Source;
    return this.batches.execute(
      ownerOfTurns(actor),
      actions,
      (action, index) => {
        const own = keyOfItem(idempotency, index);
        const context = { actor, correlation_id, idempotency: own, body_hash: bodyHash(action), trace };
        return this.single.execute(new RelayAction(action, context), source);
      },
      {
        holdBack: () => this.staleness.holdBack(actions.length),
        begin: async (group) => {
          // Once, so that a batch is not divided by a change of the vetting.
          source = await this.vetting.sourceFor(actor.organization);
          await this.single.lookUp(group);
        },
        orderOf: ({ platform_id, external_id }) => (external_id === null ? undefined : `${platform_id} ${external_id}`),
      },
    );
  }
}
