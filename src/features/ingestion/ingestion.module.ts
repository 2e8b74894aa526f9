import { Module } from '@nestjs/common';
import { SiweModule } from '../accounts/siwe.module.js';
import { IngestionController } from './ingestion.controller.js';
import { IngestWalletHandler, Ingestion } from './ingestion.js';

@Module({
  imports: [SiweModule],
  controllers: [IngestionController],
  providers: [Ingestion, IngestWalletHandler],
})
export class IngestionModule {}
