import { Body, Controller, Get, Inject, Param, Post } from '@nestjs/common';
import { CommandBus, QueryBus } from '@nestjs/cqrs';
import { Written } from '../../http/answers.js';
import { Context, RequestActor, RequestContext } from '../../http/command-context.js';
import { JobStartedDto } from '../../http/common.dto.js';
import { Keyed, Write } from '../../http/routes.js';
import type { Actor } from '../../commands/context.js';
import { CLOCK, type Clock } from '../../kernel/clock.js';
import { formatPosition } from '../../kernel/positions.js';
import { EVENT_STORE, type EventStore } from '../../stores/ports/event-store.js';
import { AffectedDecisionsDto } from './affected-decisions.dto.js';
import { GetAffectedDecisions } from './affected-decisions.handlers.js';
import { WithdrawActionsDto, toWithdrawal } from './withdraw-many.dto.js';
import { WithdrawActions } from './withdraw-many.js';
import { ActionDto, ActionParams, ChangeActionDto, ChangedActionDto } from './withdrawals.dto.js';
import { type ActionChange, ChangeAction, GetAction, PreviewChange } from './withdrawals.handlers.js';

const WHO =
  'For a key of the organization that owns the platform (`relay:write`), the key that relayed it if nobody owns the ' +
  'platform, or `ops`; never for a key of an organization that the action is about.';

@Controller('/v1/actions')
export class WithdrawalsController {
  constructor(
    private readonly commands: CommandBus,
    private readonly queries: QueryBus,
    @Inject(CLOCK) private readonly clock: Clock,
    @Inject(EVENT_STORE) private readonly store: EventStore,
  ) {}

  @Get('/:action_id')
  @Keyed({
    scope: 'any',
    session: true,
    summary: 'Get an action: its organization, whether it counts, and its withdrawals',
    description:
      'For who relayed it (its key, and keys of the organization that owns the platform), a session of the identity ' +
      'that it is about, `ops`, or a key of the operators with `audit:read`. An action is found once the read models have applied it.',
    type: ActionDto,
    problems: ['not_found'],
  })
  async get(@Param() { action_id }: ActionParams, @RequestActor() actor: Actor) {
    return this.queries.execute(new GetAction({ action_id, actor }));
  }

  @Get('/:action_id/affected-decisions')
  @Keyed({
    scope: 'any',
    summary: 'List the recorded access decisions that would differ without an action',
    description:
      'Each decision about the identity in which the action counted is derived again at its own time, position, lens and ' +
      'model, without the action. Nothing recorded changes, and tokens stay valid until they expire. Needs what ' +
      '`GET /v1/access/decisions` needs, and considers the same decisions.',
    type: AffectedDecisionsDto,
    problems: ['not_found', 'too_many_decisions'],
  })
  async affected(@Param() { action_id }: ActionParams, @RequestActor() actor: Actor) {
    return this.queries.execute(new GetAffectedDecisions({ action_id, actor }));
  }

  @Post('/:action_id/withdraw')
  @Write({
    scope: 'any',
    waits: true,
    example: { reason: 'mistake' },
    summary: 'Withdraw an action: it counts nowhere from now on',
    description: `${WHO} What was known before stays as it was. Asked again, the first answer is given again.`,
    type: ChangedActionDto,
    problems: ['not_found', 'self_statement', 'write_conflict'],
  })
  async withdraw(
    @Param() { action_id }: ActionParams,
    @Body() body: ChangeActionDto,
    @Context() request: RequestContext,
  ) {
    return this.change({ action_id, to: 'withdrawn', reason: body.reason }, body.dry_run, request);
  }

  @Post('/:action_id/reinstate')
  @Write({
    scope: 'any',
    waits: true,
    example: { reason: 'mistake' },
    summary: 'Reinstate a withdrawn action: it counts again',
    description: `${WHO} Asked again, the first answer is given again.`,
    type: ChangedActionDto,
    problems: ['not_found', 'self_statement', 'action_not_withdrawn', 'record_decided', 'write_conflict'],
  })
  async reinstate(
    @Param() { action_id }: ActionParams,
    @Body() body: ChangeActionDto,
    @Context() request: RequestContext,
  ) {
    return this.change({ action_id, to: 'counted', reason: body.reason }, body.dry_run, request);
  }

  @Post('/withdrawals')
  @Write({
    scope: 'any',
    status: 202,
    example: {
      key_id: 'lendco-relay',
      recorded_from: '2026-03-01T00:00:00Z',
      reason: 'key_compromised',
      dry_run: true,
    },
    needsBody: true,
    summary: 'Withdraw many actions, in the background: a dry run finds them, then exactly these are withdrawn',
    description:
      'With `dry_run`, finds the actions that count and that all conditions are met by, of which the key may withdraw ' +
      'each (a key needs `relay:write` or `ops`). The job’s `result` says what would change; `GET /v1/jobs/:job_id/result` has, for 24 hours, a line for each ' +
      'action, and one for each access decision that would differ. With `apply`, withdraws the set of a dry run. Asked ' +
      'again, it continues what was interrupted.',
    type: JobStartedDto,
    problems: ['job_not_found', 'job_not_completed', 'job_result_expired', 'withdrawals_changed'],
  })
  async withdrawMany(@Body() body: WithdrawActionsDto, @Context() request: RequestContext) {
    const { asked, hashed } = toWithdrawal(body, this.clock());
    return new Written(await this.commands.execute(new WithdrawActions({ asked, context: request.of(hashed) })), null);
  }

  private async change(change: ActionChange, dryRun: boolean, request: RequestContext) {
    if (dryRun) return this.queries.execute(new PreviewChange({ ...change, actor: request.actor }));
    const position = await this.commands.execute(new ChangeAction({ ...change, context: request.of(change) }));
    const { action_id, to: state } = change;
    const answer = { action_id, state, position: formatPosition(this.store.logId, position) };
    return new Written<ChangedActionDto>(answer, position);
  }
}
