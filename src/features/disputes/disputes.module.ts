import { Module } from '@nestjs/common';
import { SiweModule } from '../accounts/siwe.module.js';
import { DisputesController } from './disputes.controller.js';
import { AnswerDisputeHandler, ListDisputesHandler, OpenDisputeHandler } from './disputes.handlers.js';
import { DisputeOutcomes } from './dispute-outcomes.js';

@Module({
  imports: [SiweModule],
  controllers: [DisputesController],
  providers: [DisputeOutcomes, OpenDisputeHandler, AnswerDisputeHandler, ListDisputesHandler],
})
export class DisputesModule {}
