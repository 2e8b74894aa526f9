import { Module } from '@nestjs/common';
import { PlatformsModule } from '../organizations/platforms.module.js';
import { ActionRecorderModule } from './action-recorder.module.js';
import { RelayActionsHandler } from './relay-batch.handlers.js';
import { RelayController } from './relay.controller.js';
import { MetricLimit } from './metric-limit.js';
import { RelayActionHandler } from './relay.handlers.js';

@Module({
  imports: [PlatformsModule, ActionRecorderModule],
  controllers: [RelayController],
  providers: [RelayActionHandler, RelayActionsHandler, MetricLimit],
})
export class RelayModule {}
