import { randomUUID } from 'node:crypto';
import { Inject } from '@nestjs/common';
import { CommandHandler, type ICommandHandler, type IQueryHandler, QueryHandler } from '@nestjs/cqrs';
import { type WebhookRow, webhooksOf } from '../../../projections/webhooks.js';
import {
  type Actor,
  type CommandContext,
  ownerOfTurns,
  refuseUnlessAccepted,
  type Recorded,
} from '../../commands/context.js';
import { withTexts } from '../../commands/kept-texts.js';
import { CommandWith, QueryWith } from '../../commands/messages.js';
import { Writer } from '../../commands/writer.js';
import { cursorAfter, rowAfter } from '../../kernel/cursor.js';
import { CLOCK, type Clock } from '../../kernel/clock.js';
import { sha256Hex } from '../../kernel/hash.js';
import type { JsonObject } from '../../kernel/json.js';
import { formatPosition, parsePosition, positionOf, sortByPosition } from '../../kernel/positions.js';
import { Problem, refusalOf } from '../../kernel/problems.js';
import { mapInParts } from '../../kernel/turn.js';
import { Turns } from '../../kernel/turns.js';
import { Views } from '../../read-side/views.js';
import { KEY_VALUE, type KeyValue } from '../../stores/ports/key-value.js';
import { AccessPolicies } from '../access/access-policies.js';
import { Deliveries, type Delivery } from './deliveries.js';
import { Dispatcher } from './dispatcher.js';
import {
  WEBHOOK_ID,
  type WebhookContent,
  decideChange,
  decideCreate,
  decideDelete,
  decideReplay,
  decideRotate,
  webhookOf,
  webhookStream,
} from './domain/webhook.js';
import { type Outcome, Receivers, isDelivered } from './receivers.js';
import { Sender } from './sender.js';
import { Signatures } from './signatures.js';
import { WebhookLimit } from './webhook-limit.js';
import type {
  AttemptDto,
  CreatedWebhookDto,
  DeletedWebhookDto,
  DeliveriesDto,
  DeliveryDto,
  ListWebhooksQuery,
  ReplayedWebhookDto,
  RotatedSecretDto,
  WebhookDto,
  WebhooksDto,
} from './webhooks.dto.js';
import { Webhooks, refuseEventsOfAll } from './webhooks.js';

/** Tests and repeated deliveries that a process sends at a time, since each may take five seconds. */
const MAX_SENDING = 8;
/** Of one organization, or key without one. */
const MAX_SENDING_OF_ONE = 4;

/** The content of a webhook that a client asks for. */
type WebhookRequest = Omit<WebhookContent, 'url_hash'> & { url: string };

/** What the commands on a webhook have in common. */
type OnWebhook = { webhook_id: string; context: CommandContext };

/** @throws Problem validation_failed */
function check({ events, filter, policy_id }: Omit<WebhookContent, 'url_hash'>): void {
  if (events.includes('score.crossed') && filter.score_below === null && filter.score_above === null) {
    throw refusalOf('/filter', 'required', 'score.crossed needs a threshold: score_below, score_above or both');
  }
  if (!events.includes('access.denied_now')) return;
  if (policy_id === null) throw refusalOf('/policy_id', 'required', 'access.denied_now needs policy_id');
  if (filter.tris_ids !== null) return;
  throw refusalOf('/filter/tris_ids', 'required', 'access.denied_now needs the identities to watch: tris_ids');
}

/**
 * Refuses the rules of others: messages say what a policy decides, and why.
 * @throws Problem policy_not_found, forbidden, policy_retired
 */
async function checkPolicy(policies: AccessPolicies, id: string | null, organization: string | null): Promise<void> {
  if (id === null) return;
  const { owner, visibility, retired } = await policies.get(id);
  if (owner !== organization && visibility !== 'public') {
    throw new Problem('forbidden', `The rules of ${id} are private: only its owner can have a webhook for it.`);
  }
  if (retired) throw new Problem('policy_retired', `${id} is retired: a webhook for it would never send anything.`);
}

/** @throws Problem validation_failed */
function checkUrl(receivers: Receivers, url: string): void {
  const message = receivers.faultOf(url);
  if (message !== undefined) throw refusalOf('/url', 'webhook_url', message);
}

export class CreateWebhook extends CommandWith<
  WebhookRequest & { context: CommandContext },
  Recorded<CreatedWebhookDto>
