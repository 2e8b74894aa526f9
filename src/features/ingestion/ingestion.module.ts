import { Module } from '@nestjs/common';
import { ChainsModule } from '../accounts/chains.module.js';
import { Platforms } from '../organizations/platforms.js';
import { ActionRecorder } from '../relay/relay.handlers.js';
import { SiweModule } from '../accounts/siwe.module.js';
import { IngestionController } from './ingestion.controller.js';
import { GetIngestionHandler, IngestWalletHandler } from './ingestion.handlers.js';
import { Ingestion } from './ingestion.js';

@Module({
  imports: [ChainsModule, SiweModule],
  controllers: [IngestionController],
  providers: [Ingestion, Platforms, ActionRecorder, IngestWalletHandler, GetIngestionHandler],
})
export class IngestionModule {}
