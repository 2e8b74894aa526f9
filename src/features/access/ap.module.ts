import { Module } from '@nestjs/common';
import { ChainsModule } from '../accounts/chains.module.js';
import { IdentityReaderModule } from '../disc/identity-reader.module.js';
import { EligibilityModule } from './eligibility.module.js';
import { WalletLinksModule } from '../accounts/wallet-links.module.js';
import { LensesModule } from '../lenses/lenses.module.js';
import { AccessPolicyLookUpModule } from './access-policies.module.js';
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
  imports: [
    AccessPolicyLookUpModule,
    ChainsModule,
    WalletLinksModule,
    LensesModule,
    IdentityReaderModule,
    EligibilityModule,
    AccessPreviewModule,
  ],
  controllers: [AccessPoliciesController],
  providers: [
    CreateAccessPolicyHandler,
    RetireAccessPolicyHandler,
    GetAccessPolicyHandler,
    ListAccessPoliciesHandler,
    CheckAccessHandler,
  ],
})
export class AccessPoliciesModule {}
