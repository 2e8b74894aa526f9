import { Module } from '@nestjs/common';
import { ValidationPolicies } from '../lenses/validation-policies.js';
import { DiscController } from './disc.controller.js';
import {
  GetChangesHandler,
  GetExplanationHandler,
  GetHistoryHandler,
  GetMetricsHandler,
  GetRankHandler,
  GetReportsHandler,
  SeeIdentitiesHandler,
  GetIdentityHandler,
} from './disc.handlers.js';
import { IdentityReader } from './identity-reader.js';

@Module({
  controllers: [DiscController],
  providers: [
    ValidationPolicies,
    IdentityReader,
    GetIdentityHandler,
    SeeIdentitiesHandler,
    GetRankHandler,
    GetHistoryHandler,
    GetExplanationHandler,
    GetMetricsHandler,
    GetReportsHandler,
    GetChangesHandler,
  ],
})
export class DiscModule {}
