import { Module } from '@nestjs/common';
import { LensesModule } from '../lenses/lenses.module.js';
import { AccessPolicies } from './access-policies.js';
import { AccessProbes } from './access-probes.js';

/** Provides the access policies to other modules. Their routes are in `ap.module.ts`. */
@Module({ providers: [AccessPolicies], exports: [AccessPolicies] })
export class AccessPolicyLookUpModule {}

/** For previews of validation policies. */
@Module({ imports: [AccessPolicyLookUpModule, LensesModule], providers: [AccessProbes], exports: [AccessProbes] })
export class AccessProbesModule {}
