import { Controller, Get, Param, Query } from '@nestjs/common';
import { QueryBus } from '@nestjs/cqrs';
import type { Actor } from '../../commands/context.js';
import { ForPeople } from '../../http/answers.js';
import { RequestActor } from '../../http/command-context.js';
import { Keyed } from '../../http/routes.js';
import { parseTimestamp } from '../../kernel/identifiers.js';
import { refusalOf } from '../../kernel/problems.js';
import { OneDecisionDto, DecisionParams, DecisionsDto, DecisionsQuery } from './decisions.dto.js';
import { NoticeDto } from './notice.dto.js';
import { GetNotice } from './notice.handlers.js';
import { GetDecision, ListDecisions } from './decisions.handlers.js';

const WHOSE =
  'Needs `audit:read`, or a key of an organization with `policies:write` or `access:check`. A key of an organization ' +
  'sees the decisions by its own policies only, a session those about its own TRIS.';

@Controller('/v1/access/decisions')
export class DecisionsController {
  constructor(private readonly queries: QueryBus) {}

  @Get()
  @Keyed({
    scope: 'any',
    session: true,
    summary: 'List recorded access decisions, the latest first',
    description: `${WHOSE} A page looks at up to 1,000 decisions, so with filters it may contain few or none: continue until \`next_cursor\` is null.`,
    type: DecisionsDto,
    problems: ['policy_not_found', 'identity_not_found'],
  })
  async list(@Query() query: DecisionsQuery, @RequestActor() actor: Actor) {
    const [from, to] = [query.from, query.to].map((time) => (time === undefined ? undefined : parseTimestamp(time)!));
    if (from !== undefined && to !== undefined && from > to) {
      throw refusalOf('?to', 'before_from', 'to must not be before from');
    }
    return this.queries.execute(new ListDecisions({ ...query, from, to, actor }));
  }

  @Get('/:jti')
  @Keyed({
    scope: 'any',
    session: true,
    summary: 'Get a recorded access decision',
    description: WHOSE,
    type: OneDecisionDto,
    problems: ['decision_not_found'],
  })
  async get(@Param() { jti }: DecisionParams, @RequestActor() actor: Actor) {
    return this.queries.execute(new GetDecision({ jti, actor }));
  }

  @Get('/:jti/notice')
  @Keyed({
    scope: 'any',
    session: true,
    summary: 'Get a notice of a recorded access decision, for the person it is about',
    description:
      `At most four principal reasons, signed (\`credence-notice+jws\`). As JSON, as text or as HTML, whichever ` +
      `\`Accept\` names first. ${WHOSE} Thresholds are for readers of the rules.`,
    forPeople: true,
    type: NoticeDto,
    problems: ['decision_not_found'],
  })
  async notice(@Param() { jti }: DecisionParams, @RequestActor() actor: Actor) {
    const { notice, lines } = await this.queries.execute(new GetNotice({ jti, actor }));
    return new ForPeople(notice, lines);
  }
}
