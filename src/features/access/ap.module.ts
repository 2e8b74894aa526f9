import { Module } from '@nestjs/common';
import { ChainsModule } from '../accounts/chains.module.js';
import { IdentityReader } from '../disc/identity-reader.js';
import { EligibilityModule } from './eligibility.module.js';
import { WalletLinks } from '../accounts/wallet-links.js';
import { ValidationPolicies } from '../lenses/validation-policies.js';
import { AccessPolicies } from './access-policies.js';
import { AccessPreviewModule } from './access-probes.js';
import { AccessPoliciesController } from './ap.controller.js';
import {
  CheckAccessHandler,
  CreateAccessPolicyHandler,
  GetAccessPolicyHandler,
  ListAccessPoliciesHandler,
  RetireAccessPolicyHandler,
} from './ap.handlers.js';

@Module({
  imports: [ChainsModule, EligibilityModule, AccessPreviewModule],
  controllers: [AccessPoliciesController],
  providers: [
    AccessPolicies,
    ValidationPolicies,
    IdentityReader,
    WalletLinks,
    CreateAccessPolicyHandler,
    RetireAccessPolicyHandler,
    GetAccessPolicyHandler,
    ListAccessPoliciesHandler,
    CheckAccessHandler,
  ],
})
export class AccessPoliciesModule {}
