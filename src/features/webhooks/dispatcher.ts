import { Inject, Injectable, type OnModuleInit } from '@nestjs/common';
import { WEBHOOKS, type WebhookRow } from '../../../projections/webhooks.js';
import { NewerSchema } from '../../kernel/event-definition.js';
import { Config } from '../../kernel/config.js';
import type { Position } from '../../kernel/event.js';
import { Logger } from '../../kernel/logger.js';
import { parsePosition } from '../../kernel/positions.js';
import { Problem } from '../../kernel/problems.js';
import { Sweeper } from '../../kernel/sweeper.js';
import { mapInParts, yieldIfDue } from '../../kernel/turn.js';
import { Consumers } from '../../read-side/consumers.js';
import { Views } from '../../read-side/views.js';
import { EVENT_STORE, type EventStore } from '../../stores/ports/event-store.js';
import { JOBS, type Jobs } from '../../stores/ports/jobs.js';
import { Deliveries, type Delivery, type Progress } from './deliveries.js';
import type { Webhook } from './domain/webhook.js';
import { DeliveryCreator } from './delivery-creator.js';
import { Pump } from './pump.js';
import { Sender } from './sender.js';
import { Webhooks } from './webhooks.js';

const JOB_KIND = 'webhooks';
const JOB_ID = 'dispatch';

/**
 * Delivers to all webhooks, as one job that does not end: the queue of jobs has one process run it at a time, and
 * another one take over when that process ends or hangs. Whatever it has read becomes stored deliveries before its progress is
 * stored, so that a restart loses nothing and repeats little.
 */
@Injectable()
export class Dispatcher extends Sweeper implements OnModuleInit {
  protected override readonly sweepMs = 10_000;
  private readonly pumps = new Map<string, Pump>();
  /** Webhooks whose own events cannot be decoded, with the position of the last one. */
  private readonly unreadable = new Map<string, number>();
  /** The position that the read models had applied before the webhooks were read: up to there, these are all. */
  private known: Position | undefined;

  constructor(
    private readonly views: Views,
    private readonly webhooks: Webhooks,
    private readonly consumers: Consumers,
    private readonly creator: DeliveryCreator,
    private readonly sender: Sender,
    private readonly deliveries: Deliveries,
    protected readonly config: Config,
    private readonly logger: Logger,
    @Inject(EVENT_STORE) private readonly store: EventStore,
    @Inject(JOBS) private readonly jobs: Jobs,
  ) {
    super();
  }

  onModuleInit(): void {
    this.jobs.handle(JOB_KIND, ({ signal }) => this.run(signal), { attempts: Number.MAX_SAFE_INTEGER });
  }

  /** If the queue was lost, or the job was cancelled, it starts again. */
  async sweep(): Promise<void> {
    // A URL that was lost may be set again, which changes nothing in the log.
    for (const { id, changed, url } of this.pumps.values()) {
      if (url === null) await this.load(id, changed);
    }
    if ((await this.views.range({ ...WEBHOOKS, limit: 1 })).length > 0) await this.start();
  }

  /** Starts the job unless it runs: a service without webhooks has none. */
  async start(): Promise<void> {
    const job = await this.jobs.enqueue(JOB_KIND, JOB_ID, {});
    if (job.status === 'failed' || job.status === 'cancelled') await this.jobs.retry(JOB_KIND, JOB_ID);
  }

  private async run(signal: AbortSignal): Promise<never> {
    try {
      await this.consumers.follow('webhooks', () => this.readOn(), signal);
      throw signal.reason;
    } finally {
      for (const pump of this.pumps.values()) pump.stop();
      this.pumps.clear();
      this.known = undefined;
      this.creator.clear();
    }
  }

  private async readOn(): Promise<boolean> {
    const isStopped = [...this.pumps.values()].some((pump) => pump.isStopped);
    const applied = await this.views.applied();
    if (isStopped || applied !== this.known) {
      await this.refresh();
      this.known = applied;
    }
    const pumps = [...this.pumps.values()];
    const isMore = await this.creator.read(pumps, applied);
    const unsaved = pumps.filter(({ isUnsaved, isStopped }) => isUnsaved && !isStopped);
    await Promise.all(unsaved.map((pump) => this.sender.save(pump)));
    return isMore;
  }

  /** Brings the webhooks up to date. */
  private async refresh(): Promise<void> {
    const known = new Set<string>();
    for (const { value } of await this.views.rows(WEBHOOKS)) {
      const { webhook_id, changed } = value as WebhookRow;
      known.add(webhook_id);
      await yieldIfDue();
      if (this.unreadable.get(webhook_id) === changed || this.runningPump(webhook_id)?.changed === changed) continue;
      await this.load(webhook_id, changed);
    }
    for (const [id, pump] of this.pumps) {
      if (known.has(id)) continue;
      pump.stop();
      this.pumps.delete(id);
      // Again after the command that deleted it, for what was stored since.
      await this.deliveries.forget(id, pump.progress);
    }
    for (const id of this.unreadable.keys()) if (!known.has(id)) this.unreadable.delete(id);
  }

  /** Undefined also if the pump has stopped, since another worker has gone on: the webhook is loaded again. */
  private runningPump(id: string): Pump | undefined {
    const pump = this.pumps.get(id);
    return pump?.isStopped ? undefined : pump;
  }

  /** A webhook that cannot be read is left out, and holds up no other. */
  private async load(id: string, changed: Position): Promise<void> {
    let webhook: Webhook | undefined;
    try {
      webhook = await this.webhooks.read(id);
    } catch (error) {
      const isDamaged = error instanceof Problem && error.code === 'history_unreadable';
      if (!isDamaged && !(error instanceof NewerSchema)) throw error;
      this.unreadable.set(id, changed);
      this.pumps.get(id)?.stop();
      this.pumps.delete(id);
      this.logger.warn('a webhook cannot be read', { webhook: id, error: error.message });
    }
    // Its progress is deleted with it: everything would be sent again until the read models have applied that.
    if (!webhook || webhook.deleted) return;
    const url = await this.webhooks.urlOf(webhook);
    const known = this.runningPump(id);
    if (url === null && known?.url !== null) {
      const message = 'the URL of a webhook is lost or deleted: nothing is delivered until it is set again';
      this.logger.warn(message, { webhook: id });
    }
    const stored = known ? known.stored : await this.deliveries.progressOf(id);
    const { at, after } = webhook.begins;
    // A position of another log, from which this one was imported, means nothing here.
    const begin = (after === null ? undefined : parsePosition(after, this.views.logId)) ?? at;
    // Beyond the head if an older copy has replaced the log: what follows in it has not been read.
    const head = known ? Infinity : await this.store.head();
    const last = { ...NONE, ...(known?.progress ?? stored) };
    const position = last.began === at ? Math.min(last.position, head) : begin;
    const progress = { ...last, began: at, position };
    if (known) {
      Object.assign(known, { changed, webhook, url, progress, isUnsaved: true });
      return this.sender.sendDue(known);
    }
    const open = await mapInParts(progress.open, (n) => this.deliveries.get(id, n));
    const pending = open.filter((delivery) => delivery?.status === 'pending') as Delivery[];
    progress.open = pending.map(({ n }) => n);
    const pump = new Pump(changed, webhook, url, progress, stored);
    for (const delivery of pending) pump.enqueue(delivery);
    this.pumps.set(id, pump);
    this.sender.sendDue(pump);
  }
}

/** The progress of a webhook without deliveries. None begins at 0. */
const NONE: Progress = { began: 0, position: 0, next: 0, open: [], sizes: [], bytes: 0 };
