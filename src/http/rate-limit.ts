import { isIPv6 } from 'node:net';
import type { FastifyReply } from 'fastify';
import type { Clock } from '../kernel/clock.js';
import { StoreUnavailable } from '../stores/ports/event-store.js';
import type { KeyValue } from '../stores/ports/key-value.js';
import { Problem } from '../kernel/problems.js';

const WINDOW_MS = 60_000;
const MAX_ADDRESSES = 100_000;

/** The rate limit. */
export interface RequestLimit {
  /** Counts one request and sets the RateLimit headers. @throws Problem rate_limited */
  take(address: string, reply: FastifyReply): void | Promise<void>;
}

/**
 * Requests a minute per client address, in this process, counted in fixed windows of one minute, the same for all
 * addresses, so that all counts are dropped together. An IPv6 client is its /64 network, since it can pick any address in it. After
 * 100,000 addresses in a minute, all further addresses share one count, which bounds memory to about 10 MB.
 */
export class RateLimit implements RequestLimit {
  private counts = new Map<string, number>();
  private ends = 0;

  constructor(
    private readonly limit: number,
    private readonly clock: Clock = Date.now,
  ) {}

  take(address: string, reply: FastifyReply): void {
    const now = this.clock();
    // Also if the clock was set back: clients must not be locked out until it catches up.
    if (now >= this.ends || now < this.ends - WINDOW_MS) {
      this.counts = new Map();
      this.ends = now + WINDOW_MS;
    }
    let client = clientAt(address);
    let count = this.counts.get(client);
    if (count === undefined && this.counts.size >= MAX_ADDRESSES) {
      client = 'others';
      count = this.counts.get(client);
    }
    count = (count ?? 0) + 1;
    this.counts.set(client, count);
    answer(reply, this.limit, count, this.ends - now);
  }
}

/**
 * The same limit for all processes together, counted in the shared key-value store. A client's minute begins with
 * its first request. The process remembers which clients are over the limit, so that a flood does not reach the
 * store, and counts addresses, so that it creates at most 100,000 keys a minute.
 */
export class SharedRateLimit implements RequestLimit {
  private seen = new Set<string>();
  private refusedUntil = new Map<string, number>();
  private ends = 0;

  constructor(
    private readonly limit: number,
    private readonly keyValue: Pick<KeyValue, 'increment'>,
    private readonly clock: Clock = Date.now,
  ) {}

  async take(address: string, reply: FastifyReply): Promise<void> {
    const now = this.clock();
    if (now >= this.ends || now < this.ends - WINDOW_MS) {
      this.seen = new Set();
      this.refusedUntil = new Map(
        [...this.refusedUntil].filter(([, until]) => until > now && until <= now + WINDOW_MS),
      );
      this.ends = now + WINDOW_MS;
    }
    let client = clientAt(address);
    if (!this.seen.has(client) && this.seen.size >= MAX_ADDRESSES) client = 'others';
    this.seen.add(client);
    const until = this.refusedUntil.get(client);
    if (until !== undefined && until > now && until <= now + WINDOW_MS) {
      answer(reply, this.limit, this.limit + 1, until - now);
    }
    let counted: Awaited<ReturnType<KeyValue['increment']>>;
    try {
      counted = await this.keyValue.increment(`rate:${client}`, WINDOW_MS);
    } catch (error) {
      // If the store is away, requests are not limited: some of them do not need the store.
      if (error instanceof StoreUnavailable) return;
      throw error;
    }
    const { count, resets_at } = counted;
    if (count > this.limit) this.refusedUntil.set(client, resets_at);
    answer(reply, this.limit, count, resets_at - this.clock());
  }
}

/** Sets the RateLimit headers. @throws Problem rate_limited */
function answer(reply: FastifyReply, limit: number, count: number, leftMs: number): void {
  const seconds = Math.max(1, Math.ceil(leftMs / 1000));
  reply.header('ratelimit-limit', limit);
  reply.header('ratelimit-remaining', Math.max(0, limit - count));
  reply.header('ratelimit-reset', seconds);
  if (count > limit) {
    const detail = `At most ${limit} requests a minute come from one address; the next is served in ${seconds} s.`;
    throw new Problem('rate_limited', detail, { headers: { 'retry-after': String(seconds) } });
  }
}

/** The key under which a client is counted. */
function clientAt(address: string): string {
  return address.includes(':') ? networkOf(address) : address;
}

/** The /64 of an IPv6 address; an IPv4 address in IPv6 form counts as that IPv4 address. */
export function networkOf(address: string): string {
  if (!isIPv6(address) || address.includes('.')) return address.replace(/^::ffff:/i, '');
  const [head = '', tail] = address.split('::');
  const groups = head === '' ? [] : head.split(':');
  if (tail !== undefined) {
    const rest = tail === '' ? [] : tail.split(':');
    while (groups.length + rest.length < 8) groups.push('0');
    groups.push(...rest);
  }
  return groups
    .slice(0, 4)
    .map((group) => parseInt(group, 16).toString(16))
    .join(':');
}
