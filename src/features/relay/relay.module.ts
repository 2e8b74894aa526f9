import { Module } from '@nestjs/common';
import { RelayController } from './relay.controller.js';
import { MetricLimit } from './metric-limit.js';
import { RelayActionHandler, RelayActionsHandler } from './relay.handlers.js';

@Module({
  controllers: [RelayController],
  providers: [RelayActionHandler, RelayActionsHandler, MetricLimit],
})
export class RelayModule {}
