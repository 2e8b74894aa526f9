import { Body, Controller, Get, Param, Post, Query } from '@nestjs/common';
import { CommandBus, QueryBus } from '@nestjs/cqrs';
import { Written } from '../../http/answers.js';
import { Context, RequestContext } from '../../http/command-context.js';
import { Keyed, Write } from '../../http/routes.js';
import {
  AcknowledgeDeadLetterDto,
  DeadLetterDto,
  DeadLetterParams,
  DeadLettersDto,
  DeadLettersQuery,
} from './dead-letters.dto.js';
import { AcknowledgeDeadLetter, ListDeadLetters } from './dead-letters.handlers.js';

@Controller('/v1/dead-letters')
export class DeadLettersController {
  constructor(
    private readonly commands: CommandBus,
    private readonly queries: QueryBus,
  ) {}

  @Get()
  @Keyed({ scope: 'ops', summary: 'List events that could not be decoded', type: DeadLettersDto })
  async list(@Query() query: DeadLettersQuery) {
    return this.queries.execute(new ListDeadLetters(query));
  }

  @Post('/:event_id/acknowledge')
  @Write({
    scope: 'ops',
    example: { reason_code: 'known_defect' },
    summary: 'Acknowledge an undecodable event: its identity no longer counts as incomplete because of it',
    description: 'Only the first acknowledgement is stored; later ones return it.',
    type: DeadLetterDto,
    problems: ['not_found', 'projection_rebuilding'],
  })
  async acknowledge(
    @Param() { event_id }: DeadLetterParams,
    @Body() { reason_code }: AcknowledgeDeadLetterDto,
    @Context() request: RequestContext,
  ) {
    const context = request.of({ event_id, reason_code });
    return Written.of(await this.commands.execute(new AcknowledgeDeadLetter({ event_id, reason_code, context })));
  }
}
