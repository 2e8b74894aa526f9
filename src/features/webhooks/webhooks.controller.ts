import { Body, Controller, Delete, Get, Param, Patch, Post, Query } from '@nestjs/common';
import { CommandBus, QueryBus } from '@nestjs/cqrs';
import type { Actor } from '../../commands/context.js';
import { Written } from '../../http/answers.js';
import { Context, RequestActor, RequestContext } from '../../http/command-context.js';
import { PageQuery } from '../../http/common.dto.js';
import { Keyed, Write } from '../../http/routes.js';
import type { WebhookFilter } from './domain/webhooks.events.js';
import {
  AttemptDto,
  ChangeWebhookDto,
  CreateWebhookDto,
  CreatedWebhookDto,
  DeletedWebhookDto,
  DeliveriesDto,
  DeliveryParams,
  ListWebhooksQuery,
  ReplayWebhookDto,
  ReplayedWebhookDto,
  RotatedSecretDto,
  WebhookDto,
  type WebhookFilterDto,
  WebhookParams,
  WebhooksDto,
} from './webhooks.dto.js';
import {
  ChangeWebhook,
  CreateWebhook,
  DeleteWebhook,
  ListDeliveries,
  ListWebhooks,
  ReplayWebhook,
  RotateSecret,
  SendNow,
} from './webhooks.handlers.js';
import { GetWebhook } from './webhooks.js';

const SCOPE = 'webhooks:write';

@Controller('/v1/webhooks')
export class WebhooksController {
  constructor(
    private readonly commands: CommandBus,
    private readonly queries: QueryBus,
  ) {}

  @Post()
  @Write({
    scope: SCOPE,
    status: 201,
    example: {
      url: 'https://lender.example/hooks/credence',
      events: ['rating.changed', 'score.crossed'],
      filter: { score_below: 40 },
    },
    summary: 'Create a webhook: receive changes instead of polling for them',
    description: 'It belongs to the organization of the key, and sees scores as its keys do.',
    type: CreatedWebhookDto,
    problems: ['policy_not_found', 'policy_retired', 'too_many_webhooks', 'write_conflict'],
  })
  async create(@Body() body: CreateWebhookDto, @Context() request: RequestContext) {
    const { url, events, filter, policy_id = null } = body;
    const webhook = { url, events, filter: filterOf(filter), policy_id };
    const command = new CreateWebhook({ ...webhook, context: request.of(webhook) });
    const { body: answer, position } = await this.commands.execute(command);
    return new Written(answer, position, 201, ['v1', 'webhooks', answer.webhook_id]);
  }

  @Get()
  @Keyed({ scope: SCOPE, summary: 'List webhooks of the key’s organization', type: WebhooksDto })
  async list(@Query() query: ListWebhooksQuery, @RequestActor() actor: Actor) {
    return this.queries.execute(new ListWebhooks({ ...query, actor }));
  }

  @Get('/:webhook_id')
  @Keyed({ scope: SCOPE, summary: 'Get a webhook', type: WebhookDto, problems: ['webhook_not_found'] })
  async get(@Param() { webhook_id }: WebhookParams, @RequestActor() actor: Actor) {
    return this.queries.execute(new GetWebhook({ webhook_id, actor }));
  }

  @Patch('/:webhook_id')
  @Write({
    scope: SCOPE,
    example: { status: 'disabled' },
    summary: 'Change a webhook, pause it, or enable it again',
    description: 'What happened while it was disabled is delivered once it is enabled again.',
    type: WebhookDto,
    problems: ['webhook_not_found', 'policy_not_found', 'policy_retired', 'write_conflict'],
  })
  async change(
    @Param() { webhook_id }: WebhookParams,
    @Body() body: ChangeWebhookDto,
    @Context() request: RequestContext,
  ) {
    const { url, events, filter, policy_id, status } = body;
    const change = {
      ...(url !== undefined && { url }),
      ...(events && { events }),
      ...(policy_id !== undefined && { policy_id }),
      ...(filter && { filter: filterOf(filter) }),
      ...(status && { active: status === 'active' }),
    };
    const context = request.of({ webhook_id, ...change });
    return Written.of(await this.commands.execute(new ChangeWebhook({ webhook_id, change, context })));
  }

