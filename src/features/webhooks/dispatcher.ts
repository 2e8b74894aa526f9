import { setTimeout as sleep } from 'node:timers/promises';
import {
  Inject,
  Injectable,
  type OnApplicationBootstrap,
  type OnApplicationShutdown,
  type OnModuleInit,
} from '@nestjs/common';
import { Counter, Registry } from 'prom-client';
import { type DomainEvent, decodeEvent } from '../../../projections/events.js';
import { identityRow } from '../../../projections/identities.js';
import { timelineOf } from '../../../projections/timeline.js';
import { WEBHOOKS, type WebhookRow } from '../../../projections/webhooks.js';
import { internalActor } from '../../commands/context.js';
import { keptText } from '../../commands/kept-texts.js';
import { Writer } from '../../commands/writer.js';
import { CLOCK, type Clock } from '../../kernel/clock.js';
import { Config } from '../../kernel/config.js';
import { NewerSchema } from '../../kernel/event-definition.js';
import { hashOf } from '../../kernel/hash.js';
import { Logger } from '../../kernel/logger.js';
import { parsePosition } from '../../kernel/positions.js';
import { Problem } from '../../kernel/problems.js';
import { type Span, TRACING, type Tracing } from '../../kernel/tracing.js';
import { mapInParts, yieldIfDue } from '../../kernel/turn.js';
import { Views } from '../../read-side/views.js';
import { EVENT_STORE, type EventStore } from '../../stores/ports/event-store.js';
import { JOBS, type Jobs } from '../../stores/ports/jobs.js';
import { KEY_VALUE, type KeyValue } from '../../stores/ports/key-value.js';
import type { RangeRow } from '../../stores/ports/read-models.js';
import { Deliveries, type Delivery, type Progress } from './deliveries.js';
import { type Webhook, decideDisable, webhookOf, webhookStream } from './domain/webhook.js';
import { type Notice, Notices, Standings } from './notices.js';
import { type Outcome, Receivers, isDelivered } from './receivers.js';
import { Signatures } from './signatures.js';

const JOB_KIND = 'webhooks';
const JOB_ID = 'dispatch';
const SWEEP_MS = 10_000;
const POLL_MS = 100;
const FAILURE_MS = 1_000;
const PAGE = 1_000;
/** Events read at once. */
const SLICE = 500;
/** Deliveries of one webhook that may wait. Beyond that, no further events are read for it. */
const MAX_OPEN = 1_000;
/** Deliveries to one webhook at the same time, each of another identity. */
const AT_ONCE = 16;
const MINUTE_MS = 60_000;
/** The pauses between attempts: three days in all, as the Standard Webhooks specification suggests. */
const RETRIES_MS = [5_000, 5 * MINUTE_MS, ...[0.5, 2, 5, 10, 14, 20, 24].map((hours) => hours * 60 * MINUTE_MS)];

/** One webhook at work. */
interface Pump {
  /** Position of the last event of its stream. */
  changed: number;
  webhook: Webhook;
  /** null: the text was deleted, so that nothing can be delivered. */
  url: string | null;
  progress: Progress;
  /** Pending deliveries by identity, oldest first. Only the first of a lane is sent. */
  lanes: Map<string, Delivery[]>;
  /** Lanes whose first delivery is being sent, or its outcome stored. */
  busy: Set<string>;
  /** Deliveries that are being sent. */
  sending: number;
  timer: NodeJS.Timeout | undefined;
  /** `progress` is not stored yet. */
  isUnsaved: boolean;
  /** ms. Its messages could not be made, since an event that they need cannot be decoded: not tried again before. */
  waitsUntil: number;
  /** Outcomes of what is being sent are not stored any more. */
  isDeleted: boolean;
}

/**
 * Delivers to all webhooks, as one job that does not end: the queue of jobs has one process run it at a time, and
 * another one take over when that process ends. Whatever it has read becomes stored deliveries before its progress is
 * stored, so that a restart loses nothing and repeats little.
 */
