import { Module } from '@nestjs/common';
import { AccessPolicies } from './access-policies.js';

/** The policies themselves, for whatever applies them; their routes are in `ap.module.ts`. */
@Module({ providers: [AccessPolicies], exports: [AccessPolicies] })
export class AccessPolicyLookUpModule {}
