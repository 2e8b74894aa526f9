import { Module } from '@nestjs/common';
import { AccessPoliciesModule } from '../access/ap.module.js';
import { PolicyNamesModule } from '../policy-names/policy-names.module.js';
import { ValidationPoliciesModule } from './vp.module.js';

@Module({ imports: [ValidationPoliciesModule, PolicyNamesModule, AccessPoliciesModule] })
export class PoliciesModule {}
