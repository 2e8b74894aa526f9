import { Module } from '@nestjs/common';
import { PolicyNamesController } from './policy-names.controller.js';
import { AssignPolicyNameHandler } from './policy-names.handlers.js';

@Module({
  controllers: [PolicyNamesController],
  providers: [AssignPolicyNameHandler],
})
export class PolicyNamesModule {}
