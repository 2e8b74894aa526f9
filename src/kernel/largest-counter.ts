import { Counter, type Registry } from 'prom-client';
import { BoundedMap } from './bounded-map.js';

/** Names without a series of their own whose numbers are known. */
const KNOWN = 10_000;

/**
 * A counter by a name that callers choose, such as a platform, and by what was counted. For each of these, the names with
 * most have a series of their own, and all others one together, `other`. A name has its series from the time on at which
 * it is one of those with most, so that no series falls.
 */
export class LargestCounter<What extends string> {
  private readonly counter: Counter;
  private readonly ranks = new Map<What, Ranks>();
  private readonly labels: readonly [ofName: string, ofWhat: string];
  private readonly most: number;

  /** @param options `most`: names with a series of their own */
  constructor(
    registry: Registry | undefined,
    options: { name: string; help: string; labels: readonly [string, string]; most?: number },
  ) {
    const { name, help, labels, most = 50 } = options;
    [this.labels, this.most] = [labels, most];
    this.counter = new Counter({ name, help, labelNames: [...labels], registers: registry ? [registry] : [] });
  }

  inc(name: string, what: What, by = 1): void {
    let ranks = this.ranks.get(what);
    if (!ranks) this.ranks.set(what, (ranks = { named: new Map(), others: new BoundedMap(KNOWN) }));
    const { named, others } = ranks;
    const total = (named.get(name) ?? others.get(name) ?? 0) + by;
    if (!named.has(name) && named.size >= this.most) {
      const [last, least] = [...named].reduce((a, b) => (b[1] < a[1] ? b : a));
      if (total <= least) {
        others.set(name, total);
        return this.counter.inc(this.series('other', what), by);
      }
      named.delete(last);
      others.set(last, least);
      this.counter.remove(this.series(last, what));
      others.delete(name);
    }
    named.set(name, total);
    this.counter.inc(this.series(name, what), by);
  }

  private series(name: string, what: What) {
    return { [this.labels[0]]: name, [this.labels[1]]: what };
  }
}

interface Ranks {
  named: Map<string, number>;
  others: BoundedMap<string, number>;
}
