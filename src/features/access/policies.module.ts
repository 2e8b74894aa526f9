import { Module } from '@nestjs/common';
import { AccessPoliciesModule } from './ap.module.js';
import { ValidationPoliciesModule } from '../validation-policies/vp.module.js';

@Module({ imports: [ValidationPoliciesModule, AccessPoliciesModule] })
export class PoliciesModule {}
