import type { Admission, StoreUnavailable } from '../ports/event-store.js';

/** How long a request waits to be admitted, ms. */
const WAIT_MS = 2_000;
/** More requests are refused at once, as are more than half as many of one owner. */
const MAX_WAITING = 4_096;

/** Admits requests that append as long as the log can take what they append: owners take turns, each in its own order. */
export class AppendAdmission implements Admission {
  private admitted = 0;
  waiting = 0;
  /** By owner. The one that was served last comes last. */
  private readonly queues = new Map<string, Set<() => void>>();

  /**
   * @param limit how many requests may be admitted at a time
   * @param refusal the reason that a request is told
   */
  constructor(
    private readonly limit: () => number,
    private readonly refusal: () => StoreUnavailable,
  ) {}

  refuseIfFull(owner: string): void {
    const own = this.queues.get(owner)?.size ?? 0;
    if (this.waiting >= MAX_WAITING || own >= MAX_WAITING / 2) throw this.refusal();
  }

  enter(owner: string): Promise<void> | undefined {
    if (this.waiting === 0 && this.admitted < this.limit()) {
      this.admitted++;
      return undefined;
    }
    this.refuseIfFull(owner);
    const queue = this.queues.get(owner) ?? new Set();
    this.queues.set(owner, queue);
    this.waiting++;
    return new Promise((resolve, reject) => {
      const end = (settle: () => void) => {
        clearTimeout(timer);
        queue.delete(admit);
        this.waiting--;
        if (queue.size === 0) this.queues.delete(owner);
        settle();
      };
      const admit = () =>
        end(() => {
          this.admitted++;
          resolve();
        });
      const timer = setTimeout(() => end(() => reject(this.refusal())), WAIT_MS);
      queue.add(admit);
    });
  }

  leave(): void {
    this.admitted--;
    while (this.waiting > 0 && this.admitted < this.limit()) {
      const [owner, queue] = this.queues.entries().next().value!;
      this.queues.delete(owner);
      if (queue.size > 1) this.queues.set(owner, queue);
      queue.values().next().value!();
    }
  }
}
