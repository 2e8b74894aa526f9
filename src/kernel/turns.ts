/** Lets work run at the same time up to a limit. Owners take turns, so that none keeps the others waiting. */
export class Turns<Owner = string> {
  private running = 0;
  private waits = 0;
  private readonly runningOf = new Map<Owner, number>();
  /** By owner. The owner that was served last comes last. */
  private readonly waiting = new Map<Owner, (() => void)[]>();

  /**
   * @param most work that runs at the same time
   * @param mostOfOne of one owner
   */
  constructor(
    private readonly most: number,
    private readonly mostOfOne: number,
  ) {}

  /** How much work waits. */
  get waitingCount(): number {
    return this.waits;
  }

  /** How much work of an owner waits. */
  waitingOf(owner: Owner): number {
    return this.waiting.get(owner)?.length ?? 0;
  }

  /** How much work of an owner runs or waits. */
  countOf(owner: Owner): number {
    return (this.runningOf.get(owner) ?? 0) + this.waitingOf(owner);
  }

  /** Runs work of an owner, at once or in its turn. */
  async run<T>(owner: Owner, work: () => Promise<T>): Promise<T> {
    if (!this.begin(owner)) {
      const own = this.waiting.get(owner) ?? [];
      this.waiting.set(owner, own);
      this.waits++;
      await new Promise<void>((resolve) => own.push(resolve));
    }
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
    for (const [next, works] of this.waiting) {
      if (!this.begin(next)) continue;
      const start = works.shift()!;
      this.waits--;
      this.waiting.delete(next);
      if (works.length > 0) this.waiting.set(next, works);
      return start();
    }
  }
}
