import { Command, CommandHandler, type ICommandHandler } from '@nestjs/cqrs';
import type { CommandContext } from '../../commands/context.js';
import type { Reason } from '../relay/domain/relay.events.js';
import { WithdrawMany } from './withdraw-many.js';
import type { WithdrawalStartedDto } from './withdraw-many.dto.js';
import type { SetFilter } from './withdrawal-sets.js';

/** Starts the dry run of a withdrawal of many actions. */
export class FindWithdrawals extends Command<WithdrawalStartedDto> {
  constructor(
    readonly filter: SetFilter,
    readonly reason: Reason,
    readonly context: CommandContext,
  ) {
    super();
  }
}

@CommandHandler(FindWithdrawals)
export class FindWithdrawalsHandler implements ICommandHandler<FindWithdrawals> {
  constructor(private readonly many: WithdrawMany) {}

  /** @throws Problem idempotency_key_reused, rate_limited */
  execute({ filter, reason, context }: FindWithdrawals): Promise<WithdrawalStartedDto> {
    return this.many.start(filter, reason, context);
  }
}

/** Withdraws the set of a dry run. */
export class ApplyWithdrawals extends Command<WithdrawalStartedDto> {
  constructor(
    readonly dryRun: string,
    readonly context: CommandContext,
  ) {
    super();
  }
}

@CommandHandler(ApplyWithdrawals)
export class ApplyWithdrawalsHandler implements ICommandHandler<ApplyWithdrawals> {
  constructor(private readonly many: WithdrawMany) {}

  /** @throws Problem job_not_found, job_not_completed, job_result_expired, withdrawals_changed */
  execute({ dryRun, context }: ApplyWithdrawals): Promise<WithdrawalStartedDto> {
    return this.many.startApply(dryRun, context);
  }
}
