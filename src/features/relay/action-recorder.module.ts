import { Module } from '@nestjs/common';
import { PlatformsModule } from '../organizations/platforms.module.js';
import { ActionChanges } from './action-changes.js';
import { ActionRecorder } from './relay.handlers.js';
import { RelayMetrics } from './relay-metrics.js';

@Module({
  imports: [PlatformsModule],
  providers: [ActionRecorder, ActionChanges, RelayMetrics],
  exports: [ActionRecorder, ActionChanges, RelayMetrics],
})
export class ActionRecorderModule {}
