import { Body, Controller, Get, Param, Post } from '@nestjs/common';
import { CommandBus, QueryBus } from '@nestjs/cqrs';
import { ApiResponse } from '@nestjs/swagger';
import { Written } from '../../http/answers.js';
import { Context, RequestContext } from '../../http/command-context.js';
import { PublicRead, Write } from '../../http/routes.js';
import { ListModels, SwitchModel, type Switched } from './promotions.js';
import { StartReplay } from './replays.js';
import { ModelParams, ModelSwitchDto, ModelsDto, PromoteModelDto, ReplayDto, StartModelReplayDto } from './vp.dto.js';

const SWITCHING = { status: 202, description: 'Recorded, but not applied yet', type: ModelSwitchDto };

const MODEL = { model_id: 'disc-1' };

@Controller('/v1')
export class ModelsController {
  constructor(
    private readonly commands: CommandBus,
    private readonly queries: QueryBus,
  ) {}

  @Get('/models')
  @PublicRead({
    summary: 'List the versions of the scoring model',
    description: 'And which of them serves the platform.',
    type: ModelsDto,
  })
  async list() {
    return this.queries.execute(new ListModels());
  }

  @Post('/models/:model_id/replay')
  @Write({
    scope: 'ops',
    status: 202,
    at: MODEL,
    example: { access_policies: ['AP_BORROW_V1'] },
    summary: 'Replay all identities by a version of the model, in the background',
    description: 'Compares with the version that serves the platform, under the platform’s lens.',
    type: ReplayDto,
    problems: ['policy_not_found'],
  })
  async replay(
    @Param() { model_id }: ModelParams,
    @Body() { access_policies }: StartModelReplayDto,
    @Context() request: RequestContext,
  ) {
    const context = request.of({ model_id, access_policies: access_policies ?? null, replay: true });
    const replay = new StartReplay({ of: { modelId: model_id }, accessPolicies: access_policies, context });
    return new Written(await this.commands.execute(replay), null);
  }

  @Post('/models/:model_id/promote')
  @Write({
    scope: 'ops',
    at: MODEL,
    example: {},
    summary: 'Make a version of the model the one that serves the platform',
    description: 'Returns 202 if the read models take longer than two seconds to switch.',
    type: ModelSwitchDto,
    problems: ['replay_not_found', 'replay_not_usable', 'promotion_conflict'],
  })
  @ApiResponse(SWITCHING)
  async promote(@Param() { model_id }: ModelParams, @Body() body: PromoteModelDto, @Context() request: RequestContext) {
    const replayId = body.replay_id ?? null;
    const context = request.of({ model_id, replay_id: replayId, promote: true });
    const command = new SwitchModel({ modelId: model_id, how: { replayId }, context });
    return writtenSwitch(await this.commands.execute(command));
  }

  @Post('/models/:model_id/rollback')
  @Write({
    scope: 'ops',
    at: MODEL,
    summary: 'Return to the version that was active before a version of the model was promoted',
    type: ModelSwitchDto,
    problems: ['model_not_active', 'promotion_conflict'],
  })
  @ApiResponse(SWITCHING)
  async rollBack(@Param() { model_id }: ModelParams, @Context() request: RequestContext) {
    const context = request.of({ model_id, rollback: true });
    return writtenSwitch(await this.commands.execute(new SwitchModel({ modelId: model_id, how: 'rollback', context })));
  }
}

/** 202 if the read models have not applied a switch yet. */
export function writtenSwitch<B>({ body, position, applied }: Switched<B>): Written<B> {
  return new Written(body, position, applied ? 200 : 202);
}
