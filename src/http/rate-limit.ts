import { isIPv4 } from 'node:net';
import type { FastifyReply } from 'fastify';
import type { Clock } from '../kernel/clock.js';
import { StoreUnavailable } from '../stores/ports/event-store.js';
import type { Config } from '../kernel/config.js';
import type { KeyValue } from '../stores/ports/key-value.js';
import { Problem } from '../kernel/problems.js';
import { addressIn } from './addresses.js';

const WINDOW_MS = 60_000;
const MAX_ADDRESSES = 100_000;

export interface RequestLimit {
  /**
   * Counts one request and sets the RateLimit headers of its reply.
   * @param more instead of one: how many more requests it counts as, since it asks for as much as they would
   * @throws Problem rate_limited
   */
  take(address: string, reply?: FastifyReply, more?: number): void | Promise<void>;
}

/** The limit of this process, or of all of a cluster. @param prefix of the counts in the store of a cluster */
export function requestLimit(
  { profile }: Pick<Config, 'profile'>,
  limit: number,
  keyValue: KeyValue | undefined,
  prefix = 'rate',
): RequestLimit | undefined {
  if (limit === 0) return undefined;
  if (profile !== 'cluster' || !keyValue) return new RateLimit(limit);
  return new SharedRateLimit(limit, keyValue, Date.now, prefix);
}

/** Who is counted: an address, or the network that an IPv6 client can choose its address from. */
interface Client {
  /** An IPv4 address, or the /64 of an IPv6 address. */
  network: string;
  /** The /48 of an IPv6 address: what a provider assigns to one customer at most. */
  site: string | undefined;
}

/** @param entry of a socket or of X-Forwarded-For. Whatever is not an address counts as one client. */
export function clientOf(entry: string): Client {
  if (isIPv4(entry)) return { network: entry, site: undefined };
  const address = addressIn(entry);
  if (address === undefined) return { network: 'unknown', site: undefined };
  if (!('parts' in address)) return { network: address.toString(), site: undefined };
  const groups = address.parts.map((part) => part.toString(16));
  return { network: groups.slice(0, 4).join(':'), site: `${groups.slice(0, 3).join(':')}::/48` };
}

/** How many times its limit the networks of an IPv6 client's /48 may ask together. */
const NETWORKS_OF_A_SITE = 16;

/** What a client is counted under, each with its limit. */
function countsOf(address: string, limit: number): [key: string, limit: number][] {
  const { network, site } = clientOf(address);
  const own: [string, number] = [network, limit];
  return site === undefined ? [own] : [own, [site, limit * NETWORKS_OF_A_SITE]];
}

/**
 * Requests a minute per client address, in this process, counted in fixed windows of one minute, the same for all
 * addresses, so that all counts are dropped together. After 100,000 addresses in a minute, all further addresses share
 * one count, which bounds memory to about 10 MB.
 */
export class RateLimit implements RequestLimit {
  private counts = new Map<string, number>();
  private ends = 0;

  constructor(
    private readonly limit: number,
    private readonly clock: Clock = Date.now,
  ) {}

  take(address: string, reply?: FastifyReply, more?: number): void {
    const now = this.clock();
    // Also if the clock was set back: clients must not be locked out until it catches up.
    if (now >= this.ends || now < this.ends - WINDOW_MS) {
      this.counts = new Map();
      this.ends = now + WINDOW_MS;
    }
    for (const [key, limit] of countsOf(address, this.limit)) {
      const client = this.counts.has(key) || this.counts.size < MAX_ADDRESSES ? key : 'others';
      const before = this.counts.get(client) ?? 0;
      answer(reply, limit, before, this.ends - now, more);
      this.counts.set(client, before + (more ?? 1));
    }
  }
}

/**
 * The same limit for all processes together, counted in the shared key-value store. A client's minute begins with its
 * first request. The process remembers which clients are over the limit, so a flood does not reach the store, and
 * counts addresses, so it creates at most 100,000 keys a minute.
 */
export class SharedRateLimit implements RequestLimit {
  private seen = new Set<string>();
  private refusedUntil = new Map<string, number>();
  private ends = 0;

  constructor(
    private readonly limit: number,
    private readonly keyValue: Pick<KeyValue, 'increment'>,
    private readonly clock: Clock = Date.now,
    private readonly prefix = 'rate',
  ) {}

  async take(address: string, reply?: FastifyReply, more?: number): Promise<void> {
    const now = this.clock();
    if (now >= this.ends || now < this.ends - WINDOW_MS) {
      this.seen = new Set();
      this.refusedUntil = new Map(
        [...this.refusedUntil].filter(([, until]) => until > now && until <= now + WINDOW_MS),
      );
      this.ends = now + WINDOW_MS;
    }
    for (const [key, limit] of countsOf(address, this.limit)) await this.count(key, limit, now, reply, more);
  }

  private async count(key: string, limit: number, now: number, reply?: FastifyReply, more?: number): Promise<void> {
    const client = this.seen.has(key) || this.seen.size < MAX_ADDRESSES ? key : 'others';
    this.seen.add(client);
    const until = this.refusedUntil.get(client);
    if (until !== undefined && until > now && until <= now + WINDOW_MS) answer(reply, limit, limit, until - now, more);
    let counted: Awaited<ReturnType<KeyValue['increment']>>;
    const name = `${this.prefix}:${client}`;
    const asked = more ?? 1;
    try {
      counted = await this.keyValue.increment(name, WINDOW_MS, asked);
      if (counted.count > limit && more !== undefined) await this.keyValue.increment(name, WINDOW_MS, -asked);
    } catch (error) {
      // If the store is unavailable, requests are not limited: some of them do not need the store.
      if (error instanceof StoreUnavailable) return;
      throw error;
    }
    const { count, resets_at } = counted;
    const before = count - asked;
    if (before >= limit) this.refusedUntil.set(client, resets_at);
    answer(reply, limit, before, resets_at - this.clock(), more);
  }
}

/**
 * Sets the RateLimit headers, to those of the count that is nearer to its limit.
 * @param before the count without this request
 * @throws Problem rate_limited; the request is then not counted, so that a smaller batch can still fit
 */
function answer(reply: FastifyReply | undefined, limit: number, before: number, leftMs: number, more?: number): void {
  const seconds = Math.max(1, Math.ceil(leftMs / 1000));
  const asked = more ?? 1;
  const left = Math.max(0, limit - before);
  const isRefused = asked > left;
  const remaining = isRefused ? left : left - asked;
  const other = reply?.getHeader('ratelimit-remaining');
  if (reply && (other === undefined || remaining < Number(other))) {
    reply.header('ratelimit-limit', limit);
    reply.header('ratelimit-remaining', remaining);
    reply.header('ratelimit-reset', seconds);
    // draft-ietf-httpapi-ratelimit-headers-10
    reply.header('ratelimit-policy', `"address";q=${limit};w=${WINDOW_MS / 1000}`);
    reply.header('ratelimit', `"address";r=${remaining};t=${seconds}`);
  }
  if (isRefused) {
    const what = more === undefined ? '' : `, and this one counts as ${more + 1}`;
    const fitsLater = more === undefined || more < limit;
    const fewer = more !== undefined && (left > 0 || !fitsLater);
    const then = [fewer && 'send fewer at once', fitsLater && `try again in ${seconds} s`]
      .filter(Boolean)
      .join(', or ');
    const detail = `At most ${limit} requests per minute are accepted from one client${what}; ${then}.`;
    throw new Problem('rate_limited', detail, { headers: { 'retry-after': String(seconds) } });
  }
}