@Injectable()
export class Dispatcher implements OnModuleInit, OnApplicationBootstrap, OnApplicationShutdown {
  /** Replaced by tests. */
  retriesMs: readonly number[] = RETRIES_MS;
  private readonly pumps = new Map<string, Pump>();
  /** Webhooks whose own events cannot be decoded, with the position of the last one. */
  private readonly unreadable = new Map<string, number>();
  /** Two parts of the log may be read in turn: the newest, and an older one for webhooks that are behind. */
  private standings: Standings[] = [];
  private sweeps: NodeJS.Timeout | undefined;
  private readonly counter: Counter<'outcome'>;

  constructor(
    private readonly views: Views,
    private readonly writer: Writer,
    private readonly notices: Notices,
    private readonly receivers: Receivers,
    private readonly signatures: Signatures,
    private readonly deliveries: Deliveries,
    private readonly config: Config,
    private readonly logger: Logger,
    @Inject(EVENT_STORE) private readonly store: EventStore,
    @Inject(KEY_VALUE) private readonly keyValue: KeyValue,
    @Inject(JOBS) private readonly jobs: Jobs,
    @Inject(CLOCK) private readonly clock: Clock,
    @Inject(TRACING) private readonly tracing: Tracing | null,
    registry: Registry,
  ) {
    this.counter = new Counter({
      name: 'credence_webhook_attempts_total',
      help: 'Attempts to deliver to webhooks by outcome: delivered, the class of the status, or the kind of failure',
      labelNames: ['outcome'],
      registers: [registry],
    });
  }

  onModuleInit(): void {
    this.jobs.handle(JOB_KIND, ({ signal }) => this.run(signal), { attempts: Number.MAX_SAFE_INTEGER });
  }

  /** If the queue was lost, or the job was cancelled, it starts again. */
  onApplicationBootstrap(): void {
    if (!this.config.has('worker')) return;
    const sweep = async () => {
      const { results } = await this.views.read([{ range: { ...WEBHOOKS, limit: 1 } }]);
      if ((results[0] as RangeRow[]).length > 0) await this.start();
    };
    const attempt = () => void sweep().catch(() => undefined); // the next one tries again
    this.sweeps = setInterval(attempt, SWEEP_MS).unref();
    attempt();
  }

  onApplicationShutdown(): void {
    clearInterval(this.sweeps);
  }

  /** Starts the job unless it runs: a service without webhooks has none. */
  async start(): Promise<void> {
    const job = await this.jobs.enqueue(JOB_KIND, JOB_ID, {});
    if (job.status === 'failed' || job.status === 'cancelled') await this.jobs.retry(JOB_KIND, JOB_ID);
  }

  /**
   * Sends one message.
   * @param cause `traceparent` of the command that led to it
   * @returns the outcome, whatever it is
   */
  async send(webhook: Webhook, url: string, messageId: string, body: string, cause?: string): Promise<Outcome> {
    const headers = this.signatures.headersOf(webhook, messageId, body);
    const span = cause === undefined ? undefined : this.spanOf(webhook, messageId, cause);
    if (span) headers['traceparent'] = span.traceparent;
    const outcome = await this.receivers.post(webhook.owner, url, headers, body);
    const { status, failure } = outcome;
    if (status !== null) span?.set({ 'http.response.status_code': status });
    span?.end(isDelivered(outcome) ? undefined : (failure ?? String(status)));
    this.counter.inc({ outcome: isDelivered(outcome) ? 'delivered' : (failure ?? `${Math.floor(status! / 100)}xx`) });
    return outcome;
  }

  private spanOf({ webhook_id }: Webhook, messageId: string, cause: string): Span | undefined {
    const attributes = {
      'http.request.method': 'POST',
      'credence.webhook': webhook_id,
      'credence.message': messageId,
    };
    return this.tracing?.start('deliver webhook', { kind: 'client', links: [cause], attributes });
  }

