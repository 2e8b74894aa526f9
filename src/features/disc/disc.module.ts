import { Module } from '@nestjs/common';
import { Consumers } from '../../read-side/consumers.js';
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
  imports: [SiweModule],
  controllers: [DiscController],
  providers: [
    Consumers,
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
