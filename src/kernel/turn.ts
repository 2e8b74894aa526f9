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
