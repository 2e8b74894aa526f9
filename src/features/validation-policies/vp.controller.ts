import { Body, Controller, Delete, Get, Param, Post, Query } from '@nestjs/common';
import { CommandBus, QueryBus } from '@nestjs/cqrs';
import { ApiResponse } from '@nestjs/swagger';
import { readByContent, Written } from '../../http/answers.js';
import { Context, RequestActor, RequestContext } from '../../http/command-context.js';
import type { Actor } from '../../commands/context.js';
import { ClientGone } from '../../http/controllers.js';
import { Keyed, PublicRead, Write } from '../../http/routes.js';
import { refusalOf } from '../../kernel/problems.js';
import { PoliciesQuery } from '../access/ap.dto.js';
import { EvaluatePolicy } from './evaluate.handlers.js';
import { writtenSwitch } from './models.controller.js';
import { GetPromotion, SwitchPolicy } from './promotions.js';
import { CancelReplay, GetReplay, StartReplay } from './replays.js';
import {
  CreatePolicyDto,
  CreatedPolicyDto,
  EvaluatePolicyDto,
  EvaluationDto,
  PoliciesDto,
  PolicyDto,
  PolicyParams,
  PromotePolicyDto,
  PromotionDto,
  PromotionParams,
  ReplayDto,
  ReplayParams,
  RetiredPolicyDto,
  RollBackPolicyDto,
  StartReplayDto,
  SwitchDto,
  toContent,
} from './vp.dto.js';
import type { LensScope } from '../lenses/domain/lenses.events.js';
import { identityOf } from '../lenses/domain/validation-policy.js';
import { CreatePolicy, GetPolicy, ListPolicies, RetirePolicy } from './vp.handlers.js';

const SWITCHING = { status: 202, description: 'Recorded, but not applied yet; query `job_id`', type: SwitchDto };

const input = (metric: string, criticality: 'High' | 'Critical') => ({
  metric,
  criticality,
  weight: criticality === 'High' ? 0.1 : 0.14,
});
const POLICY = {
  policy_id: 'VP_LENDING_V1',
  tris_org: 'tris:lendco',
  inputs: [
    input('finance_loan_repayment_consistency', 'Critical'),
    input('compliance_kyc_verified', 'High'),
    input('finance_liquidity_provision_duration', 'Critical'),
    input('security_multisig_participation', 'Critical'),
    input('security_verified_identity', 'Critical'),
    input('social_verified_identity_linked', 'Critical'),
    input('creative_code_contribution', 'High'),
    input('educational_research_authorship', 'High'),
  ],
  metadata: { total_weight: 1, visibility: 'public', version: 'v1.0' },
};

@Controller('/v1')
export class ValidationPoliciesController {
  constructor(
    private readonly commands: CommandBus,
    private readonly queries: QueryBus,
  ) {}

  @Post('/policies/vp')
  @Write({
    scope: 'policies:write',
    status: 201,
    example: POLICY,
    summary: 'Create a validation policy',
    description:
      'A policy cannot be changed. Repeating it with the same content returns 200. It has no effect until promoted.',
    type: CreatedPolicyDto,
    problems: [
      'weight_criticality_mismatch',
      'duplicate_metric',
      'total_weight_out_of_range',
      'policy_conflict',
      'policy_name_not_owned',
    ],
  })
  @ApiResponse({ status: 200, description: 'Already created with this content', type: CreatedPolicyDto })
  async create(@Body() body: CreatePolicyDto, @Context() request: RequestContext) {
    const content = toContent(body);
    const context = request.of(identityOf(content));
    const result = await this.commands.execute(new CreatePolicy({ content, context }));
    return Written.created(result, ['v1', 'policies', 'vp', content.policy_id]);
  }

  @Get('/policies/vp')
  @PublicRead({
    summary: 'List validation policies',
    description: 'By id.',
    type: PoliciesDto,
    problems: ['identity_not_found'],
  })
  async list(@Query() query: PoliciesQuery) {
    return this.queries.execute(new ListPolicies(query));
  }

  @Get('/policies/vp/:policy_id')
  @PublicRead({
    etag: true,
    summary: 'Get a validation policy and its history',
    description: 'Where it is active now, and each promotion, rollback and retirement.',
    type: PolicyDto,
    problems: ['policy_not_found'],
  })
  async get(@Param() { policy_id }: PolicyParams) {
    return readByContent(await this.queries.execute(new GetPolicy({ policyId: policy_id })));
  }

  @Post('/policies/vp/:policy_id/retire')
  @Write({
    scope: 'policies:write',
    summary: 'Retire a validation policy: it can no longer be promoted',
    description: 'It can still be selected with `vp`, and stays active where it is until another is promoted.',
    type: RetiredPolicyDto,
    problems: ['policy_not_found', 'write_conflict'],
  })
  async retire(@Param() { policy_id }: PolicyParams, @Context() request: RequestContext) {
    const context = request.of({ policy_id, retired: true });
    return Written.of(await this.commands.execute(new RetirePolicy({ policyId: policy_id, context })));
  }

