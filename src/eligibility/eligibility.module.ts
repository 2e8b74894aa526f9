import { Module } from '@nestjs/common';
import { AccessPolicies } from '../policies/ap/access-policies.js';
import { EligibilityController } from './eligibility.controller.js';
import { RevokeEligibilityHandler, VerifyEligibilityHandler } from './eligibility.handlers.js';
import { EligibilityTokens } from './tokens.js';

@Module({
  controllers: [EligibilityController],
  providers: [EligibilityTokens, AccessPolicies, VerifyEligibilityHandler, RevokeEligibilityHandler],
  exports: [EligibilityTokens],
})
export class EligibilityModule {}
