import type { DomainEvent } from './events.js';
import { type Projection, type Rows, rowIn } from './projection.js';

/** A webhook that is not deleted; its state is in its own stream. */
export interface WebhookRow {
  webhook_id: string;
  owner: string | null;
  /** Position of the last event of its stream. */
  changed: number;
}

/** Webhooks by id, and `webhooks.owner`: those of each organization, and those of the operators. */
export const webhooks: Projection = {
  name: 'webhooks',
  version: 2,
  views: ['webhooks', 'webhooks.owner'],

  reads(event) {
    const id = event.type === 'WebhookCreated' ? undefined : webhookIn(event);
    return id === undefined ? [] : [webhookRow(id)];
  },

  apply(event, rows) {
    if (event.type === 'WebhookCreated') {
      const { webhook_id, owner } = event.data;
      return put({ webhook_id, owner, changed: event.position }, rows);
    }
    const id = webhookIn(event);
    const row = id === undefined ? undefined : rows.get<WebhookRow>(webhookRow(id));
    if (!row) return;
    if (event.type !== 'WebhookDeleted') return put({ ...row, changed: event.position }, rows);
    rows.delete(webhookRow(row.webhook_id));
    rows.delete(rowIn(webhooksOf(row.owner), row.webhook_id));
  },
};

const STREAM = 'webhook-';

/** The webhook of an event, also of an undecodable one: who follows the webhook must see that its stream has changed. */
function webhookIn({ stream }: DomainEvent): string | undefined {
  return stream.startsWith(STREAM) ? stream.slice(STREAM.length) : undefined;
}

function put(row: WebhookRow, rows: Rows): void {
  rows.put(webhookRow(row.webhook_id), row);
  rows.put(rowIn(webhooksOf(row.owner), row.webhook_id), row);
}

export const WEBHOOKS = { view: 'webhooks', key: 'all' };

const webhookRow = (id: string) => rowIn(WEBHOOKS, id);

/** @param owner null: the operators, whose key no TRIS id can be */
export const webhooksOf = (owner: string | null) => ({ view: 'webhooks.owner', key: owner ?? 'operators' });
