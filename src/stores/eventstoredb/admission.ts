import type { Admission, StoreUnavailable } from '../ports/event-store.js';

/** How long a request waits to be admitted, ms. */
const WAIT_MS = 2_000;
/** More requests are refused at once. */
const MAX_WAITING = 4_096;

/** Admits requests that append, in the order in which they came, as long as the log can take what they append. */
export class AppendAdmission implements Admission {
  private admitted = 0;
  private readonly queue = new Set<() => void>();

  /**
   * @param limit how many requests may be admitted at a time
   * @param refusal the reason that a request is told
   */
  constructor(
    private readonly limit: () => number,
    private readonly refusal: () => StoreUnavailable,
  ) {}

  get waiting(): number {
    return this.queue.size;
  }

  refuseIfFull(): void {
    if (this.queue.size >= MAX_WAITING) throw this.refusal();
  }

  enter(): Promise<void> | undefined {
    if (this.queue.size === 0 && this.admitted < this.limit()) {
      this.admitted++;
      return undefined;
    }
    this.refuseIfFull();
    return new Promise((resolve, reject) => {
      const admit = () => {
        clearTimeout(timer);
        this.queue.delete(admit);
        this.admitted++;
        resolve();
      };
      const timer = setTimeout(() => {
        this.queue.delete(admit);
        reject(this.refusal());
      }, WAIT_MS);
      this.queue.add(admit);
    });
  }

  leave(): void {
    this.admitted--;
    for (const admit of this.queue) {
      if (this.admitted >= this.limit()) return;
      admit();
    }
  }
}