> {}

@CommandHandler(CreateWebhook)
export class CreateWebhookHandler implements ICommandHandler<CreateWebhook> {
  constructor(
    private readonly writer: Writer,
    private readonly limit: WebhookLimit,
    private readonly webhooks: Webhooks,
    private readonly receivers: Receivers,
    private readonly signatures: Signatures,
    private readonly dispatcher: Dispatcher,
    private readonly policies: AccessPolicies,
    @Inject(KEY_VALUE) private readonly keyValue: KeyValue,
  ) {}

  /**
   * @throws Problem validation_failed, too_many_webhooks, policy_not_found, forbidden, policy_retired,
   * idempotency_key_reused
   */
  async execute({ input: { url, events, filter, policy_id, context } }: CreateWebhook) {
    checkUrl(this.receivers, url);
    check({ events, filter, policy_id });
    refuseEventsOfAll(context.actor, events);
    const owner = context.actor.organization;
    const webhook_id = `whk_${context.idempotency?.slice(0, 32) ?? randomUUID().replaceAll('-', '')}`;
    const content = { webhook_id, owner, url_hash: sha256Hex(url), events, filter, policy_id };
    const record = async () => {
      await checkPolicy(this.policies, policy_id, owner);
      await this.limit.take(webhook_id, owner);
      try {
        return await withTexts(this.keyValue, [url], () =>
          this.writer.execute(webhookStream(webhook_id), context, (history) =>
            decideCreate(webhookOf(history), content),
          ),
        );
      } catch (error) {
        // Otherwise it may have been created all the same.
        if (error instanceof Problem) await this.limit.release(webhook_id, owner);
        throw error;
      }
    };
    // A retry is answered, whatever has become of the policy, and does not store a URL that was deleted since.
    const { position } = (await this.writer.firstTry(context)) ?? (await record());
    await this.dispatcher.start();
    const webhook = await this.webhooks.get(webhook_id, context.actor);
    return { body: { ...(await this.webhooks.view(webhook)), secret: this.signatures.secretOf(webhook) }, position };
  }
}

export class ChangeWebhook extends CommandWith<
  OnWebhook & { change: Partial<WebhookRequest> & { active?: boolean } },
  Recorded<WebhookDto>
> {}

@CommandHandler(ChangeWebhook)
export class ChangeWebhookHandler implements ICommandHandler<ChangeWebhook> {
  constructor(
    private readonly writer: Writer,
    private readonly webhooks: Webhooks,
    private readonly receivers: Receivers,
    private readonly policies: AccessPolicies,
    @Inject(KEY_VALUE) private readonly keyValue: KeyValue,
  ) {}

  /**
   * @throws Problem webhook_not_found, validation_failed, policy_not_found, forbidden, policy_retired,
   * idempotency_key_reused
   */
  async execute({ input: { webhook_id, change, context } }: ChangeWebhook) {
    const { url, ...asked } = change;
    const { owner } = await this.webhooks.get(webhook_id, context.actor);
    const record = async () => {
      if (url !== undefined) checkUrl(this.receivers, url);
      refuseEventsOfAll(context.actor, asked.events ?? []);
      await checkPolicy(this.policies, asked.policy_id ?? null, owner);
      const changed = { ...asked, ...(url !== undefined && { url_hash: sha256Hex(url) }) };
      return withTexts(this.keyValue, url === undefined ? [] : [url], () =>
        this.webhooks.change(webhook_id, context, (webhook) => {
          check({ ...webhook, ...asked });
          return decideChange(webhook, changed);
        }),
      );
    };
    // A retry is answered, whatever has become of the policy, and does not store a URL that was deleted since.
    const { position } = (await this.writer.firstTry(context)) ?? (await record());
    return { body: await this.webhooks.view(await this.webhooks.get(webhook_id, context.actor)), position };
  }
}

export class DeleteWebhook extends CommandWith<OnWebhook, Recorded<DeletedWebhookDto>> {}

@CommandHandler(DeleteWebhook)
export class DeleteWebhookHandler implements ICommandHandler<DeleteWebhook> {
  constructor(
    private readonly webhooks: Webhooks,
    private readonly deliveries: Deliveries,
    private readonly limit: WebhookLimit,
  ) {}

