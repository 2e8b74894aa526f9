import { Inject, Injectable } from '@nestjs/common';
import { type WebhookRow, webhooksOf } from '../../../projections/webhooks.js';
import { CLOCK, type Clock } from '../../kernel/clock.js';
import { Problem } from '../../kernel/problems.js';
import { Views } from '../../read-side/views.js';
import type { RangeRow } from '../../stores/ports/read-models.js';

/** The maximum number of webhooks of an organization. */
const MAX_WEBHOOKS = 100;
/** How long a creation is remembered, ms: longer than it takes until the webhook is in the read models. */
const REMEMBERED_MS = 60_000;

/** Limits the webhooks of an organization. Counts those of the read models, and those that this process creates. */
@Injectable()
export class WebhookLimit {
  private readonly created = new Map<string, { owner: string | null; at: number }>();

  constructor(
    private readonly views: Views,
    @Inject(CLOCK) private readonly clock: Clock,
  ) {}

  /** Counts a webhook before it is created. `release` takes that back. @throws Problem too_many_webhooks */
  async take(webhookId: string, owner: string | null): Promise<void> {
    const { results } = await this.views.read([{ range: { ...webhooksOf(owner), limit: MAX_WEBHOOKS } }]);
    const ids = new Set((results[0] as RangeRow[]).map(({ value }) => (value as WebhookRow).webhook_id));
    const now = this.clock();
    for (const [id, created] of this.created) {
      if (created.at < now - REMEMBERED_MS) this.created.delete(id);
      else if (created.owner === owner) ids.add(id);
    }
    if (ids.size >= MAX_WEBHOOKS && !ids.has(webhookId)) {
      throw new Problem('too_many_webhooks', `${owner ?? 'The operators'} may have at most ${MAX_WEBHOOKS} webhooks.`);
    }
    this.created.set(webhookId, { owner, at: now });
  }

  /** For a webhook that could not be created, or is deleted. */
  release(webhookId: string): void {
    this.created.delete(webhookId);
  }
}
