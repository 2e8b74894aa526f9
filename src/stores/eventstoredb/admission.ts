import { OwnerQueues } from '../../kernel/turns.js';
import type { Admission, StoreUnavailable } from '../ports/event-store.js';

/** How long a request waits to be admitted, ms. */
const WAIT_MS = 2_000;
/** More requests are refused at once, as are more than half as many of one owner. */
const MAX_WAITING = 4_096;

/** Admits requests that append as long as the log can take what they append: owners take turns, each in its own order. */
export class AppendAdmission implements Admission {
  private admitted = 0;
  private readonly queue = new OwnerQueues<string, () => void>();

  /** @param limit how many requests may be admitted at a time. @param refusal the reason that a request is told */
  constructor(
    private readonly limit: () => number,
    private readonly refusal: () => StoreUnavailable,
  ) {}

  get waiting(): number {
    return this.queue.size;
  }

  refuseIfFull(owner: string): void {
    if (this.queue.size >= MAX_WAITING || this.queue.sizeOf(owner) >= MAX_WAITING / 2) throw this.refusal();
  }

  enter(owner: string): Promise<void> | undefined {
    if (this.queue.size === 0 && this.admitted < this.limit()) {
      this.admitted++;
      return undefined;
    }
    this.refuseIfFull(owner);
    return new Promise((resolve, reject) => {
      const admit = () => {
        clearTimeout(timer);
        this.admitted++;
        resolve();
      };
      const timer = setTimeout(() => {
        this.queue.remove(owner, admit);
        reject(this.refusal());
      }, WAIT_MS);
      this.queue.add(owner, admit);
    });
  }

  leave(): void {
    this.admitted--;
    while (this.queue.size > 0 && this.admitted < this.limit()) this.queue.next()!();
  }
}
