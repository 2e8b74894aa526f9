import { Module } from '@nestjs/common';
import { AccessPoliciesModule } from './ap/ap.module.js';
import { ValidationPoliciesModule } from './vp/vp.module.js';

@Module({ imports: [ValidationPoliciesModule, AccessPoliciesModule] })
export class PoliciesModule {}
