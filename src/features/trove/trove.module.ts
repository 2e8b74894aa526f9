import { Module } from '@nestjs/common';
import { Platforms } from '../organizations/platforms.js';
import { IssuersController } from './issuers.controller.js';
import { GetIssuerHandler, RegisterIssuerHandler, RetireIssuerHandler } from './issuers.handlers.js';
import { Issuers } from './issuers.js';
import { TroveController } from './trove.controller.js';
import { GetRecordHandler, ListRecordsHandler, ReviewRecordHandler, SubmitRecordHandler } from './trove.handlers.js';
import { ProofChecks } from './proof-checks.js';

@Module({
  controllers: [IssuersController, TroveController],
  providers: [
    Issuers,
    Platforms,
    ProofChecks,
    RegisterIssuerHandler,
    RetireIssuerHandler,
    GetIssuerHandler,
    SubmitRecordHandler,
    ReviewRecordHandler,
    GetRecordHandler,
    ListRecordsHandler,
  ],
})
export class TroveModule {}