  private async run(signal: AbortSignal): Promise<never> {
    let said: string | undefined;
    try {
      for (;;) {
        try {
          const applied = await this.refresh();
          const isBehind = await this.read(applied);
          await this.save();
          said = undefined;
          if (!isBehind) await sleep(POLL_MS, null, { signal });
        } catch (error) {
          signal.throwIfAborted();
          // Some of the events that failed may be in them already.
          this.standings = [];
          // Stores that are unavailable and read models that are behind will work again; anything else is said once.
          const message = String(error);
          if (message !== said) this.logger.warn('webhooks wait', { error: (said = message) });
          await sleep(FAILURE_MS, null, { signal });
        }
        signal.throwIfAborted();
      }
    } finally {
      for (const pump of this.pumps.values()) clearTimeout(pump.timer);
      this.pumps.clear();
      this.standings = [];
    }
  }

  /** Brings the webhooks up to date. @returns the position up to which the read models have applied the log */
  private async refresh(): Promise<number> {
    const known = new Set<string>();
    let after: string | undefined;
    let applied = Infinity;
    do {
      const { results, position } = await this.views.read([
        { range: { ...WEBHOOKS, after, limit: PAGE } },
        // Of the other generations that a message is made from: only how far they are.
        { get: identityRow('-') },
        { range: { ...timelineOf('-'), limit: 1 } },
      ]);
      applied = Math.min(applied, position);
      const rows = results[0] as RangeRow[];
      for (const { value } of rows) {
        const row = value as WebhookRow;
        const { webhook_id, changed } = row;
        known.add(webhook_id);
        await yieldIfDue();
        if (this.unreadable.get(webhook_id) === changed || this.pumps.get(webhook_id)?.changed === changed) continue;
        await this.loadUnlessUnreadable(row);
      }
      after = rows.length === PAGE ? rows.at(-1)!.sort : undefined;
    } while (after !== undefined);
    for (const [id, pump] of this.pumps) {
      if (known.has(id)) continue;
      this.drop(id, pump);
      pump.isDeleted = true;
      // Again after the command that deleted it, for what was stored since.
      await this.deliveries.forget(id, pump.progress.open);
    }
    for (const id of this.unreadable.keys()) if (!known.has(id)) this.unreadable.delete(id);
    return applied;
  }

  private drop(id: string, pump: Pump): void {
    clearTimeout(pump.timer);
    this.pumps.delete(id);
  }

  /** A webhook that cannot be read is left out, and holds up no other. */
  private async loadUnlessUnreadable(row: WebhookRow): Promise<void> {
    const { webhook_id, changed } = row;
    try {
      await this.load(row);
    } catch (error) {
      if (!isUnreadable(error)) throw error;
      this.unreadable.set(webhook_id, changed);
      const pump = this.pumps.get(webhook_id);
      if (pump) this.drop(webhook_id, pump);
      this.logger.warn('a webhook cannot be read', { webhook: webhook_id, error: error.message });
    }
  }

  private async load({ webhook_id, changed }: WebhookRow): Promise<void> {
    const webhook = webhookOf(await this.store.readStream(webhookStream(webhook_id)));
    if (!webhook) return;
    const url = await keptText(this.keyValue, webhook.url_hash);
    const known = this.pumps.get(webhook_id);
    const stored = known?.progress ?? (await this.deliveries.progressOf(webhook));
    const { at, after } = webhook.begins;
    // Beyond the head if an older copy has replaced the log: what follows in it has not been read.
    const head = known ? Infinity : await this.store.head();
    const progress =
      stored?.began === at
        ? stored.position <= head
          ? stored
          : { ...stored, position: head }
        : {
            began: at,
            // A position of another log, from which this one was imported, means nothing here.
            position: (after === null ? undefined : parsePosition(after, this.views.logId)) ?? at,
            next: stored?.next ?? 0,
            open: stored?.open ?? [],
          };
    if (known) {
      Object.assign(known, { changed, webhook, url, progress, isUnsaved: true });
      return this.sendDue(known);
    }
    const pump: Pump = {
      changed,
      webhook,
      url,
      progress,
      lanes: new Map(),
      busy: new Set(),
      sending: 0,
      timer: undefined,
      isUnsaved: progress !== stored,
      waitsUntil: 0,
      isDeleted: false,
    };
    const open = await mapInParts(progress.open, (n) => this.deliveries.get(webhook_id, n));
    const pending = open.filter((delivery) => delivery?.status === 'pending');
    progress.open = pending.map((delivery) => delivery!.n);
    for (const delivery of pending) enqueue(pump, delivery!);
    this.pumps.set(webhook_id, pump);
    this.sendDue(pump);
  }

