import { Module } from '@nestjs/common';
import { WalletLinksModule } from '../accounts/wallet-links.module.js';
import { AccessPoliciesController } from './ap.controller.js';
import {
  CreateAccessPolicyHandler,
  GetAccessPolicyHandler,
  ListAccessPoliciesHandler,
  RetireAccessPolicyHandler,
} from './ap.handlers.js';
import { CheckAccessHandler, CheckAccessOfManyHandler } from './check.handlers.js';
import { DecisionReplays } from './decision-replays.js';
import { DecisionsController } from './decisions.controller.js';
import { GetDecisionHandler, ListDecisionsHandler } from './decisions.handlers.js';
import { EvaluateRulesHandler } from './dry-run.handlers.js';
import { EligibilityController } from './eligibility.controller.js';
import { RevokeEligibilityHandler, VerifyEligibilityHandler } from './eligibility.handlers.js';
import { GetNoticeHandler } from './notice.handlers.js';
import { Populations } from './populations.js';
import { EligibilityTokens } from './tokens.js';
import { Vouchers } from './vouchers.js';

/** Without checks, which need keys that sign. */
@Module({
  providers: [
    CreateAccessPolicyHandler,
    RetireAccessPolicyHandler,
    GetAccessPolicyHandler,
    ListAccessPoliciesHandler,
    ListDecisionsHandler,
  ],
})
export class AccessPolicyHandlersModule {}

@Module({
  imports: [AccessPolicyHandlersModule, WalletLinksModule],
  controllers: [AccessPoliciesController, DecisionsController, EligibilityController],
  providers: [
    CheckAccessHandler,
    CheckAccessOfManyHandler,
    EvaluateRulesHandler,
    GetDecisionHandler,
    GetNoticeHandler,
    DecisionReplays,
    Populations,
    EligibilityTokens,
    Vouchers,
    VerifyEligibilityHandler,
    RevokeEligibilityHandler,
  ],
})
export class AccessPoliciesModule {}
