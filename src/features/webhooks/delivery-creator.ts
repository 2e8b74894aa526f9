import { Inject, Injectable } from '@nestjs/common';
import { type DomainEvent, decodeEvent } from '../../../projections/events.js';
import { Quotas } from '../../commands/quotas.js';
import { CLOCK, type Clock } from '../../kernel/clock.js';
import { NewerSchema } from '../../kernel/event-definition.js';
import type { Position } from '../../kernel/event.js';
import { TRACING, type Tracing } from '../../kernel/tracing.js';
import { Consumers, type LogPart } from '../../read-side/consumers.js';
import { Deliveries, type Delivery, type Notice, addNext } from './deliveries.js';
import type { Webhook } from './domain/webhook.js';
import { Notices, Standings } from './notices.js';
import type { Pump } from './pump.js';
import { Sender } from './sender.js';

/** Deliveries of one webhook that may wait. Beyond that, no further events are read for it. */
const MAX_OPEN = 1_000;

/** Reads the log for webhooks, and creates the deliveries of the messages about its events. */
@Injectable()
export class DeliveryCreator {
  /** Two parts of the log may be read in turn: the newest, and an older one for webhooks that are behind. */
  private standings: Standings[] = [];

  constructor(
    private readonly notices: Notices,
    private readonly deliveries: Deliveries,
    private readonly sender: Sender,
    private readonly consumers: Consumers,
    @Inject(CLOCK) private readonly clock: Clock,
    @Inject(TRACING) private readonly tracing: Tracing | null,
    private readonly quotas: Quotas,
  ) {}

  /** Forgets what it keeps between two parts of the log. */
  clear(): void {
    this.standings = [];
  }

  /**
   * Reads on for webhooks.
   * @param known the position up to which these webhooks are all that there were
   * @returns whether there is more
   */
  async read(all: readonly Pump[], known: Position): Promise<boolean> {
    const { waiting_deliveries, delivery_bytes } = this.quotas.limits;
    const owned = new Map<string, Pump[]>();
    for (const pump of all) {
      const { owner } = pump.webhook;
      if (owner !== null) owned.set(owner, [...(owned.get(owner) ?? []), pump]);
    }
    const full = new Set<string>();
    for (const [owner, pumps] of owned) {
      const kept = () => pumps.reduce((sum, { progress }) => sum + progress.bytes, 0);
      if (kept() > delivery_bytes) {
        for (const pump of pumps) {
          // An equal share for each.
          await this.deliveries.trimTo(pump.id, delivery_bytes / pumps.length, pump.progress);
          pump.isUnsaved = true;
        }
      }
      const waiting = pumps.reduce((sum, { progress }) => sum + progress.open.length, 0);
      if (waiting >= waiting_deliveries || kept() > delivery_bytes) full.add(owner);
    }
    const ready = all.filter(
      ({ isActive, progress, webhook }) =>
        isActive && progress.open.length < MAX_OPEN && !full.has(webhook.owner ?? ''),
    );
    return this.consumers.hand(ready, (part, pumps) => this.create(part, pumps), known);
  }

  /** Creates the deliveries about the events before the first one that only a newer build can read. */
  private async create({ after, events: recorded }: LogPart, pumps: readonly Pump[]): Promise<void> {
    const events = readable(recorded);
    const end = events.at(-1)!.position;
    const standings = this.standings.find(({ position }) => position === after) ?? new Standings(after);
    // If this fails, they may contain some of the events.
    this.standings = this.standings.filter((each) => each !== standings);
    const byWebhook = new Map(pumps.filter(({ position }) => position < end).map((pump) => [pump.webhook, pump]));
    const from = (webhook: Webhook) => byWebhook.get(webhook)!.position;
    const made = await this.notices.of(events, [...byWebhook.keys()], from, standings);
    for (const [webhook, notices] of made) await this.add(byWebhook.get(webhook)!, notices, recorded, end);
    standings.moveTo(end);
    this.standings = [standings, ...this.standings].slice(0, 2);
  }

  /** Makes deliveries of the notices up to the position `end`. A pump stops if another worker has gone on. */
  private async add(pump: Pump, notices: readonly Notice[], recorded: LogPart['events'], end: Position): Promise<void> {
    const now = this.clock();
    const traces = new Map(this.tracing && recorded.map(({ position, metadata }) => [position, metadata.traceparent]));
    const added = notices.map((notice, i): Delivery => ({
      n: pump.progress.next + i,
      ...notice,
      created_at: now,
      status: 'pending',
      attempts: 0,
      next_at: now,
      last: null,
      ...(traces.get(notice.position) !== undefined && { traceparent: traces.get(notice.position)! }),
    }));
    const made = await Promise.all(added.map((delivery) => this.deliveries.create(pump.id, delivery, pump.stored)));
    if (made.includes(undefined)) return pump.stop();
    const pending = (made as Delivery[]).filter(({ status }) => status === 'pending');
    addNext(pump.progress, added);
    pump.progress.open.push(...pending.map(({ n }) => n));
    pump.progress.position = end;
    pump.isUnsaved = true;
    for (const delivery of pending) pump.enqueue(delivery);
    if (made.length === 0) return;
    await this.deliveries.trim(pump.id, added[0]!.n, pump.progress);
    await this.sender.save(pump);
  }
}

/** @throws NewerSchema if only a newer build can read the first of them */
function readable(recorded: LogPart['events']): DomainEvent[] {
  const events: DomainEvent[] = [];
  for (const event of recorded) {
    try {
      events.push(decodeEvent(event));
    } catch (error) {
      if (events.length > 0 && error instanceof NewerSchema) break;
      throw error;
    }
  }
  return events;
}
