import { Module } from '@nestjs/common';
import { SiweModule } from '../accounts/siwe.module.js';
import { RecordedActionsModule } from '../withdrawals/recorded-actions.module.js';
import { DisputesController } from './disputes.controller.js';
import { AnswerDisputeHandler, ListDisputesHandler, OpenDisputeHandler } from './disputes.handlers.js';

@Module({
  imports: [SiweModule, RecordedActionsModule],
  controllers: [DisputesController],
  providers: [OpenDisputeHandler, AnswerDisputeHandler, ListDisputesHandler],
})
export class DisputesModule {}
