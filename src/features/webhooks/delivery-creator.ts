import { Inject, Injectable } from '@nestjs/common';
import { type DomainEvent, decodeEvent } from '../../../projections/events.js';
import { CLOCK, type Clock } from '../../kernel/clock.js';
import { NewerSchema } from '../../kernel/event-definition.js';
import { Logger } from '../../kernel/logger.js';
import { Problem } from '../../kernel/problems.js';
import { TRACING, type Tracing } from '../../kernel/tracing.js';
import { EVENT_STORE, type EventStore } from '../../stores/ports/event-store.js';
import { Deliveries, type Delivery } from './deliveries.js';
import type { Webhook } from './domain/webhook.js';
import { type Notice, Notices, Standings } from './notices.js';
import type { Pump } from './pump.js';
import { Sender } from './sender.js';

/** Events read at once. */
const SLICE = 500;
/** Deliveries of one webhook that may wait. Beyond that, no further events are read for it. */
const MAX_OPEN = 1_000;
const MINUTE_MS = 60_000;

/** A part of the log. */
interface Part {
  events: DomainEvent[];
  /** `traceparent` of the commands that were traced, by position. */
  traces: Map<number, string>;
  /** Follows the events; only a newer build can read it. */
  newer?: { at: number; error: NewerSchema };
}

/** Reads the log for webhooks, and creates the deliveries of the messages about its events. */
@Injectable()
export class DeliveryCreator {
  /** Two parts of the log may be read in turn: the newest, and an older one for webhooks that are behind. */
  private standings: Standings[] = [];

  constructor(
    private readonly notices: Notices,
    private readonly deliveries: Deliveries,
    private readonly sender: Sender,
    private readonly logger: Logger,
    @Inject(EVENT_STORE) private readonly store: EventStore,
    @Inject(CLOCK) private readonly clock: Clock,
    @Inject(TRACING) private readonly tracing: Tracing | null,
  ) {}

  /** Forgets what it keeps between two parts of the log. */
  clear(): void {
    this.standings = [];
  }

  /**
   * Reads a part of the log twice: on from the webhook that is furthest, and from the one furthest behind.
   * @param applied the position up to which the read models have applied the log
   * @returns whether there is more
   */
  async read(all: readonly Pump[], applied: number): Promise<boolean> {
    const now = this.clock();
    const behind = all
      .filter((pump) => pump.isActive && pump.progress.open.length < MAX_OPEN && pump.waitsUntil <= now)
      .filter(({ progress }) => progress.position < applied)
      .sort((a, b) => b.progress.position - a.progress.position);
    if (behind.length === 0) return false;
    const starts = new Set([behind[0]!.progress.position, behind.at(-1)!.progress.position]);
    const standings: Standings[] = [];
    for (const start of starts) {
      const earlier = this.standings.find(({ position }) => position === start) ?? new Standings(start);
      standings.push(await this.readFrom(start, applied, behind, earlier));
    }
    this.standings = standings;
    return behind.some(({ progress, waitsUntil }) => waitsUntil <= now && progress.position < applied);
  }

  private async readFrom(
    start: number,
    applied: number,
    pumps: readonly Pump[],
    standings: Standings,
  ): Promise<Standings> {
    const { events, traces, newer } = await this.part(start, applied);
    const end = events.at(-1)?.position;
    if (end === undefined) {
      if (!newer) return standings;
      // The messages about everything before that event exist. Those about it and what follows are left to a newer build.
      for (const pump of pumps) {
        const { position } = pump.progress;
        if (position >= start && position < newer.at) this.pause(pump, newer.error);
      }
      return standings;
    }
    const concerned = pumps.filter(({ progress: { position } }) => position >= start && position < end);
    const byWebhook = new Map(concerned.map((pump) => [pump.webhook, pump]));
    const made = await this.noticesOf(events, byWebhook, standings);
    for (const [webhook, notices] of made) await this.add(byWebhook.get(webhook)!, notices, traces, end);
    standings.moveTo(end);
    return standings;
  }

  /** The next events, up to one that only a newer build can read. */
  private async part(start: number, applied: number): Promise<Part> {
    const events: DomainEvent[] = [];
    const traces = new Map<number, string>();
    for await (const slice of this.store.readAll(start, { sliceSize: SLICE })) {
      for (const event of slice) {
        if (event.position > applied) continue;
        try {
          events.push(decodeEvent(event));
        } catch (error) {
          if (!(error instanceof NewerSchema)) throw error;
          return { events, traces, newer: { at: event.position, error } };
        }
        const { traceparent } = event.metadata;
        if (this.tracing && traceparent !== undefined) traces.set(event.position, traceparent);
      }
      break;
    }
    return { events, traces };
  }

  /** Makes deliveries of the notices up to the position `end`. A pump stops if another worker has gone on. */
  private async add(pump: Pump, notices: readonly Notice[], traces: Part['traces'], end: number): Promise<void> {
    const now = this.clock();
    const added = notices.map((notice, i): Delivery => ({
      n: pump.progress.next + i,
      ...notice,
      created_at: now,
      status: 'pending',
      attempts: 0,
      next_at: now,
      last: null,
      ...(traces.has(notice.position) && { traceparent: traces.get(notice.position)! }),
    }));
    const made = await Promise.all(added.map((delivery) => this.deliveries.create(pump.id, delivery, pump.stored)));
    if (made.includes(undefined)) return pump.stop();
    const pending = (made as Delivery[]).filter(({ status }) => status === 'pending');
    pump.progress.next += made.length;
    pump.progress.open.push(...pending.map(({ n }) => n));
    pump.progress.position = end;
    pump.isUnsaved = true;
    for (const delivery of pending) pump.enqueue(delivery);
    if (made.length > 0) await this.sender.save(pump);
  }

  /** As `Notices.of`. A webhook whose messages cannot be made waits, and holds up no other. */
  private async noticesOf(
    events: readonly DomainEvent[],
    byWebhook: ReadonlyMap<Webhook, Pump>,
    standings: Standings,
  ): Promise<Map<Webhook, Notice[]>> {
    const from = (webhook: Webhook) => byWebhook.get(webhook)!.progress.position;
    try {
      return await this.notices.of(events, [...byWebhook.keys()], from, standings);
    } catch (error) {
      if (!isUnreadable(error)) throw error;
    }
    // Which webhook needs the event shows if each is tried alone. Some of the events may be in the standings already.
    standings.clear();
    const made = new Map<Webhook, Notice[]>();
    for (const [webhook, pump] of byWebhook) {
      try {
        const own = await this.notices.of(events, [webhook], from, new Standings(standings.position));
        made.set(webhook, own.get(webhook)!);
      } catch (error) {
        if (!isUnreadable(error)) throw error;
        this.pause(pump, error);
      }
    }
    return made;
  }

  /** Leaves a webhook alone for a minute. */
  private pause(pump: Pump, { message }: Error): void {
    if (pump.waitsUntil === 0) this.logger.warn('a webhook waits', { webhook: pump.id, error: message });
    pump.waitsUntil = this.clock() + MINUTE_MS;
  }
}

/** Whether it is about an event that is damaged, or that only a newer build can read. */
export const isUnreadable = (error: unknown): error is Problem | NewerSchema =>
  error instanceof NewerSchema ||
  (error instanceof Problem && (error.code === 'history_unreadable' || error.code === 'newer_schema'));
