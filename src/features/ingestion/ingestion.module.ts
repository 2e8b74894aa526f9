import { Module } from '@nestjs/common';
import { SiweModule } from '../accounts/siwe.module.js';
import { IngestionController } from './ingestion.controller.js';
import { GetIngestionHandler, Ingestion } from './ingestion.js';

@Module({
  imports: [SiweModule],
  controllers: [IngestionController],
  providers: [Ingestion, GetIngestionHandler],
})
export class IngestionModule {}
