import { Module } from '@nestjs/common';
import { ConsumersModule } from '../../read-side/consumers.module.js';
import { SiweModule } from '../accounts/siwe.module.js';
import { ChangeFeed } from './change-feed.js';
import { DiscController } from './disc.controller.js';
import {
  GetExplanationHandler,
  GetHistoryHandler,
  GetMetricsHandler,
  GetRankHandler,
  GetReportsHandler,
} from './disc.handlers.js';
import { LiveChanges } from './live-changes.js';
import { Overview } from './overview.js';

@Module({
  imports: [SiweModule, ConsumersModule],
  controllers: [DiscController],
  providers: [
    GetRankHandler,
    GetHistoryHandler,
    GetExplanationHandler,
    GetMetricsHandler,
    GetReportsHandler,
    Overview,
    ChangeFeed,
    LiveChanges,
  ],
})
export class DiscModule {}