  /** Reads the log twice: on from the webhook that is furthest, and from the one furthest behind. @returns whether there is more */
  private async read(applied: number): Promise<boolean> {
    const now = this.clock();
    const behind = [...this.pumps.values()]
      .filter((pump) => isActive(pump) && pump.progress.open.length < MAX_OPEN && pump.waitsUntil <= now)
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
    const events: DomainEvent[] = [];
    /** By position. */
    const traces = new Map<number, string>();
    let newer: { at: number; error: NewerSchema } | undefined;
    for await (const slice of this.store.readAll(start, { sliceSize: SLICE })) {
      for (const event of slice) {
        if (event.position > applied) continue;
        try {
          events.push(decodeEvent(event));
        } catch (error) {
          if (!(error instanceof NewerSchema)) throw error;
          newer = { at: event.position, error };
          break;
        }
        const { traceparent } = event.metadata;
        if (this.tracing && traceparent !== undefined) traces.set(event.position, traceparent);
      }
      break;
    }
    const end = events.at(-1)?.position;
    if (end === undefined) {
      if (!newer) return standings;
      // All before that event has been told. It and what follows it are for a build that can read it.
      for (const pump of pumps) {
        const { position } = pump.progress;
        if (position >= start && position < newer.at) this.pause(pump, newer.error);
      }
      return standings;
    }
    const concerned = pumps.filter(({ progress: { position } }) => position >= start && position < end);
    const byWebhook = new Map(concerned.map((pump) => [pump.webhook, pump]));
    const told = await this.noticesOf(events, byWebhook, standings);
    for (const [webhook, notices] of told) {
      const pump = byWebhook.get(webhook)!;
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
      await Promise.all(added.map((delivery) => this.deliveries.keep(webhook.webhook_id, delivery)));
      pump.progress.next += added.length;
      pump.progress.open.push(...added.map(({ n }) => n));
      pump.progress.position = end;
      pump.isUnsaved = true;
      for (const delivery of added) enqueue(pump, delivery);
      if (added.length > 0) await this.saveOne(pump);
    }
    standings.moveTo(end);
    return standings;
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
    const told = new Map<Webhook, Notice[]>();
    for (const [webhook, pump] of byWebhook) {
      try {
        const own = await this.notices.of(events, [webhook], from, new Standings(standings.position));
        told.set(webhook, own.get(webhook)!);
      } catch (error) {
        if (!isUnreadable(error)) throw error;
        this.pause(pump, error);
      }
    }
    return told;
  }

  /** Leaves a webhook alone for a minute. */
  private pause(pump: Pump, { message }: Error): void {
    const { webhook_id } = pump.webhook;
    if (pump.waitsUntil === 0) this.logger.warn('a webhook waits', { webhook: webhook_id, error: message });
    pump.waitsUntil = this.clock() + MINUTE_MS;
  }

  private async save(): Promise<void> {
    await Promise.all([...this.pumps.values()].filter(({ isUnsaved }) => isUnsaved).map((pump) => this.saveOne(pump)));
  }

  /** Saves the progress, and sends the deliveries that are in it. */
  private async saveOne(pump: Pump): Promise<void> {
    pump.isUnsaved = false;
    try {
      await this.deliveries.keepProgress(pump.webhook.webhook_id, pump.progress);
    } catch (error) {
      pump.isUnsaved = true;
      throw error;
    }
    this.sendDue(pump);
  }

  /** Sends what is due, and comes back for what is due next. */
  private sendDue(pump: Pump): void {
    clearTimeout(pump.timer);
    if (!isActive(pump)) return;
    let next = Infinity;
    const now = this.clock();
    for (const [lane, [first]] of pump.lanes) {
      if (pump.busy.has(lane) || !first) continue;
      if (pump.sending >= AT_ONCE) return; // The end of a delivery comes back.
      if (first.next_at! <= now) void this.deliver(pump, lane, first);
      else next = Math.min(next, first.next_at!);
    }
    if (next === Infinity) return;
    pump.timer = setTimeout(() => this.sendDue(pump), Math.min(next - now, MINUTE_MS)).unref();
  }

