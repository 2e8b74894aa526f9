import { CLOCK_SKEW_MS } from '../kernel/clock.js';
import { fieldProblem } from '../kernel/problems.js';
import { parseTimestamp } from '../kernel/identifiers.js';

/** The time of a validated `occurred_at` in ms. @throws Problem validation_failed if it is over a minute ahead of `now` */
export function notInTheFuture(text: string, now: number): number {
  const time = parseTimestamp(text)!;
  if (time <= now + CLOCK_SKEW_MS) return time;
  const message = `occurred_at must not be in the future; the server's time is ${new Date(now).toISOString()}`;
  throw fieldProblem('/occurred_at', 'in_the_future', message);
}
