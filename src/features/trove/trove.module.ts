import { Module } from '@nestjs/common';
import { IssuersController } from './issuers.controller.js';
import { ChangeIssuerHandler, Issuers } from './issuers.js';
import { TroveController } from './trove.controller.js';
import { GetRecordHandler, ListRecordsHandler, ReviewRecordHandler, SubmitRecordHandler } from './trove.handlers.js';
import { CountedContent } from './counted-content.js';
import { ProofChecks } from './proof-checks.js';

@Module({
  controllers: [IssuersController, TroveController],
  providers: [
    Issuers,
    ProofChecks,
    CountedContent,
    ChangeIssuerHandler,
    SubmitRecordHandler,
    ReviewRecordHandler,
    GetRecordHandler,
    ListRecordsHandler,
  ],
})
export class TroveModule {}
