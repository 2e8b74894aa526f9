import { type EventStore, StoreUnavailable } from '../stores/ports/event-store.js';
import { type Position, START } from '../kernel/event.js';
import { hashOf } from '../kernel/hash.js';
import { Problem } from '../kernel/problems.js';
import { yieldBatchIfDue } from '../kernel/turn.js';
import { Turns } from '../kernel/turns.js';

/** Batches that are recorded at the same time, and those of one owner. Others wait. */
const MAX_RUNNING = 4;
const MAX_RUNNING_OF_OWNER = 3;
/** Batches that run or wait, and those of one owner. With more, a batch is refused: each holds its items in memory. */
const MAX_OPEN = MAX_RUNNING + 32;
const MAX_OPEN_OF_OWNER = MAX_RUNNING_OF_OWNER + 12;
/**
 * Items that are in flight, divided among the batches that run when one begins. Those that arrive together are committed
 * together.
 */
const MAX_IN_FLIGHT = 64;

/** What became of an item of a batch. */
export type ItemOutcome<T> = T | Problem | StoreUnavailable;

/** The last position at which an item of a batch was recorded; START if none was. */
export function lastRecordedPosition(outcomes: readonly (Error | { position: Position })[]): Position {
  let last: Position = START;
  for (const outcome of outcomes) if (!(outcome instanceof Error) && outcome.position > last) last = outcome.position;
  return last;
}

/** Executes the commands of batches, each as if it were sent alone: what happens to one makes no difference to others. */
export class Batches {
  /** Of each owner. What is held back keeps no other owner's batches waiting. */
  private readonly own = new Turns(Infinity, MAX_RUNNING_OF_OWNER);
  private readonly turns = new Turns(MAX_RUNNING, Infinity);

  constructor(private readonly store: EventStore) {}

  /**
   * @param owner whose batch it is, as `ownerOfTurns` says: owners take turns
   * @param items or why they are refused
   * @param execute one item; what it throws is the outcome, if it is a Problem or the failure of the log
   * @param options.holdBack called first: the batch waits for it
   * @param options.begin called with the items before the first is executed
   * @param options.orderOf items with the same are executed in their order, one after the other
   * @returns the outcome of each item, in order
   * @throws StoreUnavailable if the log took none of them, or too many batches wait: the whole request can be repeated
   */
  async execute<I, T>(
    owner: string,
    items: readonly (I | Problem)[],
    execute: (item: I, index: number) => Promise<T>,
    options: BatchOptions<I> = {},
  ): Promise<ItemOutcome<T>[]> {
    const open = this.own.running + this.own.waiting.size;
    if (open >= MAX_OPEN || this.own.countOf(owner) >= MAX_OPEN_OF_OWNER) {
      throw new StoreUnavailable('too many batches are waiting', { code: 'store_busy' });
    }
    return this.own.run(owner, async () => {
      await options.holdBack?.();
      return this.turns.run(owner, async () => {
        await options.begin?.(items.filter((item): item is I => !(item instanceof Problem)));
        const lines = Math.ceil(MAX_IN_FLIGHT / this.turns.running);
        const outcomes = await new Batch(this.store, owner, items, execute, options.orderOf).run(lines);
        const failure = outcomes.find((outcome) => outcome instanceof StoreUnavailable);
        if (failure && !outcomes.some((outcome) => !(outcome instanceof Error))) throw failure;
        return outcomes;
      });
    });
  }
}

interface BatchOptions<I> {
  holdBack?: () => Promise<void>;
  begin?: (items: readonly I[]) => Promise<void>;
  orderOf?: (item: I) => string | undefined;
}

class Batch<I, T> {
  private readonly outcomes: ItemOutcome<T>[] = [];
  /** By what orders items: the last one so far. */
  private readonly last = new Map<string, Promise<void>>();
  private next = 0;
  /** Why the log takes nothing more: the remaining items are not tried, so that the answer comes soon. */
  private failure: StoreUnavailable | undefined;
  private resting: Promise<void> | undefined;
  /** Its turn has come, and no item has gone on yet. */
  private isResumed = false;
  /** An error that is no outcome. */
  private unexpected: Error | undefined;

  constructor(
    private readonly store: EventStore,
    private readonly owner: string,
    private readonly items: readonly (I | Problem)[],
    private readonly execute: (item: I, index: number) => Promise<T>,
    private readonly orderOf: BatchOptions<I>['orderOf'],
  ) {}

  /** @param lines items that are in flight at most */
  async run(lines: number): Promise<ItemOutcome<T>[]> {
    await Promise.all(Array.from({ length: Math.min(lines, this.items.length) }, () => this.runInTurn()));
    // All have ended before the answer, also if one of them fails.
    if (this.unexpected) throw this.unexpected;
    return this.outcomes;
  }

  private async runInTurn(): Promise<void> {
    while (this.next < this.items.length) {
      const index = this.next++;
      const item = this.items[index]!;
      if (item instanceof Problem) this.outcomes[index] = item;
      else await this.inOrder(item, index);
      await this.rest();
    }
  }

  /**
   * Waits if it is due, once for all items: a batch has one turn among others, however many of its items are in flight. Of
   * those that waited, the first goes on, and the others while the turn is not used up.
   */
  private async rest(): Promise<void> {
    const resume = () => {
      this.resting = undefined;
      this.isResumed = true;
    };
    for (let rest; (rest = this.resting ??= yieldBatchIfDue()?.then(resume));) {
      await rest;
      if (!this.isResumed) continue;
      this.isResumed = false;
      return;
    }
  }

  private inOrder(item: I, index: number): Promise<void> {
    const order = this.orderOf?.(item);
    if (order === undefined) return this.settle(item, index);
    const earlier = this.last.get(order);
    const turn = earlier ? earlier.then(() => this.settle(item, index)) : this.settle(item, index);
    this.last.set(order, turn);
    return turn;
  }

  private async settle(item: I, index: number): Promise<void> {
    try {
      if (this.failure) throw this.failure;
      this.outcomes[index] = await this.admitted(item, index);
    } catch (error) {
      if (error instanceof StoreUnavailable) this.failure ??= error;
      else if (!(error instanceof Problem)) this.unexpected ??= error as Error;
      this.outcomes[index] = error as ItemOutcome<T>;
    }
  }

  private async admitted(item: I, index: number): Promise<T> {
    const { admission } = this.store;
    if (!admission) return this.execute(item, index);
    await admission.enter(this.owner);
    try {
      return await this.execute(item, index);
    } finally {
      admission.leave();
    }
  }
}

/** The Idempotency-Key of a batch stands for one of each item, so that a retry finds what was recorded. */
export function keyOfItem(idempotency: string | null, index: number): string | null {
  return idempotency === null ? null : hashOf(idempotency, String(index));
}
