import { Problem } from '../kernel/problems.js';
import { parseTimestamp } from '../kernel/identifiers.js';

/** How far a client's clock may be ahead of the server's. */
const CLOCK_SKEW_MS = 60_000;

/** A validated field's time in ms. @throws Problem validation_failed if it is over a minute ahead of `now` */
export function notInTheFuture(field: string, text: string, now: number): number {
  const time = parseTimestamp(text)!;
  if (time <= now + CLOCK_SKEW_MS) return time;
  const message = `${field} must not be in the future; the server's time is ${new Date(now).toISOString()}`;
  throw new Problem('validation_failed', message, {
    errors: [{ pointer: `/${field}`, code: 'in_the_future', message }],
  });
}
