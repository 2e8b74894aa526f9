import { Module } from '@nestjs/common';
import { AffectedDecisionsModule } from '../access/access-policies.module.js';
import { IdentityReaderModule } from '../disc/identity-reader.module.js';
import { JobsModule } from '../jobs/jobs.module.js';
import { PlatformsModule } from '../organizations/platforms.module.js';
import { ActionRecorderModule } from '../relay/action-recorder.module.js';
import { GetAffectedDecisionsHandler } from './affected-decisions.handlers.js';
import { RecordedActionsModule } from './recorded-actions.module.js';
import { WithdrawMany } from './withdraw-many.js';
import { WithdrawalSets } from './withdrawal-sets.js';
import { WithdrawalsController } from './withdrawals.controller.js';
import { ChangeActionHandler, GetActionHandler, PreviewChangeHandler } from './withdrawals.handlers.js';

@Module({
  imports: [
    RecordedActionsModule,
    PlatformsModule,
    ActionRecorderModule,
    IdentityReaderModule,
    AffectedDecisionsModule,
    JobsModule,
  ],
  controllers: [WithdrawalsController],
  providers: [
    ChangeActionHandler,
    PreviewChangeHandler,
    GetActionHandler,
    GetAffectedDecisionsHandler,
    WithdrawalSets,
    WithdrawMany,
  ],
})
export class WithdrawalsModule {}
