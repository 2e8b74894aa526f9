import { Module } from '@nestjs/common';
import { AuditController } from './audit.controller.js';
import { LogProofs } from './log-proofs.js';

@Module({ controllers: [AuditController], providers: [LogProofs] })
export class AuditModule {}