  private async deliver(pump: Pump, lane: string, delivery: Delivery): Promise<void> {
    pump.busy.add(lane);
    pump.sending++;
    const { webhook } = pump;
    const outcome = await this.send(webhook, pump.url!, delivery.message_id, delivery.body, delivery.traceparent);
    pump.sending--;
    // Deliveries to other identities need not wait until this outcome is stored.
    if (this.pumps.get(webhook.webhook_id) === pump) this.sendDue(pump);
    const at = this.clock();
    delivery.attempts++;
    delivery.last = { ...outcome, at };
    const pause = this.retriesMs[delivery.attempts - 1];
    const gone = outcome.status === 410;
    if (isDelivered(outcome)) Object.assign(delivery, { status: 'delivered', next_at: null });
    else if (gone || pause === undefined) Object.assign(delivery, { status: 'failed', next_at: null });
    else delivery.next_at = at + pause;
    await this.keepOutcome(pump, delivery, gone ? 'gone' : 'failed');
    if (pump.isDeleted) return;
    pump.busy.delete(lane);
    if (delivery.status !== 'pending') {
      const waiting = pump.lanes.get(lane)!;
      waiting.shift();
      if (waiting.length === 0) pump.lanes.delete(lane);
      pump.progress.open = pump.progress.open.filter((n) => n !== delivery.n);
      pump.isUnsaved = true;
    }
    if (this.pumps.get(webhook.webhook_id) === pump) this.sendDue(pump);
  }

  /**
   * Stores the outcome of an attempt, and disables the webhook if it was the last one. Tries until both are done. A job
   * that has stopped leaves the delivery as it is stored: the next one sends it again.
   */
  private async keepOutcome(pump: Pump, delivery: Delivery, reason: 'gone' | 'failed'): Promise<void> {
    const { webhook_id } = pump.webhook;
    for (let isSaid = false; !pump.isDeleted; isSaid = true) {
      try {
        await this.deliveries.keep(webhook_id, delivery);
        if (delivery.status === 'failed') await this.disable(pump, reason);
        return;
      } catch (error) {
        if (this.pumps.get(webhook_id) !== pump) return;
        const message = 'a webhook’s delivery could not be stored';
        if (!isSaid) this.logger.warn(message, { webhook: webhook_id, error: String(error) });
        await sleep(FAILURE_MS, undefined, { ref: false });
      }
    }
  }

  private async disable(pump: Pump, reason: 'gone' | 'failed'): Promise<void> {
    const { webhook_id } = pump.webhook;
    pump.webhook = { ...pump.webhook, disabled: { reason, at: this.clock() } };
    const context = {
      actor: internalActor(`job:${JOB_KIND}`),
      correlation_id: webhook_id,
      idempotency: null,
      body_hash: hashOf(webhook_id, reason),
    };
    await this.writer.update(webhookStream(webhook_id), context, (history) =>
      decideDisable(webhookOf(history)!, reason),
    );
    this.logger.warn('a webhook was disabled', { webhook: webhook_id, reason });
  }
}

/** Whether it is about an event that is damaged, or that only a newer build can read. */
const isUnreadable = (error: unknown): error is Problem | NewerSchema =>
  error instanceof NewerSchema ||
  (error instanceof Problem && (error.code === 'history_unreadable' || error.code === 'newer_schema'));

const isActive = ({ webhook, url }: Pump): boolean => webhook.disabled === null && url !== null;

/** Messages about one identity are sent one after the other; those about none form a lane, too. */
function enqueue(pump: Pump, delivery: Delivery): void {
  const lane = delivery.tris_id ?? '';
  const waiting = pump.lanes.get(lane);
  if (waiting) waiting.push(delivery);
  else pump.lanes.set(lane, [delivery]);
}
