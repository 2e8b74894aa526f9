/** Requests that arrive together are handled in one turn of the event loop and can share work. */

let end: Promise<void> | undefined;

/**
 * Resolves at the end of this turn of the event loop. All callers continue one after the other, so that a client or
 * thread they call is woken once and not once for each of them.
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

/**
 * Shares look-ups of one key between all callers in one turn of the event loop. The look-up runs at the end of the
 * turn, so no caller gets an answer older than its call.
 */
export class SharedLookUps<T> {
  readonly #asked = new Map<string, Promise<T>>();

  of(key: string, look: () => Promise<T>): Promise<T> {
    let answer = this.#asked.get(key);
    if (!answer) {
      answer = endOfTurn().then(() => {
        this.#asked.delete(key);
        return look();
      });
      this.#asked.set(key, answer);
    }
    return answer;
  }
}

/** How long a piece of work may hold the event loop: a few of them in one turn are still below ten milliseconds. */
const BUDGET_MS = 3;

/** When long work began in this turn of the event loop. */
let began: number | undefined;
const waiting: (() => void)[] = [];

/**
 * To be awaited in every loop whose length grows with what is stored: lets everybody else have their turn once long work
 * has had its share of this one. Of several that wait, one goes on in each turn.
 */
export function yieldIfDue(): Promise<void> | undefined {
  return isDue() ? nextTurn() : undefined;
}

/** Has long work had its share of this turn? For loops that ask more often than they can await. */
export function isDue(): boolean {
  const now = performance.now();
  if (began === undefined) {
    began = now;
    setImmediate(() => (began = undefined));
  }
  return now - began >= BUDGET_MS;
}

function nextTurn(): Promise<void> {
  return new Promise((resolve) => {
    if (waiting.push(resolve) === 1) setImmediate(resumeOne);
  });
}

function resumeOne(): void {
  const resume = waiting.shift()!;
  began = performance.now();
  setImmediate(() => (began = undefined));
  if (waiting.length > 0) setImmediate(resumeOne);
  resume();
}
