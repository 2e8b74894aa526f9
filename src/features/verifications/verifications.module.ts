import { Module } from '@nestjs/common';
import { ChangeSchemeHandler, ListSchemesHandler, Schemes } from './schemes.handlers.js';
import { SiweModule } from '../accounts/siwe.module.js';
import { VerificationsController } from './verifications.controller.js';
import { SubmitProofHandler } from './verifications.handlers.js';
import { ProofVerifier } from './verifier.js';

@Module({
  imports: [SiweModule],
  controllers: [VerificationsController],
  providers: [Schemes, ProofVerifier, ChangeSchemeHandler, ListSchemesHandler, SubmitProofHandler],
})
export class VerificationsModule {}
