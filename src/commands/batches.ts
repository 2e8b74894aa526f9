import { type EventStore, StoreUnavailable } from '../stores/ports/event-store.js';
import { type Position, START } from '../kernel/event.js';
import { hashOf } from '../kernel/hash.js';
import { Problem } from '../kernel/problems.js';
import { yieldIfDue } from '../kernel/turn.js';

/** Batches that are recorded at the same time. Others wait. */
const MAX_RUNNING = 4;
/** Batches that may wait. With more, a batch is refused: each holds its items in memory. */
const MAX_WAITING = 16;
/** Items of one batch that are in flight. Those that arrive together are committed together. */
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
  private running = 0;
  private readonly waiting: (() => void)[] = [];

  constructor(private readonly store: EventStore) {}

  /**
   * @param items or why they are refused
   * @param execute one item; what it throws is the outcome, if it is a Problem or the failure of the log
   * @returns the outcome of each item, in order
   * @throws StoreUnavailable if the log took none of them, so that the whole request can be repeated
   */
  async execute<I, T>(
    items: readonly (I | Problem)[],
    execute: (item: I, index: number) => Promise<T>,
  ): Promise<ItemOutcome<T>[]> {
    return this.run(new Batch(this.store, items, async ([item], [index]) => [await execute(item!, index!)], 1));
  }

  /**
   * As `execute`, for items that can be executed together at less cost.
   * @param execute some items; an error is the outcome of its item, as in `execute`
   * @param streamOf items of one stream are executed in their order, one after the other
   */
  async executeTogether<I, T>(
    items: readonly (I | Problem)[],
    execute: ExecuteEach<I, T>,
    streamOf: (item: I) => string | undefined,
  ): Promise<ItemOutcome<T>[]> {
    // A log with admission counts each append: a group would hold one place for many.
    const size = this.store.admission ? 1 : MAX_IN_FLIGHT;
    return this.run(new Batch(this.store, items, execute, size, streamOf));
  }

  private async run<I, T>(batch: Batch<I, T>): Promise<ItemOutcome<T>[]> {
    await this.turn();
    try {
      const outcomes = await batch.run();
      const failure = outcomes.find((outcome) => outcome instanceof StoreUnavailable);
      if (failure && !outcomes.some((outcome) => !(outcome instanceof Error))) throw failure;
      return outcomes;
    } finally {
      this.running--;
      this.waiting.shift()?.();
    }
  }

  private async turn(): Promise<void> {
    if (this.running >= MAX_RUNNING) {
      if (this.waiting.length >= MAX_WAITING) {
        throw new StoreUnavailable('too many batches are waiting', { code: 'store_busy' });
      }
      await new Promise<void>((resolve) => this.waiting.push(resolve));
    }
    this.running++;
  }
}

/** Executes items of different streams. @returns their outcomes, in order */
type ExecuteEach<I, T> = (items: readonly I[], indexes: readonly number[]) => Promise<readonly (T | Error)[]>;

class Batch<I, T> {
  private readonly outcomes: ItemOutcome<T>[] = [];
  /** By stream: the last item so far. */
  private readonly last = new Map<string, Promise<void>>();
  private next = 0;
  /** Items that are left for the next group, since another of their stream is in this one; in order. */
  private putOff: number[] = [];
  /** Why the log takes nothing more: the remaining items are not tried, so that the answer comes soon. */
  private failure: StoreUnavailable | undefined;
  /** An error that is no outcome. */
  private unexpected: Error | undefined;

  /** @param size how many items are executed together, at most */
  constructor(
    private readonly store: EventStore,
    private readonly items: readonly (I | Problem)[],
    private readonly execute: ExecuteEach<I, T>,
    private readonly size: number,
    private readonly streamOf: (item: I) => string | undefined = () => undefined,
  ) {}

  async run(): Promise<ItemOutcome<T>[]> {
    const lines = Math.min(MAX_IN_FLIGHT, this.items.length) / this.size;
    await Promise.all(Array.from({ length: Math.ceil(lines) }, () => this.runInTurn()));
    // All have ended before the answer, also if one of them fails.
    if (this.unexpected) throw this.unexpected;
    return this.outcomes;
  }

  private async runInTurn(): Promise<void> {
    while (this.next < this.items.length || this.putOff.length > 0) {
      const { indexes, streams } = this.nextGroup();
      const earlier = streams.flatMap((stream) => this.last.get(stream) ?? []);
      const turn = earlier.length === 0 ? this.group(indexes) : Promise.all(earlier).then(() => this.group(indexes));
      for (const stream of streams) this.last.set(stream, turn);
      await turn;
      await yieldIfDue();
    }
  }

  private nextGroup(): { indexes: number[]; streams: string[] } {
    const indexes: number[] = [];
    const streams = new Set<string>();
    const take = (index: number) => {
      const item = this.items[index]!;
      if (item instanceof Problem) {
        this.outcomes[index] = item;
        return;
      }
      const stream = this.streamOf(item);
      if (indexes.length === this.size || (stream !== undefined && streams.has(stream))) {
        this.putOff.push(index);
        return;
      }
      if (stream !== undefined) streams.add(stream);
      indexes.push(index);
    };
    for (const index of this.putOff.splice(0)) take(index);
    while (this.next < this.items.length && indexes.length < this.size) take(this.next++);
    return { indexes, streams: [...streams] };
  }

  private async group(indexes: readonly number[]): Promise<void> {
    if (indexes.length === 0) return;
    const outcomes = this.failure ? indexes.map(() => this.failure!) : await this.admitted(indexes);
    for (const [n, outcome] of outcomes.entries()) {
      if (outcome instanceof StoreUnavailable) this.failure ??= outcome;
      else if (outcome instanceof Error && !(outcome instanceof Problem)) this.unexpected ??= outcome;
      this.outcomes[indexes[n]!] = outcome as ItemOutcome<T>;
    }
  }

  private async admitted(indexes: readonly number[]): Promise<readonly (T | Error)[]> {
    const { admission } = this.store;
    try {
      await admission?.enter();
      try {
        return await this.execute(
          indexes.map((index) => this.items[index] as I),
          indexes,
        );
      } finally {
        admission?.leave();
      }
    } catch (error) {
      return indexes.map(() => error as Error);
    }
  }
}

/** The Idempotency-Key of a batch stands for one of each item, so that a retry finds what was recorded. */
export function keyOfItem(idempotency: string | null, index: number): string | null {
  return idempotency === null ? null : hashOf(idempotency, String(index));
}
