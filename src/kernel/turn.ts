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

/**
 * Look-ups that all who ask within one turn of the event loop share. Each is made at the turn's end, after the last of
 * them has asked: nobody gets an answer that is older than the question.
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
