import { Module } from '@nestjs/common';
import { ValidationPolicies } from './validation-policies.js';

@Module({ providers: [ValidationPolicies], exports: [ValidationPolicies] })
export class LensesModule {}
