import { Body, Controller, Inject, Post } from '@nestjs/common';
import { CommandBus } from '@nestjs/cqrs';
import { CLOCK, type Clock } from '../../kernel/clock.js';
import { Written } from '../../http/answers.js';
import { Context, RequestContext } from '../../http/command-context.js';
import { Write } from '../../http/routes.js';
import { RelayActionDto, RelayedDto } from './relay.dto.js';
import { RelayAction } from './relay.handlers.js';
import { toAction } from './relay.input.js';

@Controller()
export class RelayController {
  constructor(
    private readonly commands: CommandBus,
    @Inject(CLOCK) private readonly clock: Clock,
  ) {}

  @Post('/api/decision-relay')
  @Write({
    scope: 'relay:write',
    status: 202,
    summary: 'Submit a verified, score-relevant action',
    type: RelayedDto,
    problems: [
      'unknown_criticality',
      'personal_data',
      'self_statement',
      'platform_not_owned',
      'external_id_conflict',
      'too_many_metrics',
    ],
  })
  async relay(@Body() body: RelayActionDto, @Context() request: RequestContext) {
    const action = toAction(body, this.clock());
    const context = request.of(action);
    const { action_id, position } = await this.commands.execute(
      new RelayAction(action, context, request.actor.organization),
    );
    const answer: RelayedDto = { status: 'received', message: 'Action received for scoring.', action_id };
    return new Written(answer, position);
  }
}
