import { CommandHandler, type ICommandHandler } from '@nestjs/cqrs';
import type { CommandContext } from '../../commands/context.js';
import { CommandWith } from '../../commands/messages.js';
import { Writer } from '../../commands/writer.js';
import type { Position } from '../../kernel/event.js';
import { decideAssignName, nameOwnershipOf, policyNameStream } from './domain/policy-name.js';

/** Gives the name of policies to an organization, even if another one owns it. */
export class AssignPolicyName extends CommandWith<
  { name: string; tris_org: string; context: CommandContext },
  { position: Position }
> {}

@CommandHandler(AssignPolicyName)
export class AssignPolicyNameHandler implements ICommandHandler<AssignPolicyName> {
  constructor(private readonly writer: Writer) {}

  /** @throws Problem idempotency_key_reused, write_conflict */
  async execute({ input: { name, tris_org, context } }: AssignPolicyName): Promise<{ position: Position }> {
    return this.writer.execute(policyNameStream(name), context, (history) =>
      decideAssignName(nameOwnershipOf(history), name, tris_org),
    );
  }
}
