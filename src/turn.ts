/** Requests that arrive together are handled in one turn of the event loop: what they share need be done only once. */

let end: Promise<void> | undefined;

/**
 * Resolves at the end of this turn of the event loop, and lets all who wait for it go on in succession. Whoever they
 * call upon, a client or a thread, is then woken once and not for each of them.
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

/** What was looked up in this turn of the event loop; forgotten at its end. */
export class SeenThisTurn<T> {
  readonly #seen = new Map<string, T>();

  /** What `look` answered when this was first asked. */
  of(key: string, look: () => T): T {
    const seen = this.#seen;
    if (seen.has(key)) return seen.get(key)!;
    if (seen.size === 0) setImmediate(() => seen.clear());
    const answer = look();
    seen.set(key, answer);
    return answer;
  }

  clear(): void {
    this.#seen.clear();
  }
}
