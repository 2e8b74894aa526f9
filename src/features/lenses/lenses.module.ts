import { Module } from '@nestjs/common';
import { PolicyNames } from './policy-names.js';
import { ValidationPolicies } from './validation-policies.js';

@Module({ providers: [ValidationPolicies, PolicyNames], exports: [ValidationPolicies, PolicyNames] })
export class LensesModule {}
