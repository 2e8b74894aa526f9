import { Inject } from '@nestjs/common';
import { CommandHandler, type ICommandHandler } from '@nestjs/cqrs';
import { type CommandContext, refuseSelfStatement } from '../../commands/context.js';
import { CLOCK, type Clock } from '../../kernel/clock.js';
import type { Position } from '../../kernel/event.js';
import { FoldedStreams } from '../../commands/folded-streams.js';
import { CommandWith } from '../../commands/messages.js';
import { Writer } from '../../commands/writer.js';
import { EVENT_STORE, type EventStore } from '../../stores/ports/event-store.js';
import {
  NOTHING_STATED,
  type OperatorState,
  type Statement,
  decideStatement,
  identityStream,
  operatorStateOf,
} from './domain/identity.js';

export class StateAboutIdentity extends CommandWith<
  { trisId: string; statement: Statement; context: CommandContext },
  { position: Position }
> {}

@CommandHandler(StateAboutIdentity)
export class StateAboutIdentityHandler implements ICommandHandler<StateAboutIdentity> {
  private readonly stated: FoldedStreams<OperatorState>;

  constructor(
    private readonly writer: Writer,
    @Inject(EVENT_STORE) store: EventStore,
    @Inject(CLOCK) private readonly clock: Clock,
  ) {
    this.stated = new FoldedStreams(
      store,
      () => NOTHING_STATED,
      (state, events) => operatorStateOf(events, state),
    );
  }

  /**
   * @throws Problem self_statement, validation_failed for a grant that has expired, idempotency_key_reused,
   * write_conflict
   */
  async execute({ input: { trisId, statement, context } }: StateAboutIdentity): Promise<{ position: Position }> {
    const { organization, scopes } = context.actor;
    if (statement.kind === 'grant') refuseSelfStatement(organization, trisId);
    const byOperator = organization === null && scopes.has('ops');
    const { position } = await this.writer.executeFolded(identityStream(trisId), context, this.stated, (state) =>
      decideStatement(state, trisId, statement, byOperator, this.clock()),
    );
    return { position };
  }
}
