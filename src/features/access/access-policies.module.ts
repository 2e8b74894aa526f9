import { Module } from '@nestjs/common';
import { AccessPolicies } from './access-policies.js';

/** Provides the access policies to other modules. Their routes are in `ap.module.ts`. */
@Module({ providers: [AccessPolicies], exports: [AccessPolicies] })
export class AccessPolicyLookUpModule {}
