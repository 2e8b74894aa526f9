import { Inject, Injectable } from '@nestjs/common';
import { type WebhookRow, webhooksOf } from '../../../projections/webhooks.js';
import { CLOCK, type Clock } from '../../kernel/clock.js';
import { Problem } from '../../kernel/problems.js';
import { Turns } from '../../kernel/turns.js';
import { Views } from '../../read-side/views.js';
import { KEY_VALUE, type KeyValue, changeValue } from '../../stores/ports/key-value.js';

/** The maximum number of webhooks of an organization. */
const MAX_WEBHOOKS = 100;
/** How long a creation is remembered that the read models do not show, ms. A process that was killed may have left it. */
const REMEMBERED_MS = 3_600_000;

/** Webhooks of one owner that the read models did not show yet, by id: when they were created, ms. */
type Created = Record<string, number>;

/**
 * Limits the webhooks of an organization. Counts those of the read models, and those that were created since, which all
 * processes remember together.
 */
@Injectable()
export class WebhookLimit {
  /** In this process the changes of an owner are made one after the other; those of others are found by comparison. */
  private readonly turns = new Turns<string | null>(Infinity, 1);

  constructor(
    private readonly views: Views,
    @Inject(KEY_VALUE) private readonly keyValue: KeyValue,
    @Inject(CLOCK) private readonly clock: Clock,
  ) {}

  /** Counts a webhook before it is created. `release` takes that back. @throws Problem too_many_webhooks */
  async take(webhookId: string, owner: string | null): Promise<void> {
    await this.change(owner, async (created) => {
      // Read after `created`: a webhook that is no longer in there is in the read models.
      const shown = new Set((await allOf(owner, this.views)).map(({ webhook_id }) => webhook_id));
      const now = this.clock();
      const hidden = Object.entries(created).filter(([id, at]) => !shown.has(id) && at > now - REMEMBERED_MS);
      const others = hidden.filter(([id]) => id !== webhookId);
      if (!shown.has(webhookId) && shown.size + others.length >= MAX_WEBHOOKS) {
        const detail = `${owner ?? 'The operators'} may have at most ${MAX_WEBHOOKS} webhooks.`;
        throw new Problem('too_many_webhooks', detail);
      }
      return Object.fromEntries([...others, [webhookId, now]]);
    });
  }

  /** For a webhook that could not be created, or is deleted. */
  async release(webhookId: string, owner: string | null): Promise<void> {
    await this.change(owner, async ({ [webhookId]: at, ...others }) => (at === undefined ? undefined : others));
  }

  /** @param change returns what is stored instead; undefined: nothing changes */
  private change(owner: string | null, change: (created: Created) => Promise<Created | undefined>): Promise<void> {
    const key = `webhooks-created:${owner ?? ''}`;
    return this.turns.run(owner, () =>
      changeValue<Created>(this.keyValue, key, REMEMBERED_MS, (stored = {}) => change(stored)),
    );
  }
}

/** All webhooks of an owner that the read models show. */
export async function allOf(owner: string | null, views: Views): Promise<WebhookRow[]> {
  const rows = await views.range({ ...webhooksOf(owner), limit: MAX_WEBHOOKS });
  return rows.map(({ value }) => value as WebhookRow);
}
