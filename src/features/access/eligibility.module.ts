import { Module } from '@nestjs/common';
import { AccessPolicyLookUpModule } from './access-policies.module.js';
import { EligibilityController } from './eligibility.controller.js';
import { RevokeEligibilityHandler, VerifyEligibilityHandler } from './eligibility.handlers.js';
import { IssuerKeys } from '../../credentials/issuer-keys.js';
import { EligibilityTokens } from './tokens.js';
import { Vouchers } from './vouchers.js';

@Module({
  imports: [AccessPolicyLookUpModule],
  controllers: [EligibilityController],
  providers: [EligibilityTokens, IssuerKeys, Vouchers, VerifyEligibilityHandler, RevokeEligibilityHandler],
  exports: [EligibilityTokens, Vouchers],
})
export class EligibilityModule {}