  @Post('/policies/vp/evaluate')
  @Keyed({
    scope: 'policies:write',
    example: { policy_id: 'VP_LENDING_V1', subjects: ['tris@alice'] },
    needsBody: true,
    summary: 'Preview what a policy would change, for some identities or for all; writes nothing',
    description:
      'Compares with the active lens of the scope. One preview over all identities runs at a time; a replay does the ' +
      'same in the background.',
    type: EvaluationDto,
    problems: [
      'policy_not_found',
      'weight_criticality_mismatch',
      'duplicate_metric',
      'total_weight_out_of_range',
      'preview_busy',
    ],
  })
  async evaluate(@Body() body: EvaluatePolicyDto, @RequestActor() actor: Actor, @ClientGone() signal: AbortSignal) {
    const { policy, policy_id, subjects, access_policies: accessPolicies = [], model } = body;
    if ((policy === undefined) === (policy_id === undefined)) {
      throw refusalOf('/policy_id', 'exclusive', 'send either policy or policy_id');
    }
    const asked = { scope: body.scope ?? scopeOf(actor), subjects, accessPolicies, actor, signal, model };
    const which = policy === undefined ? policy_id! : toContent(policy);
    return this.queries.execute(new EvaluatePolicy({ policy: which, ...asked }));
  }

  @Post('/policies/vp/:policy_id/replay')
  @Write({
    scope: 'policies:write',
    status: 202,
    example: { scope: 'platform', access_policies: ['AP_BORROW_V1'] },
    summary: 'Replay all identities under a policy, in the background',
    type: ReplayDto,
    problems: ['policy_not_found'],
  })
  async replay(
    @Param() { policy_id }: PolicyParams,
    @Body() { access_policies, model, ...body }: StartReplayDto,
    @Context() request: RequestContext,
  ) {
    const scope = body.scope ?? scopeOf(request.actor);
    const basis = { policy_id, scope, access_policies: access_policies ?? null, ...(model && { model }) };
    const context = request.of({ ...basis, replay: true });
    const of = { policyId: policy_id, scope, model };
    const replay = new StartReplay({ of, accessPolicies: access_policies, context });
    return new Written(await this.commands.execute(replay), null);
  }

  @Get('/replays/:replay_id')
  @Keyed({
    scope: 'policies:write',
    summary: 'Get the progress and the result of a replay',
    type: ReplayDto,
    problems: ['replay_not_found'],
  })
  async getReplay(@Param() { replay_id }: ReplayParams, @RequestActor() actor: Actor) {
    return this.queries.execute(new GetReplay({ replayId: replay_id, actor }));
  }

  @Delete('/replays/:replay_id')
  @Write({
    scope: 'policies:write',
    summary: 'Cancel a replay; has no effect on a finished one',
    type: ReplayDto,
    ignoresIdempotencyKey: true,
    problems: ['replay_not_found'],
  })
  async cancelReplay(@Param() { replay_id }: ReplayParams, @RequestActor() actor: Actor) {
    return new Written(await this.commands.execute(new CancelReplay({ replayId: replay_id, actor })), null);
  }

  @Post('/policies/vp/:policy_id/promote')
  @Write({
    scope: 'any',
    example: { scope: 'platform' },
    summary: 'Make a policy the lens of the platform or of the owning organization',
    description:
      'Requires the scope `ops` for the platform, `policies:write` for the organization. For the platform the weights ' +
      'of the inputs must add up to 0.95 to 1.05. Returns 202 with a job_id if the read models take longer than two ' +
      'seconds to switch.',
    type: SwitchDto,
    problems: [
      'policy_not_found',
      'replay_not_found',
      'replay_not_usable',
      'policy_retired',
      'total_weight_out_of_range',
      'promotion_conflict',
    ],
  })
  @ApiResponse(SWITCHING)
  async promote(
    @Param() { policy_id }: PolicyParams,
    @Body() body: PromotePolicyDto,
    @Context() request: RequestContext,
  ) {
    const { scope } = body;
    const replayId = body.replay_id ?? null;
    const context = request.of({ policy_id, scope, replay_id: replayId, promote: true });
    const command = new SwitchPolicy({ policyId: policy_id, scope, how: { replayId }, context });
    return writtenSwitch(await this.commands.execute(command));
  }

  @Post('/policies/vp/:policy_id/rollback')
  @Write({
    scope: 'any',
    example: { scope: 'platform' },
    summary: 'Return to the lens that was active before a policy was promoted',
    description: 'Scopes and answers are those of a promotion.',
    type: SwitchDto,
    problems: ['policy_not_found', 'policy_not_active', 'promotion_conflict'],
  })
  @ApiResponse(SWITCHING)
  async rollBack(
    @Param() { policy_id }: PolicyParams,
    @Body() body: RollBackPolicyDto,
    @Context() request: RequestContext,
  ) {
    const scope = body.scope ?? scopeOf(request.actor);
    const context = request.of({ policy_id, scope, rollback: true });
    const command = new SwitchPolicy({ policyId: policy_id, scope, how: 'rollback', context });
    return writtenSwitch(await this.commands.execute(command));
  }

  @Get('/promotions/:job_id')
  @Keyed({
    scope: 'any',
    summary: 'Get the status of a promotion that returned 202',
    type: PromotionDto,
    problems: ['not_found'],
  })
  async promotion(@Param() { job_id }: PromotionParams) {
    return this.queries.execute(new GetPromotion({ jobId: job_id }));
  }
}

/** The default scope: the organization for a key bound to one, otherwise the platform. */
function scopeOf({ organization }: Actor): LensScope {
  return organization === null ? 'platform' : 'organization';
}
