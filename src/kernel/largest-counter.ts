import { Counter, type Registry } from 'prom-client';
import { BoundedMap } from './bounded-map.js';

/** Names without a series of their own whose numbers are known. */
const KNOWN = 10_000;

/** What is counted of one name: in all, and since it has a series of its own. */
interface Count {
  total: number;
  series: number;
}

/** One kind of what is counted. */
class Ranks {
  readonly named = new Map<string, Count>();
  other: number | undefined;
  private readonly totals = new BoundedMap<string, number>(KNOWN);

  constructor(private readonly most: number) {}

  add(name: string, by: number): void {
    const count = this.named.get(name);
    if (count) {
      count.total += by;
      count.series += by;
      return;
    }
    const total = (this.totals.get(name) ?? 0) + by;
    if (this.named.size >= this.most) {
      const [last, { total: least }] = [...this.named].reduce((a, b) => (b[1].total < a[1].total ? b : a));
      if (total <= least) {
        this.totals.set(name, total);
        this.other = (this.other ?? 0) + by;
        return;
      }
      this.named.delete(last);
      this.totals.set(last, least);
      this.totals.delete(name);
    }
    this.named.set(name, { total, series: by });
  }
}

/**
 * A counter by a name that callers choose, such as a platform, and by what was counted. For each of these, the names with
 * most have a series of their own, and all others one together, `other`. A name has its series from the time on at which
 * it is one of those with most, so that no series falls.
 */
export class LargestCounter<What extends string> {
  /** What was counted in each of the last 60 minutes, by minutes since the epoch. Older ones may be left. */
  readonly minutes = new Map<number, Map<What, number>>();
  private readonly ranks = new Map<What, Ranks>();
  private readonly most: number;

  /** @param options `most`: names with a series of their own */
  constructor(
    registry: Registry | undefined,
    options: { name: string; help: string; labels: readonly [ofName: string, ofWhat: string]; most?: number },
  ) {
    const { name, help, labels, most = 50 } = options;
    this.most = most;
    const { ranks } = this;
    const counter = new Counter({
      name,
      help,
      labelNames: [...labels],
      registers: [],
      // Only here: an increment of a counter with labels takes longer than all that is counted here of a relay.
      collect() {
        this.reset();
        for (const [what, { named, other }] of ranks) {
          for (const [of, { series }] of named) this.inc({ [labels[0]]: of, [labels[1]]: what }, series);
          if (other !== undefined) this.inc({ [labels[0]]: 'other', [labels[1]]: what }, other);
        }
      },
    });
    registry?.registerMetric(Object.assign(counter, { minutes: this.minutes }));
  }

  inc(name: string, what: What, by = 1): void {
    let ranks = this.ranks.get(what);
    if (!ranks) this.ranks.set(what, (ranks = new Ranks(this.most)));
    ranks.add(name, by);
    const minute = Math.floor(Date.now() / 60_000);
    let counts = this.minutes.get(minute);
    if (!counts) {
      this.minutes.set(minute, (counts = new Map()));
      for (const earlier of this.minutes.keys()) if (earlier <= minute - 60) this.minutes.delete(earlier);
    }
    counts.set(what, (counts.get(what) ?? 0) + by);
  }
}
