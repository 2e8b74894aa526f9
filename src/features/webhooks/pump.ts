import { isDeepStrictEqual } from 'node:util';
import type { Position } from '../../kernel/event.js';
import type { Consumer } from '../../read-side/consumers.js';
import type { Delivery, Progress } from './deliveries.js';
import type { Webhook } from './domain/webhook.js';

/** The state of sending one webhook's messages: how far it is, and what waits to be sent. */
export class Pump implements Consumer {
  /** Pending deliveries by identity, oldest first. Only the first of a lane is sent. */
  readonly lanes = new Map<string, Delivery[]>();
  /** Lanes whose first delivery is being sent, or its outcome stored. */
  readonly busy = new Set<string>();
  sending = 0;
  timer: NodeJS.Timeout | undefined;
  isStopped = false;
  /** `progress` is not stored yet. */
  isUnsaved: boolean;

  /**
   * @param changed position of the last event of the webhook's stream
   * @param url null: the text was deleted, so that nothing can be delivered
   */
  constructor(
    public changed: number,
    public webhook: Webhook,
    public url: string | null,
    public progress: Progress,
    public stored: Progress | undefined,
  ) {
    this.isUnsaved = !isDeepStrictEqual(progress, stored);
  }

  get id(): string {
    return this.webhook.webhook_id;
  }

  get position(): Position {
    return this.progress.position;
  }

  get isActive(): boolean {
    return !this.isStopped && this.webhook.disabled === null && this.url !== null;
  }

  /** Messages about one identity are sent one after the other; those about none form a lane, too. */
  enqueue(delivery: Delivery): void {
    const lane = delivery.tris_id ?? '';
    const waiting = this.lanes.get(lane);
    if (waiting) waiting.push(delivery);
    else this.lanes.set(lane, [delivery]);
  }

  stop(): void {
    this.isStopped = true;
    clearTimeout(this.timer);
  }
}
