import { Body, Controller, Delete, Get, Param, Post } from '@nestjs/common';
import { CommandBus, QueryBus } from '@nestjs/cqrs';
import { Written } from '../../http/answers.js';
import { Context, RequestContext } from '../../http/command-context.js';
import { JobStartedDto } from '../../http/common.dto.js';
import { Keyed, Write } from '../../http/routes.js';
import type { JsonObject } from '../../kernel/json.js';
import { DropGeneration } from './generations.handlers.js';
import { DroppedGenerationDto, GenerationParams, RebuildDto, StatusDto, SwapDto } from './operations.dto.js';
import { type OperationName, StartOperation } from './operations.js';
import { GetStatus } from './status.handlers.js';

const STARTED = { scope: 'ops', status: 202, type: JobStartedDto } as const;
const JOB = 'A worker runs it; `GET /v1/jobs/{job_id}` shows its progress and its result.';

@Controller('/v1/ops')
export class OperationsController {
  constructor(
    private readonly commands: CommandBus,
    private readonly queries: QueryBus,
  ) {}

  @Get('/status')
  @Keyed({
    scope: 'ops',
    summary: 'Get the state of the log, the read models, dead letters and failed jobs',
    description: 'It can be asked for every second or two: what would take long to count is null.',
    type: StatusDto,
  })
  async status() {
    return this.queries.execute(new GetStatus({ complete: false }));
  }

  @Post('/rebuild')
  @Write({
    ...STARTED,
    example: {},
    summary: 'Build a generation of views beside the one that serves',
    description: `An interrupted build of the same views starts again. ${JOB}`,
    problems: ['operation_open'],
  })
  async rebuild(@Body() { views, swap }: RebuildDto, @Context() request: RequestContext) {
    return this.start('rebuild', { views: views ?? null, swap }, request);
  }

  @Post('/swap')
  @Write({
    ...STARTED,
    example: { generation: 'g2' },
    summary: 'Serve the views of a ready generation',
    description: `The previous one is kept for a rollback. ${JOB}`,
    problems: ['operation_open'],
  })
  async swap(@Body() { generation }: SwapDto, @Context() request: RequestContext) {
    return this.start('swap', { generation }, request);
  }

  @Post('/rollback')
  @Write({
    ...STARTED,
    summary: 'Undo the last swap',
    description: JOB,
    problems: ['operation_open', 'generation_conflict'],
  })
  async rollback(@Context() request: RequestContext) {
    return this.start('rollback', {}, request);
  }

  @Post('/verify')
  @Write({
    ...STARTED,
    summary: 'Fold the whole log again and compare every row of the read models that serve',
    description: JOB,
    problems: ['operation_open'],
  })
  async verify(@Context() request: RequestContext) {
    return this.start('verify', {}, request);
  }

  @Delete('/generations/:generation')
  @Write({
    scope: 'ops',
    summary: 'Delete a generation that does not serve',
    type: DroppedGenerationDto,
    ignoresIdempotencyKey: true,
    problems: ['generation_not_found', 'generation_conflict'],
  })
  async drop(@Param() { generation }: GenerationParams) {
    await this.commands.execute(new DropGeneration({ generation }));
    return new Written<DroppedGenerationDto>({ generation }, null);
  }

  private async start(name: OperationName, input: JsonObject, request: RequestContext) {
    const command = new StartOperation({ name, input, context: request.of(input) });
    return new Written<JobStartedDto>(await this.commands.execute(command), null);
  }
}
