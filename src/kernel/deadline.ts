import { endOfTurn } from './turn.js';

/** Waits at most `milliseconds` for a promise, from the end of this turn on. @throws Error when the time is over */
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
      if (!isSettled) timer = setTimeout(() => reject(new Error(message)), milliseconds);
    });
  });
}