  /** @throws Problem webhook_not_found */
  async execute({ input: { webhook_id, context } }: DeleteWebhook) {
    // A retry with its Idempotency-Key finds the webhook deleted, and gets its first answer again.
    const { owner } = await this.webhooks.getAlsoDeleted(webhook_id, context.actor);
    const { position } = await this.webhooks.change(webhook_id, context, decideDelete);
    await this.limit.release(webhook_id, owner);
    await this.deliveries.forget(webhook_id);
    return { body: { webhook_id, status: 'deleted' }, position };
  }
}

export class RotateSecret extends CommandWith<OnWebhook, Recorded<RotatedSecretDto>> {}

@CommandHandler(RotateSecret)
export class RotateSecretHandler implements ICommandHandler<RotateSecret> {
  constructor(
    private readonly webhooks: Webhooks,
    private readonly signatures: Signatures,
  ) {}

  /** @throws Problem webhook_not_found, idempotency_key_reused */
  async execute({ input: { webhook_id, context } }: RotateSecret) {
    await this.webhooks.get(webhook_id, context.actor);
    const { position } = await this.webhooks.change(webhook_id, context, decideRotate);
    const webhook = await this.webhooks.get(webhook_id, context.actor);
    return { body: { webhook_id, secret: this.signatures.secretOf(webhook) }, position };
  }
}

/** Delivers again what happened after a position. */
export class ReplayWebhook extends CommandWith<OnWebhook & { after: string }, Recorded<ReplayedWebhookDto>> {}

@CommandHandler(ReplayWebhook)
export class ReplayWebhookHandler implements ICommandHandler<ReplayWebhook> {
  constructor(
    private readonly views: Views,
    private readonly webhooks: Webhooks,
  ) {}

  /** @throws Problem webhook_not_found, position_unknown, idempotency_key_reused */
  async execute({ input: { webhook_id, after, context } }: ReplayWebhook) {
    await this.webhooks.get(webhook_id, context.actor);
    const position = parsePosition(after, this.views.logId);
    if (position === undefined || !(await this.views.has(position))) {
      throw new Problem('position_unknown', 'after must be a position of this log that has been reached.');
    }
    const replayed = await this.webhooks.change(webhook_id, context, (webhook) => decideReplay(webhook, after));
    return { body: { webhook_id, after }, position: replayed.position };
  }
}

/** Sends a message at once: a delivery again or, without its id, a test. It is not repeated. */
export class SendNow extends CommandWith<{ webhook_id: string; delivery_id?: string; actor: Actor }, AttemptDto> {}

@CommandHandler(SendNow)
export class SendNowHandler implements ICommandHandler<SendNow> {
  private readonly turns = new Turns(MAX_SENDING, MAX_SENDING_OF_ONE);

  constructor(
    private readonly webhooks: Webhooks,
    private readonly deliveries: Deliveries,
    private readonly sender: Sender,
    @Inject(CLOCK) private readonly clock: Clock,
  ) {}

  /** @throws Problem webhook_not_found, delivery_not_found, delivery_pending, rate_limited */
  async execute({ input: { webhook_id, delivery_id, actor } }: SendNow): Promise<AttemptDto> {
    const sender = ownerOfTurns(actor);
    if (this.turns.countOf(sender) >= MAX_SENDING_OF_ONE) {
      const detail = `${MAX_SENDING_OF_ONE} messages of ${sender} are being sent already.`;
      throw new Problem('rate_limited', detail, { headers: { 'retry-after': '5' } });
    }
    // Read in its turn: the webhook may be changed or deleted while this waits for it.
    return this.turns.run(sender, async () => {
      refuseUnlessAccepted(actor);
      const webhook = await this.webhooks.get(webhook_id, actor);
      const url = await this.webhooks.urlOf(webhook);
      if (url === null)
        throw new Problem('webhook_not_found', `The URL of ${webhook_id} was deleted. Set another one.`);
      const delivery = delivery_id === undefined ? undefined : await this.find(webhook_id, delivery_id);
      const { message_id, body } = delivery ?? this.test(webhook_id);
      const outcome = await this.sender.send(webhook, url, message_id, body);
      if (delivery) await this.note(webhook_id, delivery, outcome);
      return { message_id, delivered: isDelivered(outcome), ...outcome };
    });
  }

