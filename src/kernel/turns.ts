/** What waits, by owner. Owners are served in turn, and each in its own order. */
export class OwnerQueues<Owner, T> {
  /** The owner that was served last comes last. */
  private readonly queues = new Map<Owner, Set<T>>();
  /** How many wait. */
  size = 0;

  sizeOf(owner: Owner): number {
    return this.queues.get(owner)?.size ?? 0;
  }

  /** @param item not in it already */
  add(owner: Owner, item: T): void {
    const own = this.queues.get(owner);
    if (own) own.add(item);
    else this.queues.set(owner, new Set([item]));
    this.size++;
  }

  remove(owner: Owner, item: T): void {
    const own = this.queues.get(owner);
    if (!own?.delete(item)) return;
    this.size--;
    if (own.size === 0) this.queues.delete(owner);
  }

  /** Takes what is next out of it. @param accepts asked for one owner after the other, until it accepts one */
  next(accepts: (owner: Owner) => boolean = () => true): T | undefined {
    for (const [owner, own] of this.queues) {
      if (!accepts(owner)) continue;
      const [item] = own;
      this.queues.delete(owner);
      own.delete(item!);
      if (own.size > 0) this.queues.set(owner, own);
      this.size--;
      return item;
    }
    return undefined;
  }
}

/** Lets work run at the same time up to a limit. Owners take turns, so that none keeps the others waiting. */
export class Turns<Owner = string> {
  /** How much work runs. */
  running = 0;
  private readonly runningOf = new Map<Owner, number>();
  readonly waiting = new OwnerQueues<Owner, () => void>();

  /** @param most work that runs at the same time @param mostOfOne of one owner */
  constructor(
    private readonly most: number,
    private readonly mostOfOne: number,
  ) {}

  /** How much work of an owner runs or waits. */
  countOf(owner: Owner): number {
    return (this.runningOf.get(owner) ?? 0) + this.waiting.sizeOf(owner);
  }

  /** Runs work of an owner, at once or in its turn. */
  async run<T>(owner: Owner, work: () => Promise<T>): Promise<T> {
    if (!this.begin(owner)) await new Promise<void>((resolve) => this.waiting.add(owner, resolve));
    try {
      return await work();
    } finally {
      this.end(owner);
    }
  }

  private begin(owner: Owner): boolean {
    const own = this.runningOf.get(owner) ?? 0;
    if (this.running >= this.most || own >= this.mostOfOne) return false;
    this.running++;
    this.runningOf.set(owner, own + 1);
    return true;
  }

  private end(owner: Owner): void {
    this.running--;
    const own = this.runningOf.get(owner)! - 1;
    if (own > 0) this.runningOf.set(owner, own);
    else this.runningOf.delete(owner);
    this.waiting.next((next) => this.begin(next))?.();
  }
}
