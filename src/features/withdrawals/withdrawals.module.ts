import { Module } from '@nestjs/common';
import { IdentityReaderModule } from '../disc/identity-reader.module.js';
import { PlatformsModule } from '../organizations/platforms.module.js';
import { ActionChanges } from '../relay/action-changes.js';
import { RecordedActions } from './recorded-actions.js';
import { WithdrawalsController } from './withdrawals.controller.js';
import { ChangeActionHandler, GetActionHandler, PreviewChangeHandler } from './withdrawals.handlers.js';

@Module({
  imports: [PlatformsModule, IdentityReaderModule],
  controllers: [WithdrawalsController],
  providers: [RecordedActions, ActionChanges, ChangeActionHandler, PreviewChangeHandler, GetActionHandler],
})
export class WithdrawalsModule {}