  private async find(webhook_id: string, delivery_id: string): Promise<Delivery> {
    const [, number] = /^dlv_(0|[1-9]\d{0,14})$/.exec(delivery_id) ?? [];
    const delivery = number && (await this.deliveries.get(webhook_id, Number(number)));
    if (!delivery) {
      const kept = 'The newest 1,000 are kept, for seven days after they have ended.';
      throw new Problem('delivery_not_found', `${webhook_id} has no delivery ${delivery_id}. ${kept}`);
    }
    if (delivery.status === 'pending') {
      throw new Problem('delivery_pending', `${delivery_id} is still being delivered.`);
    }
    return delivery;
  }

  private test(webhook_id: string): { message_id: string; body: string } {
    const timestamp = new Date(this.clock()).toISOString();
    const body = JSON.stringify({ type: 'webhook.test', timestamp, data: { webhook_id } });
    return { message_id: `msg_${randomUUID().replaceAll('-', '')}`, body };
  }

  private async note(webhook_id: string, delivery: Delivery, outcome: Outcome): Promise<void> {
    const last = { ...outcome, at: this.clock() };
    let stored: Delivery | undefined = delivery;
    // Again if another request has sent it again meanwhile.
    while (stored?.message_id === delivery.message_id) {
      const before: Delivery = stored;
      const status = isDelivered(outcome) ? 'delivered' : before.status;
      const after: Delivery = { ...before, attempts: before.attempts + 1, last, status };
      stored = await this.deliveries.replace(webhook_id, before, after);
      if (stored === after) return;
    }
  }
}

export class ListWebhooks extends QueryWith<ListWebhooksQuery & { actor: Actor }, WebhooksDto> {}

@QueryHandler(ListWebhooks)
export class ListWebhooksHandler implements IQueryHandler<ListWebhooks> {
  constructor(
    private readonly views: Views,
    private readonly webhooks: Webhooks,
  ) {}

  /** @throws Problem forbidden */
  async execute({ input: { limit, cursor, tris_org, actor } }: ListWebhooks) {
    if (tris_org !== undefined && tris_org !== actor.organization && !actor.scopes.has('ops')) {
      throw new Problem('forbidden', `The webhooks of ${tris_org} are for its own keys, and for operators.`);
    }
    const list = webhooksOf(tris_org ?? actor.organization);
    const { page, next_cursor } = await this.views.page<WebhookRow>(list, { cursor, limit }, WEBHOOK_ID);
    const found = await mapInParts(page, async ({ webhook_id }) => {
      const webhook = await this.webhooks.read(webhook_id);
      return webhook && !webhook.deleted ? this.webhooks.view(webhook) : undefined;
    });
    return { webhooks: found.filter((webhook) => webhook !== undefined), next_cursor };
  }
}

export class ListDeliveries extends QueryWith<
  { webhook_id: string; limit: number; cursor: string | undefined; actor: Actor },
  DeliveriesDto
> {}

@QueryHandler(ListDeliveries)
export class ListDeliveriesHandler implements IQueryHandler<ListDeliveries> {
  constructor(
    private readonly webhooks: Webhooks,
    private readonly deliveries: Deliveries,
    private readonly views: Views,
  ) {}

  /** @throws Problem webhook_not_found */
  async execute({ input: { webhook_id, limit, cursor, actor } }: ListDeliveries) {
    await this.webhooks.get(webhook_id, actor);
    const before = rowAfter(cursor);
    const page = await this.deliveries.list(webhook_id, before === undefined ? undefined : positionOf(before), limit);
    const last = page.at(-1)?.n ?? 0;
    return {
      deliveries: page.map((delivery) => deliveryView(delivery, this.views.logId)),
      next_cursor: page.length === limit && last > 0 ? cursorAfter(sortByPosition(last)) : null,
    };
  }
}

function deliveryView(delivery: Delivery, logId: string): DeliveryDto {
  const { n, message_id, event, tris_id, position, created_at, status, attempts, next_at, last, body } = delivery;
  return {
    delivery_id: `dlv_${n}`,
    message_id,
    event,
    tris_id,
    position: formatPosition(logId, position),
    status,
    attempts,
    created_at: new Date(created_at).toISOString(),
    next_attempt_at: next_at === null ? null : new Date(next_at).toISOString(),
    last_attempt: last && { ...last, at: new Date(last.at).toISOString() },
    payload: JSON.parse(body) as JsonObject,
  };
}
