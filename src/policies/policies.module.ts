import { Module } from '@nestjs/common';
import { ValidationPoliciesModule } from './vp/vp.module.js';

@Module({ imports: [ValidationPoliciesModule] })
export class PoliciesModule {}
