import { Body, Controller, Inject, Post } from '@nestjs/common';
import { CommandBus } from '@nestjs/cqrs';
import { CLOCK, type Clock } from '../../kernel/clock.js';
import { lastRecordedPosition } from '../../commands/batches.js';
import { ownerOfTurns } from '../../commands/context.js';
import { Quotas } from '../../commands/quotas.js';
import { isObject } from '../../kernel/json.js';
import { Problem, type ProblemCode, refusalOf } from '../../kernel/problems.js';
import { formatPosition } from '../../kernel/positions.js';
import { yieldIfDue } from '../../kernel/turn.js';
import { EVENT_STORE, type EventStore } from '../../stores/ports/event-store.js';
import { Written } from '../../http/answers.js';
import { Context, RequestContext } from '../../http/command-context.js';
import { itemProblem } from '../../http/problem-response.js';
import { Write } from '../../http/routes.js';
import { readBody } from '../../http/validation.js';
import type { Action } from './domain/relay.js';
import type { Source } from './domain/relay.events.js';
import {
  MAX_ACTIONS,
  RelayActionDto,
  RelayBatchDto,
  type RelayBatchItemDto,
  RelayBatchResultDto,
  RelayedDto,
  toAction,
} from './relay.dto.js';
import { RelayAction, RelayActions } from './relay.handlers.js';

const REFUSALS: readonly ProblemCode[] = [
  'unknown_criticality',
  'personal_data',
  'self_statement',
  'platform_not_owned',
  'external_id_conflict',
  'too_many_metrics',
  'quota_exceeded',
];

const ACTION = {
  tris_id: 'tris@alice',
  action_type: 'loan_repayment_consistency',
  category: 'finance',
  criticality: 'Critical',
  platform_id: 'lendco-app',
};

@Controller()
export class RelayController {
  constructor(
    private readonly commands: CommandBus,
    @Inject(CLOCK) private readonly clock: Clock,
    @Inject(EVENT_STORE) private readonly store: EventStore,
    private readonly quotas: Quotas,
  ) {}

  @Post('/api/decision-relay')
  @Write({
    scope: 'relay:write',
    quota: true,
    status: 202,
    example: { ...ACTION, external_id: 'loan-17' },
    summary: 'Submit a verified, score-relevant action',
    type: RelayedDto,
    problems: REFUSALS,
  })
  async relay(@Body() body: RelayActionDto, @Context() request: RequestContext) {
    const action = toAction(body, this.clock());
    const command = new RelayAction({ action, context: request.of(action) });
    const { action_id, source, position } = await this.commands.execute(command);
    this.tellQuota(request);
    const message = `Action received for scoring. ${WHY[source]}`;
    const answer: RelayedDto = { status: 'received', message, action_id, source };
    return new Written(answer, position);
  }

  @Post('/v1/decision-relay/batch')
  @Write({
    scope: 'relay:write',
    quota: true,
    list: { name: 'actions', most: MAX_ACTIONS },
    example: {
      actions: [
        { ...ACTION, external_id: 'loan-18' },
        { ...ACTION, external_id: 'loan-19' },
      ],
    },
    summary: 'Submit up to 1,000 actions, each with a result of its own',
    description:
      'Each action is accepted or refused as if it were sent alone, by the same rules; one that is refused affects no ' +
      'other. As NDJSON (`application/x-ndjson`), a line that is not JSON is refused alone, too. A retry with the same ' +
      'Idempotency-Key, or of actions with an `external_id`, has no second effect. Actions with the same `external_id` ' +
      'are recorded in their order, others in any. `Credence-Position` covers all. If the log takes none of the actions, ' +
      'the answer is 503; if it takes some, those that it did not take have the status 503.',
    type: RelayBatchResultDto,
  })
  async relayMany(@Body() { actions: given }: RelayBatchDto, @Context() request: RequestContext) {
    const actions: (Action | Problem)[] = [];
    for (const item of given) {
      actions.push(this.actionOf(item));
      await yieldIfDue();
    }
    const outcomes = await this.commands.execute(new RelayActions({ actions, request }));
    this.tellQuota(request);
    const results = outcomes.map((outcome, index): RelayBatchItemDto => {
      if (outcome instanceof Error) return { index, ...itemProblem(outcome) };
      const { action_id, source, position } = outcome;
      return { index, status: 202, data: { action_id, position: formatPosition(this.store.logId, position), source } };
    });
    return new Written<RelayBatchResultDto>({ results }, lastRecordedPosition(outcomes));
  }

  private tellQuota(request: RequestContext): void {
    request.tell(this.quotas.headersOf(ownerOfTurns(request.actor)));
  }

  private actionOf(item: unknown): Action | Problem {
    if (item instanceof Problem) return item;
    if (!isObject(item)) return refusalOf('', 'is_object', 'an action must be a JSON object');
    try {
      return toAction(readBody(RelayActionDto, item), this.clock());
    } catch (error) {
      if (error instanceof Problem) return error;
      throw error;
    }
  }
}

/** Why an action was recorded with its source, whoever repeats it. */
const WHY: Readonly<Record<Source, string>> = {
  vouched: 'It is vouched: operators, or an organization vetted then, stated it.',
  unvouched: 'It is unvouched: its organization was not vetted when it was recorded.',
};
