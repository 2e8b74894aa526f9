import type { LensSelector } from '../lenses/lenses.js';
import type { CoordinatesQuery } from './disc.dto.js';
import { parseTimestamp } from '../../kernel/identifiers.js';
import { type Problem, fieldProblem } from '../../kernel/problems.js';

/**
 * Selects the state of an identity. Without any: all applied events, as of the end of the current UTC hour or, if that is
 * later, of the latest time that a server has given to an event.
 */
export interface Coordinates extends LensSelector {
  /** ms: only events that occurred by then. */
  as_of?: number;
  /** Refuses `as_of`, which is after the current hour, unless a server has given an event that time or a later one. */
  ahead?: Problem;
  /** ms: the default of `as_of`, instead of the end of the current hour. */
  now?: number;
  /** ms: only events that were recorded by then. */
  known_at?: number;
  /** `<log id>.<decimal>`: only events up to and including this position. */
  as_of_position?: string;
}

const HOUR_MS = 3_600_000;

/** The last millisecond of a time's UTC hour: the default `as_of`, so that an answer does not change for an hour. */
export function endOfHour(ms: number): number {
  return ms - (ms % HOUR_MS) + HOUR_MS - 1;
}

/**
 * @param at prefix of the pointers in errors: `?` for query parameters, `/` for a body
 * @param organization of the request's key
 */
export function toCoordinates(
  parameters: CoordinatesQuery,
  now: number,
  at: '?' | '/',
  organization: string | null = null,
): Coordinates {
  const { as_of_position, vp, model } = parameters;
  if (parameters.known_at !== undefined && as_of_position !== undefined) {
    const message = 'known_at and as_of_position cannot be combined: send only one of them';
    throw fieldProblem(`${at}as_of_position`, 'exclusive', message);
  }
  const as_of = timeOf(parameters.as_of);
  const known_at = timeOf(parameters.known_at);
  if (isLater(known_at)) throw ahead('known_at');
  return { as_of, ...(isLater(as_of) && { ahead: ahead('as_of') }), known_at, as_of_position, vp, model, organization };

  function isLater(ms: number | undefined): boolean {
    return ms !== undefined && ms > endOfHour(now);
  }

  function ahead(name: string): Problem {
    const time = new Date(now).toISOString();
    const message = `${name} must not be after the current hour; the server's time is ${time}`;
    return fieldProblem(at + name, 'in_the_future', message);
  }
}

/** @throws Problem validation_failed if the range is empty */
export function toRange({ from, to }: { from?: string; to?: string }): { from?: number; to?: number } {
  const range = { from: timeOf(from), to: timeOf(to) };
  if (range.from !== undefined && range.to !== undefined && range.from > range.to) {
    throw fieldProblem('?from', 'empty_range', 'from must not be after to');
  }
  return range;
}

function timeOf(value: string | undefined): number | undefined {
  return value === undefined ? undefined : parseTimestamp(value)!;
}
