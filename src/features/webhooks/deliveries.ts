import { isDeepStrictEqual } from 'node:util';
import { Inject, Injectable } from '@nestjs/common';
import { mapInParts } from '../../kernel/turn.js';
import { FOREVER_MS, KEY_VALUE, type KeyValue } from '../../stores/ports/key-value.js';
import type { WebhookEvent } from './domain/webhooks.events.js';
import type { Outcome } from './receivers.js';

/**
 * How long a delivery that has ended can be sent again. It is listed for as long as every later one is kept, too: a later
 * one may have ended earlier.
 */
const KEPT_MS = 7 * 86_400_000;
/** The newest deliveries of a webhook that are kept, and those that wait. */
const KEPT = 1_000;

/** One message to one webhook. Types, not interfaces: they are stored as JSON. */
export type Notice = {
  /** The same whenever the same event is sent to the same webhook: receivers recognise repetitions by it. */
  message_id: string;
  event: WebhookEvent;
  tris_id: string | null;
  position: number;
  body: string;
};

/** A message, and what became of it. */
export type Delivery = Notice & {
  /** Deliveries of a webhook are numbered from 0. */
  n: number;
  /** ms. */
  created_at: number;
  status: 'pending' | 'delivered' | 'failed';
  attempts: number;
  /** ms; null unless it is pending. */
  next_at: number | null;
  last: (Outcome & { at: number }) | null;
  /** Of the command that led to it, if that was traced. */
  traceparent?: string;
};

/** How far a webhook is. */
export type Progress = {
  /** `begins.at` of the webhook, when the progress began: a replay begins another one. */
  began: number;
  /** All events up to this position have become deliveries. */
  position: number;
  /** The number of the next delivery. */
  next: number;
  /** Numbers of deliveries that are pending. */
  open: number[];
  /** Bytes of the newest messages, at most KEPT, the last that of `next - 1`; 0: it is not kept any more. */
  sizes: number[];
  /** Their sum. */
  bytes: number;
};

/**
 * Deliveries and progress of webhooks, in the short-lived state. Without it, everything since a webhook began is sent again.
 *
 * A worker that was suspended does not know at once that another one has taken its job over. So each write says what it
 * replaces, and has no effect if something else is stored by now.
 */
@Injectable()
export class Deliveries {
  constructor(@Inject(KEY_VALUE) private readonly keyValue: KeyValue) {}

  async progressOf(webhookId: string): Promise<Progress | undefined> {
    return (await this.keyValue.get(progressKey(webhookId))) as Progress | undefined;
  }

  /** @param before undefined: none is stored @returns false, and no effect, if another progress is stored than `before` */
  async replaceProgress(webhookId: string, before: Progress | undefined, after: Progress): Promise<boolean> {
    const key = progressKey(webhookId);
    return before === undefined
      ? this.keyValue.putIfAbsent(key, after, FOREVER_MS)
      : this.keyValue.replace(key, before, after, FOREVER_MS);
  }

  async get(webhookId: string, n: number): Promise<Delivery | undefined> {
    return (await this.keyValue.get(deliveryKey(webhookId, n))) as Delivery | undefined;
  }

  /**
   * Stores a new delivery.
   * @param progress as it is stored, which does not include the delivery yet
   * @returns what is stored then: the same message may have been stored before, and sent. Undefined, and no effect, if
   * another progress is stored
   */
  async create(webhookId: string, delivery: Delivery, progress: Progress | undefined): Promise<Delivery | undefined> {
    const key = deliveryKey(webhookId, delivery.n);
    for (;;) {
      if (await this.keyValue.putIfAbsent(key, delivery, keptMs(delivery))) return delivery;
      const stored = await this.get(webhookId, delivery.n);
      if (stored?.message_id === delivery.message_id) return stored;
      if (!isDeepStrictEqual(await this.progressOf(webhookId), progress)) return undefined;
      // The process that stored it ended before it had stored its progress.
      if (stored && (await this.replace(webhookId, stored, delivery)) === delivery) return delivery;
    }
  }

