import { Body, Controller, Get, Param, Post, Query } from '@nestjs/common';
import { CommandBus, QueryBus } from '@nestjs/cqrs';
import type { Actor } from '../../commands/context.js';
import { Written } from '../../http/answers.js';
import { Context, RequestActor, RequestContext } from '../../http/command-context.js';
import { Keyed, Write } from '../../http/routes.js';
import { refusalOf } from '../../kernel/problems.js';
import {
  AnswerDisputeDto,
  DisputeDto,
  DisputeParams,
  DisputesDto,
  DisputesQuery,
  OpenDisputeDto,
} from './disputes.dto.js';
import { AnswerDispute, ListDisputes, OpenDispute } from './disputes.handlers.js';

@Controller('/v1/disputes')
export class DisputesController {
  constructor(
    private readonly commands: CommandBus,
    private readonly queries: QueryBus,
  ) {}

  @Post()
  @Write({
    scope: 'any',
    session: true,
    waits: true,
    needsBody: true,
    example: { bad_status: true, statement: 'I was confused with somebody else.' },
    summary: 'Dispute an action, a verification or the BAD status of the TRIS of the session',
    description:
      'For the session of a wallet that is linked to the TRIS, not for keys. A statement is disputed once at a time, ' +
      'after a rejection again with another text.',
    type: DisputeDto,
    problems: [
      'not_found',
      'dispute_open',
      'dispute_answered',
      'statement_withdrawn',
      'too_many_disputes',
      'write_conflict',
    ],
  })
  async open(@Body() body: OpenDisputeDto, @Context() request: RequestContext) {
    const { action_id, verification, bad_status, issuer, statement = null } = body;
    const given = [action_id, verification, bad_status].filter((one) => one !== undefined);
    if (given.length !== 1) {
      throw refusalOf('', 'exclusive', 'exactly one of action_id, verification and bad_status must be given');
    }
    if (issuer !== undefined && verification === undefined) {
      throw refusalOf('/issuer', 'not_of_this_type', 'issuer is only allowed with verification');
    }
    const asked = action_id === undefined ? { status: verification ?? null, issuer: issuer ?? null } : { action_id };
    const context = request.of({ ...asked, statement });
    return Written.of(await this.commands.execute(new OpenDispute({ asked, statement, context })));
  }

  @Get()
  @Keyed({
    scope: 'any',
    session: true,
    summary: 'List disputes: a session its own, a key those of its statements, operators all',
    type: DisputesDto,
  })
  async list(@Query() query: DisputesQuery, @RequestActor() actor: Actor) {
    return this.queries.execute(new ListDisputes({ ...query, actor }));
  }

  @Post('/:dispute_id/answer')
  @Write({
    scope: 'any',
    example: { outcome: 'rejected', note: 'The loan was repaid a month late.' },
    summary: 'Answer a dispute',
    description:
      'For whoever made the statement (of an action `relay:write`, of a verification `identity:write`: the organization ' +
      'that owned the platform when the dispute was opened or granted the verification, or the key), or for operators ' +
      '(`ops`). Also after it has lapsed: a rejection reinstates the action.',
    type: DisputeDto,
    problems: ['not_found', 'self_statement', 'dispute_answered', 'write_conflict'],
  })
  async answer(
    @Param() { dispute_id }: DisputeParams,
    @Body() { outcome, ...body }: AnswerDisputeDto,
    @Context() request: RequestContext,
  ) {
    const note = body.note ?? null;
    const context = request.of({ dispute_id, outcome, note });
    return Written.of(await this.commands.execute(new AnswerDispute({ dispute_id, outcome, note, context })));
  }
}
