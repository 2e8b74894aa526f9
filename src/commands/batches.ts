import { type EventStore, StoreUnavailable } from '../stores/ports/event-store.js';
import { hashOf } from '../kernel/hash.js';
import { Problem } from '../kernel/problems.js';
import { yieldIfDue } from '../kernel/turn.js';

/** Batches that are recorded at the same time. Others wait. */
const AT_WORK = 4;
/** Batches that may wait. With more, a batch is refused: each holds its items in memory. */
const WAITING = 16;
/** Items of one batch that are in flight. Those that arrive together are committed together. */
const IN_FLIGHT = 64;

/** What became of an item of a batch. */
export type Outcome<T> = T | Problem | StoreUnavailable;

/** Executes the commands of batches, each as if it were sent alone: what happens to one makes no difference to others. */
export class Batches {
  private working = 0;
  private readonly waiting: (() => void)[] = [];

  constructor(private readonly store: EventStore) {}

  /**
   * @param items or why they are refused
   * @param execute one item; what it throws is the outcome, if it is a Problem or the failure of the log
   * @param streamOf items of one stream are executed in their order, one after the other
   * @returns the outcome of each item, in order
   * @throws StoreUnavailable if the log took none of them, so that the whole request can be repeated
   */
  async execute<I, T>(
    items: readonly (I | Problem)[],
    execute: (item: I, index: number) => Promise<T>,
    streamOf: (item: I) => string | undefined = () => undefined,
  ): Promise<Outcome<T>[]> {
    await this.turn();
    try {
      const outcomes = await new Batch(this.store, items, execute, streamOf).run();
      const failure = outcomes.find((outcome) => outcome instanceof StoreUnavailable);
      if (failure && !outcomes.some((outcome) => !(outcome instanceof Error))) throw failure;
      return outcomes;
    } finally {
      this.working--;
      this.waiting.shift()?.();
    }
  }

  private async turn(): Promise<void> {
    if (this.working >= AT_WORK) {
      if (this.waiting.length >= WAITING) {
        throw new StoreUnavailable('too many batches are waiting', { code: 'store_busy' });
      }
      await new Promise<void>((resolve) => this.waiting.push(resolve));
    }
    this.working++;
  }
}

class Batch<I, T> {
  private readonly outcomes: Outcome<T>[] = [];
  /** By stream: the last item so far. */
  private readonly last = new Map<string, Promise<void>>();
  private next = 0;
  /** Why the log takes nothing more: the remaining items are not tried, so that the answer comes soon. */
  private failure: StoreUnavailable | undefined;

  constructor(
    private readonly store: EventStore,
    private readonly items: readonly (I | Problem)[],
    private readonly execute: (item: I, index: number) => Promise<T>,
    private readonly streamOf: (item: I) => string | undefined,
  ) {}

  async run(): Promise<Outcome<T>[]> {
    const lines = Array.from({ length: Math.min(IN_FLIGHT, this.items.length) }, () => this.runInTurn());
    // All have ended before the answer, also if one of them fails.
    const ended = await Promise.allSettled(lines);
    const failed = ended.find(({ status }) => status === 'rejected') as PromiseRejectedResult | undefined;
    if (failed) throw failed.reason;
    return this.outcomes;
  }

  private async runInTurn(): Promise<void> {
    while (this.next < this.items.length) {
      const index = this.next++;
      const item = this.items[index]!;
      if (item instanceof Problem) {
        this.outcomes[index] = item;
        continue;
      }
      const stream = this.streamOf(item);
      if (stream === undefined) await this.one(index, item);
      else {
        const turn = (this.last.get(stream) ?? Promise.resolve()).then(() => this.one(index, item));
        this.last.set(stream, turn);
        await turn;
      }
      await yieldIfDue();
    }
  }

  private async one(index: number, item: I): Promise<void> {
    if (this.failure) {
      this.outcomes[index] = this.failure;
      return;
    }
    const { admission } = this.store;
    try {
      await admission?.enter();
      try {
        this.outcomes[index] = await this.execute(item, index);
      } finally {
        admission?.leave();
      }
    } catch (error) {
      if (error instanceof StoreUnavailable) this.failure ??= error;
      else if (!(error instanceof Problem)) throw error;
      this.outcomes[index] = error;
    }
  }
}

/** The Idempotency-Key of a batch stands for one of each item, so that a retry finds what was recorded. */
export function keyOfItem(idempotency: string | null, index: number): string | null {
  return idempotency === null ? null : hashOf(idempotency, String(index));
}
