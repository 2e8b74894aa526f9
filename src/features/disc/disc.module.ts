import { Module } from '@nestjs/common';
import { ConsumersModule } from '../../read-side/consumers.module.js';
import { SiweModule } from '../accounts/siwe.module.js';
import { ChangeFeed } from './change-feed.js';
import { DiscController } from './disc.controller.js';
import {
  GetChangesHandler,
  GetExplanationHandler,
  GetHistoryHandler,
  GetMetricsHandler,
  GetRankHandler,
  GetReportsHandler,
  GetIdentitiesHandler,
} from './disc.handlers.js';
import { LiveChanges } from './live-changes.js';
import { Overview } from './overview.js';

@Module({
  imports: [SiweModule, ConsumersModule],
  controllers: [DiscController],
  providers: [
    GetIdentitiesHandler,
    GetRankHandler,
    GetHistoryHandler,
    GetExplanationHandler,
    GetMetricsHandler,
    GetReportsHandler,
    GetChangesHandler,
    Overview,
    ChangeFeed,
    LiveChanges,
  ],
})
export class DiscModule {}
