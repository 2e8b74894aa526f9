import { Module } from '@nestjs/common';
import { IdentityReaderModule } from '../disc/identity-reader.module.js';
import { LensesModule } from '../lenses/lenses.module.js';
import { AccessPolicies } from './access-policies.js';
import { AccessProbes } from './access-probes.js';
import { AffectedDecisions } from './affected-decisions.js';

/** Provides the access policies to other modules. Their routes are in `ap.module.ts`. */
@Module({ providers: [AccessPolicies], exports: [AccessPolicies] })
export class AccessPolicyLookUpModule {}

/** For previews of validation policies. */
@Module({ imports: [AccessPolicyLookUpModule, LensesModule], providers: [AccessProbes], exports: [AccessProbes] })
export class AccessProbesModule {}

/** For withdrawals of actions, and for webhooks that tell of them. */
@Module({
  imports: [AccessPolicyLookUpModule, IdentityReaderModule],
  providers: [AffectedDecisions],
  exports: [AffectedDecisions],
})
export class AffectedDecisionsModule {}
