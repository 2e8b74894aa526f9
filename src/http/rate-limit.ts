import { isIPv6 } from 'node:net';
import type { FastifyReply } from 'fastify';
import type { Clock } from '../clock.js';
import { Problem } from '../problems.js';

const WINDOW_MS = 60_000;
const MAX_ADDRESSES = 100_000;

/**
 * Requests a minute per client address, counted in fixed windows of one minute that all addresses share, so that a
 * window's end frees everything. An IPv6 client is its /64 network, since it can pick any address in it. Beyond 100,000
 * addresses in a minute all further ones share one count: memory stays bounded (about 10 MB) under a flood.
 */
export class RateLimit {
  private counts = new Map<string, number>();
  private ends = 0;

  constructor(
    private readonly limit: number,
    private readonly clock: Clock = Date.now,
  ) {}

  /** Counts one request and sets the RateLimit headers. @throws Problem rate_limited */
  take(address: string, reply: FastifyReply): void {
    const now = this.clock();
    // The second test: a clock that was set back must not lock everybody out until it catches up.
    if (now >= this.ends || now < this.ends - WINDOW_MS) {
      this.counts = new Map();
      this.ends = now + WINDOW_MS;
    }
    let client = address.includes(':') ? networkOf(address) : address;
    let count = this.counts.get(client);
    if (count === undefined && this.counts.size >= MAX_ADDRESSES) {
      client = 'others';
      count = this.counts.get(client);
    }
    count = (count ?? 0) + 1;
    this.counts.set(client, count);
    const seconds = Math.ceil((this.ends - now) / 1000);
    reply.header('ratelimit-limit', this.limit);
    reply.header('ratelimit-remaining', Math.max(0, this.limit - count));
    reply.header('ratelimit-reset', seconds);
    if (count > this.limit) {
      const detail = `At most ${this.limit} requests a minute come from one address; the next is served in ${seconds} s.`;
      throw new Problem('rate_limited', detail, { headers: { 'retry-after': String(seconds) } });
    }
  }
}

/** The /64 of an IPv6 address; an IPv4 address in IPv6 form stands for itself. */
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
