import { Module } from '@nestjs/common';
import { AccessPolicies } from './access-policies.js';
import { EligibilityController } from './eligibility.controller.js';
import { RevokeEligibilityHandler, VerifyEligibilityHandler } from './eligibility.handlers.js';
import { IssuerKeys } from '../../credentials/issuer-keys.js';
import { EligibilityTokens } from './tokens.js';
import { Vouchers } from './vouchers.js';

@Module({
  controllers: [EligibilityController],
  providers: [
    EligibilityTokens,
    IssuerKeys,
    Vouchers,
    AccessPolicies,
    VerifyEligibilityHandler,
    RevokeEligibilityHandler,
  ],
  exports: [EligibilityTokens, Vouchers],
})
export class EligibilityModule {}
