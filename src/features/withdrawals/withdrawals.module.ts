import { Module } from '@nestjs/common';
import { GetAffectedDecisionsHandler } from './affected-decisions.handlers.js';
import { WithdrawMany } from './withdraw-many.js';
import { WithdrawalsController } from './withdrawals.controller.js';
import { ChangeActionHandler, GetActionHandler, PreviewChangeHandler } from './withdrawals.handlers.js';

@Module({
  controllers: [WithdrawalsController],
  providers: [ChangeActionHandler, PreviewChangeHandler, GetActionHandler, GetAffectedDecisionsHandler, WithdrawMany],
})
export class WithdrawalsModule {}
