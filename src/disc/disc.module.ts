import { Module } from '@nestjs/common';
import { DiscController } from './disc.controller.js';
import {
  GetChangesHandler,
  GetExplanationHandler,
  GetHistoryHandler,
  GetMetricsHandler,
  GetRankHandler,
  GetReportHandler,
  SeeIdentityHandler,
} from './disc.handlers.js';
import { IdentityReader } from './identity-reader.js';

@Module({
  controllers: [DiscController],
  providers: [
    IdentityReader,
    SeeIdentityHandler,
    GetRankHandler,
    GetHistoryHandler,
    GetExplanationHandler,
    GetMetricsHandler,
    GetReportHandler,
    GetChangesHandler,
  ],
})
export class DiscModule {}
