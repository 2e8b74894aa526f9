import { Module } from '@nestjs/common';
import { PolicyNamesController } from './policy-names.controller.js';
import { AssignPolicyNameHandler } from './policy-names.handlers.js';
import { PolicyNames } from './policy-names.js';

@Module({ providers: [PolicyNames], exports: [PolicyNames] })
export class PolicyNameOwnershipModule {}

@Module({
  controllers: [PolicyNamesController],
  providers: [AssignPolicyNameHandler],
})
export class PolicyNamesModule {}
