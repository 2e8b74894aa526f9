import { Body, Controller, Get, Inject, Param, Post, Query } from '@nestjs/common';
import { CommandBus, QueryBus } from '@nestjs/cqrs';
import { CLOCK, type Clock } from '../../kernel/clock.js';
import { Written } from '../../http/answers.js';
import { Context, RequestContext } from '../../http/command-context.js';
import { Keyed, Write } from '../../http/routes.js';
import { refusalOf } from '../../kernel/problems.js';
import { REASONS } from '../relay/domain/relay.events.js';
import {
  RecordDto,
  RecordParams,
  RecordsDto,
  RecordsQuery,
  ReviewRecordDto,
  SubmitRecordDto,
  SubmittedRecordDto,
  toSubmission,
} from './trove.dto.js';
import { GetRecord, ListRecords, type Review, ReviewRecord, SubmitRecord } from './trove.handlers.js';

const CONTENT_HASH = '60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752';
const RECORD = { record_id: CONTENT_HASH };

@Controller('/v1/trove')
export class TroveController {
  constructor(
    private readonly commands: CommandBus,
    private readonly queries: QueryBus,
    @Inject(CLOCK) private readonly clock: Clock,
  ) {}

  @Post('/submit')
  @Write({
    scope: 'trove:write',
    status: 202,
    example: {
      tris_id: 'tris@alice',
      record_type: 'milestone',
      metric: 'creative_code_contribution',
      criticality: 'High',
      title: 'Release 2.0',
      content_hash: CONTENT_HASH,
      uri: 'https://project.example/releases/2.0',
      occurred_at: '2026-01-12T09:00:00Z',
    },
    summary: 'Submit a verifiable record: a milestone, an activity or an AI agent’s behavior',
    description: 'It counts once it is approved: by its proof, which is verified in the background, or by a reviewer.',
    type: SubmittedRecordDto,
    problems: ['record_conflict', 'record_decided', 'write_conflict'],
  })
  async submit(@Body() body: SubmitRecordDto, @Context() request: RequestContext) {
    const submission = toSubmission(body, request.actor.organization, this.clock());
    // The submitter is known by the key.
    const { submitter: _submitter, ...command } = submission;
    const context = request.of(command);
    return Written.of(await this.commands.execute(new SubmitRecord({ submission, context })));
  }

  @Get()
  @Keyed({
    scope: 'any',
    summary: 'List records in order of submission',
    type: RecordsDto,
    problems: ['identity_not_found'],
  })
  async list(@Query() query: RecordsQuery) {
    return this.queries.execute(new ListRecords(query));
  }

  @Get('/:record_id')
  @Keyed({ scope: 'any', at: RECORD, summary: 'Get a record', type: RecordDto, problems: ['record_not_found'] })
  async get(@Param() { record_id }: RecordParams) {
    return this.queries.execute(new GetRecord({ recordId: record_id }));
  }

  @Post('/:record_id/review')
  @Write({
    scope: 'trove:review',
    at: RECORD,
    example: { decision: 'approve', platform_id: 'lendco-app' },
    summary: 'Approve or reject a record, lift a rejection, or revoke an approval',
    description:
      'An organization decides for its own platforms; its rejection leaves the record to others. An operator’s rejection ' +
      'stands until an operator lifts it. Nobody reviews what their own organization, or the same key, submitted.',
    type: SubmittedRecordDto,
    problems: [
      'record_not_found',
      'self_statement',
      'own_submission',
      'record_decided',
      'record_counted',
      'platform_not_owned',
      'write_conflict',
    ],
  })
  async review(
    @Param() { record_id }: RecordParams,
    @Body() body: ReviewRecordDto,
    @Context() request: RequestContext,
  ) {
    const { decision, reason_code = null, platform_id = null } = body;
    // The reviewer is part of the decision.
    const context = request.of({ record_id, decision, reason_code, platform_id, actor: request.actor.name });
    const review = new ReviewRecord({ recordId: record_id, decision: reviewOf(body), context });
    return Written.of(await this.commands.execute(review));
  }
}

function reviewOf({ decision: kind, reason_code, platform_id }: ReviewRecordDto): Review {
  const needsReason = kind === 'reject' || kind === 'revoke';
  if (!needsReason && reason_code !== undefined)
    throw refusalOf('/reason_code', 'not_of_this_type', 'reason_code is only allowed to reject or to revoke');
  if (kind !== 'approve' && platform_id !== undefined)
    throw refusalOf('/platform_id', 'not_of_this_type', 'platform_id is only allowed with an approval');
  if (kind === 'approve') return { kind, platform_id };
  if (kind === 'lift') return { kind };
  if (reason_code === undefined)
    throw refusalOf('/reason_code', 'required', 'reason_code is missing: to reject or to revoke requires a reason');
  if (kind === 'reject') return { kind, reason_code };
  const reason = REASONS.find((one) => one === reason_code);
  if (!reason) throw refusalOf('/reason_code', 'isIn', `reason_code must be one of ${REASONS.join(', ')} to revoke`);
  return { kind, reason };
}
