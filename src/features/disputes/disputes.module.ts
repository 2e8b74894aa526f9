import { Module } from '@nestjs/common';
import { SiweModule } from '../accounts/siwe.module.js';
import { JobsModule } from '../jobs/jobs.module.js';
import { ActionRecorderModule } from '../relay/action-recorder.module.js';
import { RecordedActionsModule } from '../withdrawals/recorded-actions.module.js';
import { DisputesController } from './disputes.controller.js';
import { AnswerDisputeHandler, ListDisputesHandler, OpenDisputeHandler } from './disputes.handlers.js';
import { DisputeOutcomes } from './dispute-outcomes.js';

@Module({
  imports: [SiweModule, RecordedActionsModule, ActionRecorderModule, JobsModule],
  controllers: [DisputesController],
  providers: [DisputeOutcomes, OpenDisputeHandler, AnswerDisputeHandler, ListDisputesHandler],
})
export class DisputesModule {}
