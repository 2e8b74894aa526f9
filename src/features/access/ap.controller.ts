import { Body, Controller, Get, Param, Post, Query } from '@nestjs/common';
import { CommandBus, QueryBus } from '@nestjs/cqrs';
import { ApiResponse } from '@nestjs/swagger';
import { readByContent, Written } from '../../http/answers.js';
import { Context, RequestActor, RequestContext } from '../../http/command-context.js';
import { JobStartedDto } from '../../http/common.dto.js';
import { RequestCaller } from '../../http/controllers.js';
import { Keyed, PublicRead, Write } from '../../http/routes.js';
import type { Actor } from '../../commands/context.js';
import type { Caller } from '../../credentials/caller.js';
import { lastRecordedPosition } from '../../commands/batches.js';
import { itemProblem } from '../../http/problem-response.js';
import { readBody } from '../../http/validation.js';
import { hashed } from './domain/access-policy.js';
import { parseTimestamp } from '../../kernel/identifiers.js';
import { refusal, refusalOf } from '../../kernel/problems.js';
import {
  AccessDto,
  AccessPoliciesDto,
  AccessPolicyDto,
  AccessPolicyParams,
  CheckAccessDto,
  CheckManyDto,
  type CheckManyItemDto,
  CheckManyResultDto,
  CreateAccessPolicyDto,
  DryRunDto,
  EvaluateRulesDto,
  PoliciesQuery,
  ReplayDecisionsDto,
  RetiredAccessPolicyDto,
  SubjectDto,
  SubjectsDto,
  toAccessPolicy,
} from './ap.dto.js';
import { CreateAccessPolicy, GetAccessPolicy, ListAccessPolicies, RetireAccessPolicy } from './ap.handlers.js';
import { CheckAccess, CheckAccessOfMany, type CheckOfMany } from './check.handlers.js';
import type { VoucherTarget } from './access-check.js';
import { type ReplayRequest, ReplayDecisions } from './decision-replays.js';
import { EvaluateRules } from './dry-run.handlers.js';
import { StartPopulation } from './populations.js';
import { validRules } from './rules.js';

@Controller('/v1/policies/ap')
export class AccessPoliciesController {
  constructor(
    private readonly commands: CommandBus,
    private readonly queries: QueryBus,
  ) {}

  @Post()
  @Write({
    scope: 'policies:write',
    status: 201,
    example: {
      policy_id: 'AP_BORROW_V1',
      rules: { any: [{ disc_min: 7.5 }, { verification: ['zk-KYH'] }] },
      visibility: 'public',
      ttl_seconds: 600,
    },
    summary: 'Create an access policy',
    description:
      'A policy cannot be changed. Repeating the same content returns 200. The key’s organization owns it, and its name.',
    type: AccessPolicyDto,
    problems: ['personal_data', 'policy_not_found', 'policy_conflict', 'policy_name_not_owned'],
  })
  @ApiResponse({ status: 200, description: 'Already created with this content', type: AccessPolicyDto })
  async create(@Body() body: CreateAccessPolicyDto, @Context() request: RequestContext) {
    const content = toAccessPolicy(body);
    const context = request.of(hashed(content));
    const result = await this.commands.execute(new CreateAccessPolicy({ content, context }));
    return Written.created(result, ['v1', 'policies', 'ap', body.policy_id]);
  }

  @Post('/check')
  @Write({
    scope: 'access:check',
    example: { policy_id: 'AP_BORROW_V1', subject_tris: 'tris@alice' },
    summary: 'Check a subject by an access policy',
    description:
      'Records the decision. A grant comes with a token, and with a voucher if a wallet was named; a denial with the ' +
      'reasons and how to pass, if the caller may read the rules.',
    type: AccessDto,
    waits: true,
    problems: [
      'policy_not_found',
      'policy_not_active',
      'identity_not_found',
      'personal_data',
      'chain_not_configured',
      'wallet_not_linked',
      'vouchers_not_configured',
    ],
  })
  async check(@Body() body: CheckAccessDto, @Context() request: RequestContext) {
    const { policy_id, subject_tris, audience = null } = body;
    const target = targetOf(body);
    const check = { policy_id, subject_tris, audience, target };
    // `wallet: null`, so that a request without a target has the same hash in builds without vouchers.
    const context = request.of({ policy_id, subject_tris, audience, wallet: null, ...target });
    return Written.of(
      await this.commands.execute(new CheckAccess({ request: check, context, hasWaited: request.hasWaited })),
    );
  }

