import { Global, Module } from '@nestjs/common';
import { LensesModule } from '../lenses/lenses.module.js';
import { ACCESS_PREVIEW } from '../validation-policies/access-preview.js';
import { AccessPolicies } from './access-policies.js';
import { AccessProbes } from './access-probes.js';

/** Provides the access policies to other modules. Their routes are in `ap.module.ts`. */
@Module({ providers: [AccessPolicies], exports: [AccessPolicies] })
export class AccessPolicyLookUpModule {}

/** Global, so that the validation policies can use it without importing this feature. */
@Global()
@Module({
  imports: [AccessPolicyLookUpModule, LensesModule],
  providers: [{ provide: ACCESS_PREVIEW, useClass: AccessProbes }],
  exports: [ACCESS_PREVIEW],
})
export class AccessPreviewModule {}
