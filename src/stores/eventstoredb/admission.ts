import type { Admission, StoreUnavailable } from '../ports/event-store.js';

/** How long a request waits to be admitted, ms. */
const WAIT_MS = 2_000;
/** More requests are refused at once. */
const MAX_WAITING = 4_096;

/** Admits requests that append, in the order in which they came, as long as the log can take what they append. */
export class AppendAdmission implements Admission {
  #admitted = 0;
  readonly #waiting = new Set<() => void>();

  /**
   * @param limit how many requests may be admitted at a time
   * @param refusal the reason that a request is told
   */
  constructor(
    private readonly limit: () => number,
    private readonly refusal: () => StoreUnavailable,
  ) {}

  get waiting(): number {
    return this.#waiting.size;
  }

  refuseIfFull(): void {
    if (this.#waiting.size >= MAX_WAITING) throw this.refusal();
  }

  enter(): Promise<void> | undefined {
    if (this.#waiting.size === 0 && this.#admitted < this.limit()) {
      this.#admitted++;
      return undefined;
    }
    this.refuseIfFull();
    return new Promise((resolve, reject) => {
      const admit = () => {
        clearTimeout(timer);
        this.#waiting.delete(admit);
        this.#admitted++;
        resolve();
      };
      const timer = setTimeout(() => {
        this.#waiting.delete(admit);
        reject(this.refusal());
      }, WAIT_MS);
      this.#waiting.add(admit);
    });
  }

  leave(): void {
    this.#admitted--;
    for (const admit of this.#waiting) {
      if (this.#admitted >= this.limit()) return;
      admit();
    }
  }
}
