import { setTimeout as sleep } from 'node:timers/promises';
import { Inject, Injectable } from '@nestjs/common';
import { Counter, Registry } from 'prom-client';
import { jobContext } from '../../commands/context.js';
import { Writer } from '../../commands/writer.js';
import { backoff } from '../../kernel/backoff.js';
import { CLOCK, type Clock } from '../../kernel/clock.js';
import { hashOf } from '../../kernel/hash.js';
import { Logger } from '../../kernel/logger.js';
import { TRACING, type Tracing } from '../../kernel/tracing.js';
import { StoreUnavailable } from '../../stores/ports/event-store.js';
import { Deliveries, type Delivery } from './deliveries.js';
import { type Webhook, decideDisable, webhookOf, webhookStream } from './domain/webhook.js';
import type { Pump } from './pump.js';
import { type Outcome, Receivers, isDelivered } from './receivers.js';
import { Signatures } from './signatures.js';

/** The status of a receiver that wants no messages any more. */
const GONE = 410;
/** Deliveries to one webhook at the same time, each of another identity. */
const AT_ONCE = 16;
const MINUTE_MS = 60_000;
/** The pauses between attempts: three days in all, as the Standard Webhooks specification suggests. */
const RETRIES_MS = [5_000, 5 * MINUTE_MS, ...[0.5, 2, 5, 10, 14, 20, 24].map((hours) => hours * 60 * MINUTE_MS)];

/** Sends the deliveries of webhooks, and stores what became of them. */
@Injectable()
export class Sender {
  /** Replaced by tests. */
  retriesMs: readonly number[] = RETRIES_MS;
  private readonly counter: Counter<'outcome'>;

  constructor(
    private readonly writer: Writer,
    private readonly receivers: Receivers,
    private readonly signatures: Signatures,
    private readonly deliveries: Deliveries,
    private readonly logger: Logger,
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

  /** Sends one message. @param cause `traceparent` of the command that led to it */
  async send(webhook: Webhook, url: string, messageId: string, body: string, cause?: string): Promise<Outcome> {
    const headers = this.signatures.headersOf(webhook, messageId, body);
    const attributes = {
      'http.request.method': 'POST',
      'credence.webhook': webhook.webhook_id,
      'credence.message': messageId,
    };
    const links = cause === undefined ? undefined : [cause];
    const span = links && this.tracing?.start('deliver webhook', { kind: 'client', links, attributes });
    if (span) headers['traceparent'] = span.traceparent;
    const outcome = await this.receivers.post(webhook.owner, url, headers, body);
    const { status, failure } = outcome;
    if (status !== null) span?.set({ 'http.response.status_code': status });
    span?.end(isDelivered(outcome) ? undefined : (failure ?? String(status)));
    this.counter.inc({ outcome: isDelivered(outcome) ? 'delivered' : (failure ?? `${Math.floor(status! / 100)}xx`) });
    return outcome;
  }

  /** Stores the progress, and sends the deliveries that are in it. The pump stops if another worker has gone on. */
  async save(pump: Pump): Promise<void> {
    const progress = { ...pump.progress, open: [...pump.progress.open] };
    pump.isUnsaved = false;
    try {
      if (!(await this.deliveries.replaceProgress(pump.id, pump.stored, progress))) return pump.stop();
    } catch (error) {
      pump.isUnsaved = true;
      throw error;
    }
    pump.stored = progress;
    this.sendDue(pump);
  }

  /** Sends what is due, and comes back for what is due next. */
  sendDue(pump: Pump): void {
    clearTimeout(pump.timer);
    if (!pump.isActive) return;
    let next = Infinity;
    const now = this.clock();
    for (const [lane, [first]] of pump.lanes) {
      if (pump.busy.has(lane) || !first) continue;
      if (pump.sending >= AT_ONCE) return; // The end of a delivery comes back.
      const wait = first.next_at! - now;
      // A wait longer than the pause after its last attempt means that the clock was set back.
      const isDue = wait <= 0 || wait > (this.retriesMs[first.attempts - 1] ?? 0);
      if (isDue) void this.deliver(pump, lane, first);
      else next = Math.min(next, first.next_at!);
    }
    if (next === Infinity) return;
    pump.timer = setTimeout(() => this.sendDue(pump), Math.min(next - now, MINUTE_MS)).unref();
  }

  private async deliver(pump: Pump, lane: string, delivery: Delivery): Promise<void> {
    pump.busy.add(lane);
    pump.sending++;
    const { message_id, body, traceparent } = delivery;
    const outcome = await this.send(pump.webhook, pump.url!, message_id, body, traceparent);
    pump.sending--;
    // The next job sends it again.
    if (this.receivers.isStopping && outcome.status === null) return pump.stop();
    // Deliveries to other identities need not wait until this outcome is stored.
    this.sendDue(pump);
    const stored = await this.keepOutcome(pump, delivery, outcome);
    if (!stored) return pump.stop();
    pump.busy.delete(lane);
    const waiting = pump.lanes.get(lane)!;
    if (stored.status === 'pending') {
      waiting[0] = stored;
    } else {
      waiting.shift();
      if (waiting.length === 0) pump.lanes.delete(lane);
      pump.progress.open = pump.progress.open.filter((n) => n !== delivery.n);
      pump.isUnsaved = true;
    }
    this.sendDue(pump);
  }

  /**
   * Stores the outcome of an attempt, and disables the webhook if it was the last one. Tries until both are done. A job
   * that has stopped leaves the delivery as it is stored: the next one sends it again.
   * @returns the delivery as it is stored then, perhaps by another worker; undefined if it is not stored any more
   */
  private async keepOutcome(pump: Pump, before: Delivery, outcome: Outcome): Promise<Delivery | undefined> {
    const after = this.attempted(before, outcome);
    for (let failures = 1; ; failures++) {
      try {
        const stored = await this.deliveries.replace(pump.id, before, after);
        if (stored === after && after.status === 'failed') {
          await this.disable(pump, outcome.status === GONE ? 'gone' : 'failed');
        }
        return stored?.message_id === before.message_id ? stored : undefined;
      } catch (error) {
        if (pump.isStopped) return undefined;
        // A store itself logs when it becomes unavailable and when it is back.
        if (failures === 1 && !(error instanceof StoreUnavailable)) {
          this.logger.warn('a webhook’s delivery could not be stored', { webhook: pump.id, error: String(error) });
        }
        await sleep(backoff(failures), undefined, { ref: false });
      }
    }
  }

  /** A delivery after another attempt. */
  private attempted(delivery: Delivery, outcome: Outcome): Delivery {
    const at = this.clock();
    const after = { ...delivery, attempts: delivery.attempts + 1, last: { ...outcome, at } };
    if (isDelivered(outcome)) return { ...after, status: 'delivered', next_at: null };
    const pause = this.retriesMs[delivery.attempts];
    if (outcome.status === GONE || pause === undefined) return { ...after, status: 'failed', next_at: null };
    return { ...after, next_at: at + pause };
  }

  private async disable(pump: Pump, reason: 'gone' | 'failed'): Promise<void> {
    pump.webhook = { ...pump.webhook, disabled: { reason, at: this.clock() } };
    const context = jobContext('job:webhooks', pump.id, hashOf(pump.id, reason));
    await this.writer.update(webhookStream(pump.id), context, (history) => decideDisable(webhookOf(history)!, reason));
    this.logger.warn('a webhook was disabled', { webhook: pump.id, reason });
  }
}
