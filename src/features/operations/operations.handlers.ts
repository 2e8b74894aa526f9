import { Command, CommandHandler, type ICommandHandler } from '@nestjs/cqrs';
import type { CommandContext } from '../../commands/context.js';
import type { JsonObject } from '../../kernel/json.js';
import { type OperationName, Operations } from './operations.js';

/** Starts an operation of the read models as a job. */
export class StartOperation extends Command<{ job_id: string }> {
  constructor(
    readonly name: OperationName,
    readonly input: JsonObject,
    readonly context: CommandContext,
  ) {
    super();
  }
}

@CommandHandler(StartOperation)
export class StartOperationHandler implements ICommandHandler<StartOperation> {
  constructor(private readonly operations: Operations) {}

  /** @throws Problem operation_open, idempotency_key_reused, generation_conflict */
  async execute({ name, input, context }: StartOperation): Promise<{ job_id: string }> {
    const more = name === 'rollback' ? await this.operations.rollbackNow() : {};
    return { job_id: await this.operations.start(name, { ...input, ...more }, context) };
  }
}
