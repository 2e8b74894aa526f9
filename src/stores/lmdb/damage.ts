import { failureOf } from '../../kernel/failures.js';
import { StoreUnavailable } from '../ports/event-store.js';

/** The library's errors for an invalid page, or one with another number than requested. */
const DAMAGE_CODES = new Set([-30796, -30797, -30793]);

export function isDamage(error: unknown): boolean {
  return DAMAGE_CODES.has((error as { code?: number } | undefined)?.code ?? 0);
}

/** A failure for which the data is not to blame, with its place and a remedy; any other error as it is. */
export function orUnavailable(place: string, error: unknown): unknown {
  const failure = failureOf(error);
  return failure === undefined ? error : new StoreUnavailable(`${place}: ${failure}`);
}
