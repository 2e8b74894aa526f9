import type { KeyValue } from './ports/key-value.js';

/**
 * Keys whose loss costs a client a retry at most: nonces together with the store they are bound to, and limits on
 * requests. All others must outlast a cache (docs/cluster.md).
 */
const MAY_BE_LOST = /^(\{siwe\}|rate:|claims:)/;

/** Short-lived state in two stores: what may be lost in one, all else in the other. */
export class DividedKeyValue implements KeyValue {
  constructor(
    private readonly kept: KeyValue,
    private readonly cache: KeyValue,
  ) {}

  get: KeyValue['get'] = (key) => this.of(key).get(key);
  put: KeyValue['put'] = (key, ...rest) => this.of(key).put(key, ...rest);
  putIfAbsent: KeyValue['putIfAbsent'] = (key, ...rest) => this.of(key).putIfAbsent(key, ...rest);
  replace: KeyValue['replace'] = (key, ...rest) => this.of(key).replace(key, ...rest);
  take: KeyValue['take'] = (key) => this.of(key).take(key);
  increment: KeyValue['increment'] = (key, ...rest) => this.of(key).increment(key, ...rest);

  async close(): Promise<void> {
    await Promise.all([this.kept.close(), this.cache.close()]);
  }

  private of(key: string): KeyValue {
    return MAY_BE_LOST.test(key) ? this.cache : this.kept;
  }
}
