import { setTimeout as sleep } from 'node:timers/promises';

/** Turns of the event loop: requests that arrive together are handled in one turn, and can share work. */

let end: Promise<void> | undefined;

/**
 * Resolves at the end of this turn of the event loop. All callers continue one after the other, so a client or thread
 * that they call is woken once, not once for each of them.
 */
export function endOfTurn(): Promise<void> {
  end ??= new Promise((resolve) => {
    setImmediate(() => {
      end = undefined;
      resolve();
    });
  });
  return end;
}

/** Shares look-ups of a key between the callers in a turn. They run at its end, so no answer is older than its call. */
export class SharedLookUps<T> {
  private readonly asked = new Map<string, Promise<T>>();

  of(key: string, look: () => Promise<T>): Promise<T> {
    let answer = this.asked.get(key);
    if (!answer) {
      answer = endOfTurn().then(() => {
        this.asked.delete(key);
        return look();
      });
      this.asked.set(key, answer);
    }
    return answer;
  }
}

/**
 * Waits at most `milliseconds`, which may be over already, for a promise, from the end of this turn on.
 * @throws Error when the time is over
 */
export function inTime<T>(
  answer: Promise<T>,
  milliseconds: number,
  message = `no answer within ${milliseconds} ms`,
): Promise<T> {
  return new Promise((resolve, reject) => {
    let isSettled = false;
    let timer: NodeJS.Timeout | undefined;
    const settling =
      <V>(settle: (value: V) => void) =>
      (value: V) => {
        isSettled = true;
        clearTimeout(timer);
        settle(value);
      };
    answer.then(settling(resolve), settling(reject));
    // Most answers come in the same turn, and then need no timer.
    void endOfTurn().then(() => {
      // Node 22 and later warn of a negative time.
      if (!isSettled) timer = setTimeout(() => reject(new Error(message)), Math.max(0, milliseconds));
    });
  });
}

/** How long one piece of work may hold the event loop, in ms. A few of them in one turn still stay below ten milliseconds. */
const BUDGET_MS = 2;

/** When long work began in this turn of the event loop. */
let began: number | undefined;
/** Loops that wait for a turn. There may be any number of reads; folds and batches are few. */
const reads: (() => void)[] = [];
const folds: (() => void)[] = [];
const batches: (() => void)[] = [];
/** The kinds of loops, which take turns. The one that was resumed last comes last. */
const kinds = [folds, reads, batches];
/** Whether the loop that was resumed in this turn is a read that has not yielded again. */
let isReadResumed = false;

const yieldingIn = (queue: (() => void)[]) => (): Promise<void> | undefined => (isDue() ? nextTurn(queue) : undefined);
/**
 * Await this in every loop whose length grows with the stored data. It yields to other work once long work has used
 * its share of this turn of the event loop. Of several loops that wait, one continues in each turn.
 */
export const yieldIfDue = yieldingIn(reads);
/** Does what `yieldIfDue` does, for loops that apply events for which a read may wait. Builds wait with the reads. */
export const yieldFoldIfDue = yieldingIn(folds);
/** Does what `yieldIfDue` does, for batches of commands. */
export const yieldBatchIfDue = yieldingIn(batches);

/** Whether long work has used its share of this turn. @param isShort it has just begun and may end soon: twice that */
export function isDue(isShort = false): boolean {
  const now = performance.now();
  if (began === undefined) begin(now);
  return now - began! >= (isShort ? 2 * BUDGET_MS : BUDGET_MS);
}

function begin(now: number): void {
  began = now;
  setImmediate(() => (began = undefined));
}

function nextTurn(queue: (() => void)[]): Promise<void> {
  if (queue === reads && isReadResumed) {
    // Requests that arrive in this turn get a share of their own, instead of waiting behind all long reads.
    isReadResumed = false;
    began = undefined;
  }
  return new Promise((resolve) => {
    queue.push(resolve);
    // What a message or a timer asks of the first `setImmediate` still runs in this turn.
    if (countWaiting() === 1) setImmediate(() => setImmediate(resumeOne));
  });
}

function countWaiting(): number {
  return folds.length + reads.length + batches.length;
}

function resumeOne(): void {
  const queue = kinds.find(({ length }) => length > 0)!;
  kinds.splice(kinds.indexOf(queue), 1);
  kinds.push(queue);
  isReadResumed = queue === reads;
  const resume = queue.shift()!;
  begin(performance.now());
  if (countWaiting() > 0) setImmediate(resumeOne);
  resume();
}

/** The items of one part of `mapInParts`: their reads are made together. */
const PART = 25;

/** Maps items whose number grows with the stored data, several at a time, and yields to other work in between. */
export async function mapInParts<T, R>(items: readonly T[], map: (item: T) => Promise<R>): Promise<R[]> {
  const mapped: R[] = [];
  await yieldIfDue();
  for (let i = 0; i < items.length; i += PART) {
    for (const one of await Promise.all(items.slice(i, i + PART).map(map))) mapped.push(one);
    await yieldIfDue();
  }
  return mapped;
}

/** Waits; ends early, without an error, when the signal aborts. */
export async function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  await sleep(ms, undefined, { signal }).catch(() => undefined);
}
