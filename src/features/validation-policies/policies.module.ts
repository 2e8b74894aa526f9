import { Module } from '@nestjs/common';
import { AccessPoliciesModule } from '../access/ap.module.js';
import { ValidationPoliciesModule } from './vp.module.js';

@Module({ imports: [ValidationPoliciesModule, AccessPoliciesModule] })
export class PoliciesModule {}
