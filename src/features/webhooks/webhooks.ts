import { Inject } from '@nestjs/common';
import { type IQueryHandler, QueryHandler } from '@nestjs/cqrs';
import type { Actor, CommandContext } from '../../commands/context.js';
import { keptText } from '../../commands/kept-texts.js';
import { QueryWith } from '../../commands/messages.js';
import { Quotas } from '../../commands/quotas.js';
import { type CommandEffect, Writer } from '../../commands/writer.js';
import type { Fact } from '../../kernel/event-definition.js';
import { Problem } from '../../kernel/problems.js';
import { Views } from '../../read-side/views.js';
import { EVENT_STORE, type EventStore } from '../../stores/ports/event-store.js';
import { KEY_VALUE, type KeyValue } from '../../stores/ports/key-value.js';
import { Deliveries } from './deliveries.js';
import { Signatures } from './signatures.js';
import { allOf } from './webhook-limit.js';
import { WEBHOOK_ID, type Webhook, webhookOf, webhookStream } from './domain/webhook.js';
import type { WebhookEvent } from './domain/webhooks.events.js';
import type { WebhookDto } from './webhooks.dto.js';

export class GetWebhook extends QueryWith<{ webhook_id: string; actor: Reader }, WebhookDto> {}

/** Webhooks by id, each read from its own stream, so always current. */
@QueryHandler(GetWebhook)
export class Webhooks implements IQueryHandler<GetWebhook> {
  constructor(
    @Inject(EVENT_STORE) private readonly store: EventStore,
    @Inject(KEY_VALUE) private readonly keyValue: KeyValue,
    private readonly writer: Writer,
    private readonly deliveries: Deliveries,
    private readonly signatures: Signatures,
    views: Views,
    quotas: Quotas,
  ) {
    quotas.measure('delivery_bytes', async (owner) => {
      const webhooks = await allOf(owner, views);
      const progress = await Promise.all(webhooks.map(({ webhook_id }) => deliveries.progressOf(webhook_id)));
      return progress.reduce((sum, each) => sum + (each?.bytes ?? 0), 0);
    });
  }

  /** @throws Problem webhook_not_found, forbidden */
  async execute({ input: { webhook_id, actor } }: GetWebhook): Promise<WebhookDto> {
    return this.view(await this.get(webhook_id, actor));
  }

  /** A webhook of the caller's organization, or of the operators. @throws Problem webhook_not_found, forbidden */
  async get(id: string, actor: Reader): Promise<Webhook> {
    const webhook = await this.getAlsoDeleted(id, actor);
    if (webhook.deleted) throw unknownWebhook(id);
    refuseEventsOfAll(actor, webhook.events);
    return webhook;
  }

  /** @throws Problem webhook_not_found */
  async getAlsoDeleted(id: string, { organization }: Pick<Actor, 'organization'>): Promise<Webhook> {
    const webhook = WEBHOOK_ID.test(id) ? await this.read(id) : undefined;
    if (webhook?.owner !== organization) throw unknownWebhook(id);
    return webhook;
  }

  async read(id: string): Promise<Webhook | undefined> {
    return webhookOf(await this.store.readStream(webhookStream(id)));
  }

  /** Changes an existing webhook. @throws Problem as `Writer.execute`; webhook_not_found if it is deleted, also meanwhile */
  change(id: string, context: CommandContext, decide: (webhook: Webhook) => Fact[]): Promise<CommandEffect> {
    return this.writer.execute(webhookStream(id), context, (history) => {
      const webhook = webhookOf(history)!;
      if (webhook.deleted) throw unknownWebhook(id);
      return decide(webhook);
    });
  }

  /** null if its text was deleted. */
  urlOf({ url_hash }: Webhook): Promise<string | null> {
    return keptText(this.keyValue, url_hash);
  }

  /** A webhook as its owner sees it. */
  async view(webhook: Webhook): Promise<WebhookDto> {
    const { webhook_id, owner, events, filter, policy_id, disabled, created_at } = webhook;
    const changedAt = this.signatures.changedAt(webhook);
    const progress = await this.deliveries.progressOf(webhook_id);
    return {
      webhook_id,
      tris_org: owner,
      url: await this.urlOf(webhook),
      events,
      filter,
      policy_id,
      status: disabled ? 'disabled' : 'active',
      disabled_reason: disabled?.reason ?? null,
      disabled_at: disabled ? new Date(disabled.at).toISOString() : null,
      pending: progress?.open.length ?? 0,
      created_at: new Date(created_at).toISOString(),
      rotated_at: changedAt === null ? null : new Date(changedAt).toISOString(),
    };
  }
}

type Reader = Pick<Actor, 'organization' | 'scopes'>;

/** A webhook of the operators gets these of every organization. */
const OF_PARTIES: readonly WebhookEvent[] = ['decision.would_differ', 'dispute.opened', 'dispute.answered'];

/** @throws Problem forbidden for a key without an organization that may not read these of all organizations */
export function refuseEventsOfAll({ organization, scopes }: Reader, events: readonly WebhookEvent[]): void {
  const event = OF_PARTIES.find((each) => events.includes(each));
  if (event === undefined || organization !== null || scopes.has('ops')) return;
  const detail = `${event} tells of all organizations here: it needs the scope ops, or a key of an organization.`;
  throw new Problem('forbidden', detail);
}

export const unknownWebhook = (id: string) => new Problem('webhook_not_found', `There is no webhook ${id}.`);
