import { Module } from '@nestjs/common';
import { PlatformsModule } from '../organizations/platforms.module.js';
import { ActionChanges } from './action-changes.js';
import { ActionRecorder } from './relay.handlers.js';

@Module({
  imports: [PlatformsModule],
  providers: [ActionRecorder, ActionChanges],
  exports: [ActionRecorder, ActionChanges],
})
export class ActionRecorderModule {}
