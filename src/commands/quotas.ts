import type { OnApplicationShutdown } from '@nestjs/common';
import type { Clock } from '../kernel/clock.js';
import type { Config } from '../kernel/config.js';
import { Problem } from '../kernel/problems.js';
import type { KeyValue } from '../stores/ports/key-value.js';

const DAY_MS = 86_400_000;
/** How often a process adds what it has counted to what all have. */
const FLUSH_MS = 1_000;

const RATES = ['actions', 'bytes'] as const;
type Rate = (typeof RATES)[number];
const STOCKS = ['job_results', 'job_bytes', 'delivery_bytes'] as const;
type Stock = (typeof STOCKS)[number];
/** What has a bound for each owner, and is in its usage. */
export const BOUNDS = [...RATES, ...STOCKS] as const;

/** What a relay counts as. */
export type Amounts = Record<Rate, number>;

/** What an owner has relayed on a day. */
interface Count {
  /** By all processes, as far as this one knows. */
  stored: Record<Rate, number>;
  /** By this process since. */
  fresh: Record<Rate, number>;
  loading: Promise<void> | undefined;
}

export type QuotaConfig = Pick<
  Config,
  'actionsPerDay' | 'bytesPerDay' | 'jobResults' | 'jobBytes' | 'waitingDeliveries' | 'deliveryBytes'
>;

/**
 * The bounds of an owner: an organization, or a key without one. What is relayed is counted by days (UTC), in this process,
 * which adds its counts to those of all processes each second: together they can exceed a bound by what is relayed in a
 * second. While the store is unavailable, each process counts for itself.
 */
export class Quotas implements OnApplicationShutdown {
  /** Infinity: none. */
  readonly limits: Record<Rate | Stock | 'waiting_deliveries', number>;
  private readonly limited: readonly Rate[];
  private readonly policy: string;
  private day = NaN;
  private counts = new Map<string, Count>();
  private readonly stocks = new Map<Stock, (owner: string) => Promise<number>>();
  private flushing: Promise<void> | undefined;
  private readonly timer: NodeJS.Timeout;

  constructor(
    config: QuotaConfig,
    private readonly keyValue: Pick<KeyValue, 'increment'>,
    private readonly clock: Clock,
  ) {
    this.limits = {
      actions: config.actionsPerDay || Infinity,
      bytes: config.bytesPerDay || Infinity,
      job_results: config.jobResults || Infinity,
      job_bytes: config.jobBytes || Infinity,
      waiting_deliveries: config.waitingDeliveries || Infinity,
      delivery_bytes: config.deliveryBytes || Infinity,
    };
    this.limited = RATES.filter((rate) => this.limits[rate] < Infinity);
    this.policy = this.limited.map((rate) => `"${rate}";q=${this.limits[rate]};w=${DAY_MS / 1000}`).join(', ');
    const flush = () => void (this.flushing ??= this.flush().finally(() => (this.flushing = undefined)));
    this.timer = setInterval(flush, FLUSH_MS).unref();
  }

  async onApplicationShutdown(): Promise<void> {
    clearInterval(this.timer);
    await this.flushing;
    await this.flush();
  }

  /**
   * Counts a relay.
   * @param isRecorded whether it is a retry of what is recorded, which is answered also beyond a bound
   * @returns takes it back
   * @throws Problem quota_exceeded
   */
  async take(owner: string, amounts: Amounts, isRecorded: () => Promise<boolean>): Promise<() => void> {
    const count = this.countOf(owner);
    if (count.loading) await count.loading;
    const over = this.limited.find((rate) => usedOf(count, rate) + amounts[rate] > this.limits[rate]);
    if (over !== undefined) {
      if (await isRecorded()) return () => undefined;
      const detail = `${owner} may relay ${this.limits[over]} ${over} a day, and has relayed ${usedOf(count, over)} today (UTC).`;
      const headers = { ...this.headersOf(owner), 'retry-after': String(this.secondsLeft()) };
      throw new Problem('quota_exceeded', detail, { headers, members: { quota: over } });
    }
    const add = (sign: number) => {
      for (const rate of RATES) count.fresh[rate] += sign * amounts[rate];
    };
    add(1);
    return () => add(-1);
  }

  /** What is left for today (draft-ietf-httpapi-ratelimit-headers-10). */
  headersOf(owner: string): Record<string, string> {
    if (this.limited.length === 0) return {};
    const count = this.countOf(owner);
    const seconds = this.secondsLeft();
    const left = (rate: Rate) => Math.max(0, this.limits[rate] - usedOf(count, rate));
    const ratelimit = this.limited.map((rate) => `"${rate}";r=${left(rate)};t=${seconds}`).join(', ');
    return { 'ratelimit-policy': this.policy, ratelimit };
  }

  /** Says how much of a stock an owner has. */
  measure(stock: Stock, by: (owner: string) => Promise<number>): void {
    this.stocks.set(stock, by);
  }

  /** What an owner has of each bound, except what other processes have counted in the last second. */
  async usageOf(owner: string) {
    const count = this.countOf(owner);
    await this.store(this.day, owner, count);
    const resets_at = new Date((this.day + 1) * DAY_MS).toISOString();
    const bound = (name: Rate | Stock, used: number, resets: string | null) => {
      const limit = this.limits[name];
      return { name, used, limit: limit === Infinity ? null : limit, resets_at: resets };
    };
    const stocks = [...this.stocks].map(async ([name, by]) => bound(name, await by(owner), null));
    return [...RATES.map((rate) => bound(rate, usedOf(count, rate), resets_at)), ...(await Promise.all(stocks))];
  }

  /** That of today, whichever day the clock says: it may be set back. */
  private countOf(owner: string): Count {
    const day = Math.floor(this.clock() / DAY_MS);
    if (day !== this.day) {
      void this.flush();
      [this.day, this.counts] = [day, new Map()];
    }
    const known = this.counts.get(owner);
    if (known) return known;
    const count: Count = { stored: { actions: 0, bytes: 0 }, fresh: { actions: 0, bytes: 0 }, loading: undefined };
    this.counts.set(owner, count);
    count.loading = this.store(day, owner, count).finally(() => (count.loading = undefined));
    return count;
  }

  private secondsLeft(): number {
    return Math.ceil((DAY_MS - (this.clock() % DAY_MS)) / 1000);
  }

  private async flush(): Promise<void> {
    const { day, counts } = this;
    const changed = [...counts].filter(([, { fresh }]) => RATES.some((rate) => fresh[rate] !== 0));
    await Promise.all(changed.map(([owner, count]) => this.store(day, owner, count)));
  }

  /** Adds what is fresh to what is stored, and learns what others have added. */
  private async store(day: number, owner: string, { stored, fresh }: Count): Promise<void> {
    for (const rate of RATES) {
      const by = fresh[rate];
      fresh[rate] -= by;
      stored[rate] += by;
      const adding = this.keyValue.increment(`quota:${day}:${rate}:${owner}`, 2 * DAY_MS, by);
      const count = await adding.then((added) => added.count).catch(() => undefined);
      // The next flush tries again.
      if (count === undefined) fresh[rate] += by;
      stored[rate] = count ?? stored[rate] - by;
    }
  }
}

const usedOf = ({ stored, fresh }: Count, rate: Rate): number => stored[rate] + fresh[rate];