  /** Removes those that are too old to be kept. @param from the number of the first that is new */
  async trim(webhookId: string, from: number, { next, open }: Progress): Promise<void> {
    const waiting = new Set(open);
    const old = numbers(from - KEPT, next - KEPT).filter((n) => !waiting.has(n));
    await mapInParts(old, (n) => this.keyValue.take(deliveryKey(webhookId, n)));
  }

  /** Removes the oldest that have ended until all that are kept have at most `most` bytes. */
  async trimTo(webhookId: string, most: number, progress: Progress): Promise<void> {
    const { next, open } = progress;
    const sizes = [...progress.sizes];
    const waiting = new Set(open);
    const removed: number[] = [];
    for (const [place, bytes] of sizes.entries()) {
      const n = next - sizes.length + place;
      if (progress.bytes <= most) break;
      if (bytes === 0 || waiting.has(n)) continue;
      removed.push(n);
      sizes[place] = 0;
      progress.bytes -= bytes;
    }
    progress.sizes = sizes;
    await mapInParts(removed, (n) => this.keyValue.take(deliveryKey(webhookId, n)));
  }

  /** @returns what is stored then: `after`, unless something other than `before` was stored */
  async replace(webhookId: string, before: Delivery, after: Delivery): Promise<Delivery | undefined> {
    const key = deliveryKey(webhookId, before.n);
    if (await this.keyValue.replace(key, before, after, keptMs(after))) return after;
    const stored = await this.get(webhookId, before.n);
    // Stored by an earlier call, whose answer was lost.
    return isDeepStrictEqual(stored, after) ? after : stored;
  }

  /** Removes the progress and the deliveries of a deleted webhook. @param last progress that may not be stored */
  async forget(webhookId: string, last?: Progress): Promise<void> {
    const stored = (await this.keyValue.take(progressKey(webhookId))) as Progress | undefined;
    const progress = [stored, last].filter((each) => each !== undefined);
    const kept = progress.flatMap(({ next, open }) => [...numbers(next - KEPT, next), ...open]);
    await mapInParts([...new Set(kept)], (n) => this.keyValue.take(deliveryKey(webhookId, n)));
  }

  /** A page of deliveries, newest first. @param before the number of the last one on the page before */
  async list(webhookId: string, before: number | undefined, limit: number): Promise<Delivery[]> {
    const progress = await this.progressOf(webhookId);
    const next = before ?? progress?.next ?? 0;
    // Where some of these have expired, so have those before, except for those that still wait.
    const older = (progress?.open ?? []).filter((n) => n < next - limit).sort((a, b) => b - a);
    const read = async (places: readonly number[]) =>
      (await mapInParts(places, (n) => this.get(webhookId, n))).filter((delivery) => delivery !== undefined);
    const found = await read(numbers(next - limit, next).reverse());
    return [...found, ...(await read(older.slice(0, limit - found.length)))];
  }
}

/** The next deliveries of a webhook are these. */
export function addNext(progress: Progress, deliveries: readonly Delivery[]): void {
  progress.next += deliveries.length;
  const added = deliveries.map(({ body }) => Buffer.byteLength(body));
  progress.sizes = [...progress.sizes, ...added].slice(-KEPT);
  progress.bytes = progress.sizes.reduce((sum, bytes) => sum + bytes, 0);
}

/** The numbers of deliveries from `from`, or from 0 if that is negative, to before `to`. */
function numbers(from: number, to: number): number[] {
  const first = Math.max(0, from);
  return Array.from({ length: Math.max(0, to - first) }, (_, i) => first + i);
}

/** Of one group, so that no server loses a delivery and keeps the progress that includes it. */
const progressKey = (webhookId: string): string => `webhook:{${webhookId}}`;
const deliveryKey = (webhookId: string, n: number): string => `webhook:{${webhookId}}:${n}`;

/** One that waits is kept as long as its webhook is disabled. */
const keptMs = ({ status }: Delivery): number => (status === 'pending' ? FOREVER_MS : KEPT_MS);