  @Post('/check/batch')
  @Write({
    scope: 'access:check',
    admitsEach: true,
    example: { policy_id: 'AP_BORROW_V1', subject_tris: ['tris@alice', 'tris:lendco'] },
    summary: 'Check up to 100 subjects by an access policy, or one subject by up to 20',
    description:
      'Send `policy_id` with a list of subjects, or `policy_ids` with one subject. Each result is what its check alone ' +
      'would return, and each decision is recorded; a problem with one affects no other. A retry with the same ' +
      'Idempotency-Key returns the same decisions. `Credence-Position` covers all. There are no vouchers.',
    type: CheckManyResultDto,
    waits: true,
  })
  async checkMany(@Body() body: CheckManyDto, @Context() request: RequestContext) {
    const checks = checksOf(body);
    const { audience = null } = body;
    const command = new CheckAccessOfMany({ checks, audience, request, hasWaited: request.hasWaited });
    const outcomes = await this.commands.execute(command);
    const results = outcomes.map((outcome, i): CheckManyItemDto => {
      if (outcome instanceof Error) return { ...checks[i]!, ...itemProblem(outcome) };
      return { ...checks[i]!, status: 200, data: outcome.body };
    });
    return new Written({ results } satisfies CheckManyResultDto, lastRecordedPosition(outcomes));
  }

  @Post('/evaluate')
  @Keyed({
    scope: 'policies:write',
    example: { rules: { any: [{ disc_min: 7.5 }, { verification: ['zk-KYH'] }] }, subjects: ['tris@alice'] },
    summary: 'Try the rules of an access policy on some subjects; writes nothing',
    description:
      'Decides as a check by a policy of the key’s organization would, for up to 100 subjects, and gives the outcome of ' +
      'every node of the rules. The policy need not exist. Nothing is recorded, and there are no tokens.',
    type: DryRunDto,
    problems: ['policy_not_found', 'identity_not_found'],
  })
  async evaluate(@Body() body: EvaluateRulesDto, @RequestActor() { organization }: Actor) {
    return this.queries.execute(new EvaluateRules({ ...body, organization }));
  }

  @Post('/replay')
  @Write({
    scope: 'policies:write',
    status: 202,
    example: { rules: { disc_min: 8 }, from: '2026-01-01T00:00:00Z', to: '2026-12-31T23:59:59Z' },
    summary: 'Decide recorded access decisions again by other rules, in the background',
    description:
      'Each decision that the key may read, as in `GET /v1/access/decisions`, is decided again at its own time, position, ' +
      'lens and model, by a stored policy or by rules that need not be stored. The job’s `result` has the sums; ' +
      '`GET /v1/jobs/:job_id/result` has, for 24 hours, a line for each decision that would differ. Nothing is recorded.',
    type: JobStartedDto,
    problems: ['policy_not_found'],
  })
  async replay(@Body() body: ReplayDecisionsDto, @Context() request: RequestContext) {
    const asked = replayRequestOf(body);
    const context = request.of({ ...asked, replay: true });
    return new Written(await this.commands.execute(new ReplayDecisions({ asked, context })), null);
  }

  @Get()
  @PublicRead({
    summary: 'List access policies',
    description: 'By id, without their rules.',
    type: AccessPoliciesDto,
    problems: ['identity_not_found'],
  })
  async list(@Query() query: PoliciesQuery, @RequestCaller() caller: Caller | null) {
    return this.queries.execute(new ListAccessPolicies({ ...query, caller }));
  }

