import { Module } from '@nestjs/common';
import { ValidationPolicies } from './validation-policies.js';
import { ValidationPoliciesController } from './vp.controller.js';
import { CreatePolicyHandler, GetPolicyHandler, ListPoliciesHandler, RetirePolicyHandler } from './vp.handlers.js';

@Module({
  controllers: [ValidationPoliciesController],
  providers: [ValidationPolicies, CreatePolicyHandler, RetirePolicyHandler, GetPolicyHandler, ListPoliciesHandler],
})
export class ValidationPoliciesModule {}