  @Delete('/:webhook_id')
  @Write({
    scope: SCOPE,
    summary: 'Delete a webhook',
    type: DeletedWebhookDto,
    problems: ['webhook_not_found', 'write_conflict'],
  })
  async delete(@Param() { webhook_id }: WebhookParams, @Context() request: RequestContext) {
    const context = request.of({ webhook_id, deleted: true });
    return Written.of(await this.commands.execute(new DeleteWebhook({ webhook_id, context })));
  }

  @Post('/:webhook_id/rotate-secret')
  @Write({
    scope: SCOPE,
    summary: 'Replace the secret of a webhook',
    description: 'For a day, messages have a signature by the old secret, too.',
    type: RotatedSecretDto,
    problems: ['webhook_not_found', 'write_conflict'],
  })
  async rotate(@Param() { webhook_id }: WebhookParams, @Context() request: RequestContext) {
    const context = request.of({ webhook_id, rotate: true });
    return Written.of(await this.commands.execute(new RotateSecret({ webhook_id, context })));
  }

  @Post('/:webhook_id/test')
  @Write({
    scope: SCOPE,
    ignoresIdempotencyKey: true,
    summary: 'Send a test message at once, and say what the receiver answered',
    description: 'Its type is `webhook.test`. It is neither repeated nor listed.',
    type: AttemptDto,
    problems: ['webhook_not_found'],
  })
  async test(@Param() { webhook_id }: WebhookParams, @RequestActor() actor: Actor) {
    return new Written(await this.commands.execute(new SendNow({ webhook_id, actor })), null);
  }

  @Post('/:webhook_id/replay')
  @Write({
    scope: SCOPE,
    status: 202,
    summary: 'Deliver everything after a position, again if it was delivered before',
    description: 'Repeated messages have the `webhook-id` that they had before.',
    type: ReplayedWebhookDto,
    problems: ['webhook_not_found', 'position_unknown', 'write_conflict'],
  })
  async replay(
    @Param() { webhook_id }: WebhookParams,
    @Body() { after }: ReplayWebhookDto,
    @Context() request: RequestContext,
  ) {
    const context = request.of({ webhook_id, after });
    return Written.of(await this.commands.execute(new ReplayWebhook({ webhook_id, after, context })));
  }

  @Get('/:webhook_id/deliveries')
  @Keyed({
    scope: SCOPE,
    summary: 'List deliveries of a webhook, newest first',
    description: 'The newest 1,000 deliveries of the last seven days, and older ones that still wait.',
    type: DeliveriesDto,
    problems: ['webhook_not_found'],
  })
  async deliveries(
    @Param() { webhook_id }: WebhookParams,
    @Query() { limit, cursor }: PageQuery,
    @RequestActor() actor: Actor,
  ) {
    return this.queries.execute(new ListDeliveries({ webhook_id, limit, cursor, actor }));
  }

  @Post('/:webhook_id/deliveries/:delivery_id/redeliver')
  @Write({
    scope: SCOPE,
    ignoresIdempotencyKey: true,
    summary: 'Send a delivery again at once, and say what the receiver answered',
    type: AttemptDto,
    problems: ['webhook_not_found', 'delivery_not_found', 'delivery_pending'],
  })
  async redeliver(@Param() { webhook_id, delivery_id }: DeliveryParams, @RequestActor() actor: Actor) {
    return new Written(await this.commands.execute(new SendNow({ webhook_id, delivery_id, actor })), null);
  }
}

function filterOf(filter: WebhookFilterDto | undefined): WebhookFilter {
  const { tris_ids = null, ratings = null, score_below = null, score_above = null } = filter ?? {};
  return { tris_ids, ratings, score_below, score_above };
}