  @Get('/:policy_id')
  @PublicRead({
    etag: true,
    summary: 'Get an access policy',
    description: 'A private one needs a key of its owner, or a key with `ops`.',
    type: AccessPolicyDto,
    problems: ['policy_not_found'],
  })
  async get(@Param() { policy_id }: AccessPolicyParams, @RequestCaller() caller: Caller | null) {
    return readByContent(await this.queries.execute(new GetAccessPolicy({ policy_id, caller })));
  }

  @Post('/:policy_id/population')
  @Write({
    scope: 'policies:write',
    status: 202,
    summary: 'Evaluate an access policy for all identities, in the background',
    description:
      'For callers that may read the rules. The job’s `result` has the sums; `GET /v1/jobs/:job_id/result` has, for 24 hours, ' +
      'a line `{tris_id, outcome}` for each identity, with the outcome `granted`, `denied` or `unknown`. No decision is ' +
      'recorded.',
    type: JobStartedDto,
    problems: ['policy_not_found'],
  })
  async population(@Param() { policy_id }: AccessPolicyParams, @Context() request: RequestContext) {
    const context = request.of({ policy_id, population: true });
    return new Written(await this.commands.execute(new StartPopulation({ policy_id, context })), null);
  }

  @Post('/:policy_id/retire')
  @Write({
    scope: 'policies:write',
    summary: 'Retire an access policy: it can no longer be checked',
    description: 'Tokens that it granted stay valid until they expire, unless they are revoked.',
    type: RetiredAccessPolicyDto,
    problems: ['policy_not_found', 'write_conflict'],
  })
  async retire(@Param() { policy_id }: AccessPolicyParams, @Context() request: RequestContext) {
    const context = request.of({ policy_id, retired: true });
    return Written.of(await this.commands.execute(new RetireAccessPolicy({ policy_id, context })));
  }
}

/** @throws Problem validation_failed, batch_too_large */
function checksOf({ policy_id, policy_ids, subject_tris }: CheckManyDto): CheckOfMany[] {
  if ((policy_id === undefined) === (policy_ids === undefined)) {
    const message = 'send either policy_id, with a list of subjects, or policy_ids, with one subject';
    throw refusalOf('/policy_ids', 'exclusive', message);
  }
  if (policy_id !== undefined) {
    const { subject_tris: subjects } = readBody(SubjectsDto, { subject_tris });
    return subjects.map((subject) => ({ policy_id, subject_tris: subject }));
  }
  const subject = readBody(SubjectDto, { subject_tris }).subject_tris;
  return policy_ids!.map((id) => ({ policy_id: id, subject_tris: subject }));
}

/** @throws Problem validation_failed */
function replayRequestOf({ policy_id, rules, from, to }: ReplayDecisionsDto): ReplayRequest {
  if ((policy_id === undefined) === (rules === undefined)) {
    throw refusalOf('/policy_id', 'exclusive', 'send either policy_id or rules');
  }
  if (rules) validRules(rules);
  const times = { from: parseTimestamp(from)!, to: parseTimestamp(to)! };
  const asked = { policy_id: policy_id ?? null, rules: rules ?? null, ...times };
  if (asked.from > asked.to) throw refusalOf('/to', 'before_from', 'to must not be before from');
  return asked;
}

/** The target of the voucher, or null. @throws Problem validation_failed if it is incomplete */
function targetOf({ wallet, chain_id, verifying_contract }: CheckAccessDto): VoucherTarget | null {
  if (wallet === undefined && chain_id === undefined && verifying_contract === undefined) return null;
  const target = { wallet: wallet?.toLowerCase(), chain_id, verifying_contract: verifying_contract?.toLowerCase() };
  const missing = Object.entries(target).filter(([, value]) => value === undefined);
  if (missing.length === 0) return target as VoucherTarget;
  const message = 'a voucher needs wallet, chain_id and verifying_contract';
  throw refusal(missing.map(([name]) => ({ pointer: `/${name}`, code: 'required', message })));
}
