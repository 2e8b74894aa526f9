import { Body, Controller, Get, Param, Post, Query } from '@nestjs/common';
import { CommandBus, QueryBus } from '@nestjs/cqrs';
import { Written } from '../../http/answers.js';
import { Context, type RequestContext, bodyHash } from '../../http/command-context.js';
import { PublicRead, Write } from '../../http/routes.js';
import {
  CreatePolicyDto,
  CreatedPolicyDto,
  PoliciesDto,
  PoliciesQuery,
  PolicyDto,
  PolicyParams,
  RetiredPolicyDto,
} from './vp.dto.js';
import { CreatePolicy, GetPolicy, ListPolicies, RetirePolicy } from './vp.handlers.js';
import { toContent } from './vp.input.js';

@Controller('/v1/policies/vp')
export class ValidationPoliciesController {
  constructor(
    private readonly commands: CommandBus,
    private readonly queries: QueryBus,
  ) {}

  @Post()
  @Write({
    scope: 'policies:write',
    status: 201,
    summary: 'Create a validation policy',
    description: 'A policy never changes; the same content again answers 200. Nothing sees through it until promoted.',
    type: CreatedPolicyDto,
    problems: [
      'unknown_criticality',
      'weight_criticality_mismatch',
      'duplicate_metric',
      'total_weight_out_of_range',
      'policy_conflict',
      'idempotency_key_reused',
    ],
  })
  async create(@Body() body: CreatePolicyDto, @Context() { caller, ...request }: RequestContext) {
    const content = toContent(body);
    const context = { ...request, body_hash: bodyHash(content) };
    const result = await this.commands.execute(new CreatePolicy(content, caller, context));
    return new Written(result.body, result.position, result.own ? 201 : 200);
  }

  @Get()
  @PublicRead({ summary: 'List validation policies', type: PoliciesDto })
  async list(@Query() { limit, cursor, tris_org }: PoliciesQuery) {
    return this.queries.execute(new ListPolicies(limit, cursor, tris_org));
  }

  @Get('/:policy_id')
  @PublicRead({
    summary: 'One validation policy and what became of it',
    type: PolicyDto,
    problems: ['policy_not_found'],
  })
  async get(@Param() { policy_id }: PolicyParams) {
    return this.queries.execute(new GetPolicy(policy_id));
  }

  @Post('/:policy_id/retire')
  @Write({
    scope: 'policies:write',
    summary: 'Retire a validation policy: it can no longer be promoted',
    description: 'What it scored stays readable through it, and where it is active it stays so until another is.',
    type: RetiredPolicyDto,
    problems: ['policy_not_found', 'idempotency_key_reused', 'write_conflict'],
  })
  async retire(@Param() { policy_id }: PolicyParams, @Context() { caller, ...request }: RequestContext) {
    const context = { ...request, body_hash: bodyHash({ policy_id, retired: true }) };
    const { body, position } = await this.commands.execute(new RetirePolicy(policy_id, caller, context));
    return new Written(body, position);
  }
}
