import { Module } from '@nestjs/common';
import { JobsModule } from '../jobs/jobs.module.js';
import { PlatformsModule } from '../organizations/platforms.module.js';
import { ActionRecorderModule } from '../relay/action-recorder.module.js';
import { SiweModule } from '../accounts/siwe.module.js';
import { IngestionController } from './ingestion.controller.js';
import { GetIngestionHandler, IngestWalletHandler } from './ingestion.handlers.js';
import { Ingestion } from './ingestion.js';

@Module({
  imports: [JobsModule, SiweModule, PlatformsModule, ActionRecorderModule],
  controllers: [IngestionController],
  providers: [Ingestion, IngestWalletHandler, GetIngestionHandler],
})
export class IngestionModule {}
