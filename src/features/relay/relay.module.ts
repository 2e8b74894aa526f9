import { Module } from '@nestjs/common';
import { RelayActionsHandler } from './relay-batch.handlers.js';
import { RelayController } from './relay.controller.js';
import { MetricLimit } from './metric-limit.js';
import { RelayActionHandler } from './relay.handlers.js';

@Module({
  controllers: [RelayController],
  providers: [RelayActionHandler, RelayActionsHandler, MetricLimit],
})
export class RelayModule {}
