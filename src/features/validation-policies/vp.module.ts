import { Module } from '@nestjs/common';
import { PolicyNamesController } from '../policy-names/policy-names.controller.js';
import { EvaluatePolicyHandler } from './evaluate.handlers.js';
import { ListModelsHandler, Promotions, SwitchModelHandler, SwitchPolicyHandler } from './promotions.js';
import { CancelReplayHandler, GetReplayHandler, Replays } from './replays.js';
import { ValidationPoliciesController } from './vp.controller.js';
import { ModelsController } from './models.controller.js';
import { CreatePolicyHandler, GetPolicyHandler, ListPoliciesHandler, RetirePolicyHandler } from './vp.handlers.js';

@Module({
  controllers: [ValidationPoliciesController, ModelsController, PolicyNamesController],
  providers: [
    Replays,
    Promotions,
    CreatePolicyHandler,
    RetirePolicyHandler,
    GetPolicyHandler,
    ListPoliciesHandler,
    EvaluatePolicyHandler,
    GetReplayHandler,
    CancelReplayHandler,
    SwitchPolicyHandler,
    ListModelsHandler,
    SwitchModelHandler,
  ],
})
export class ValidationPoliciesModule {}
