import { createHmac, timingSafeEqual } from 'node:crypto';
import { isObject } from './json.js';
import { POSITION_SORT } from './positions.js';
import { type Problem, fieldProblem } from './problems.js';

/**
 * Signs the cursors of answers and accepts only signed ones, so that the content of a cursor can be trusted. The HTTP
 * layer signs and checks the cursors of every list; handlers get only their content.
 */
export class Cursors {
  /** @param secret shared by all processes of the service */
  constructor(private readonly secret: () => Uint8Array) {}

  /** @param list the list, as the path of the request: a cursor is valid for one list only */
  seal(state: string, list: string): string {
    return `${state}.${this.mac(state, list)}`;
  }

  /**
   * @param isEventId whether it came as the id of the last event of a stream
   * @throws Problem validation_failed unless `seal` made it for this list
   */
  open(cursor: string, list: string, isEventId = false): string {
    const dot = cursor.lastIndexOf('.');
    const state = cursor.slice(0, Math.max(0, dot));
    const [given, expected] = [cursor.slice(dot + 1), this.mac(state, list)].map((mac) => Buffer.from(mac));
    if (given!.length !== expected!.length || !timingSafeEqual(given!, expected!)) throw unknownCursor(isEventId);
    return state;
  }

  /** 128 bits. */
  private mac(state: string, list: string): string {
    const mac = createHmac('sha256', this.secret())
      .update(JSON.stringify([list, state]))
      .digest();
    return mac.toString('base64url', 0, 16);
  }
}

/** Cursors are opaque to clients: base64url JSON of whatever the next page needs. */
export function encodeCursor(state: object): string {
  return Buffer.from(JSON.stringify(state)).toString('base64url');
}

/** @throws Problem validation_failed unless `check` accepts the content of the cursor */
export function decodeCursor<T>(cursor: string, check: (state: unknown) => state is T): T {
  let state: unknown;
  try {
    state = JSON.parse(Buffer.from(cursor, 'base64url').toString());
  } catch {
    throw unknownCursor();
  }
  if (!check(state)) throw unknownCursor();
  return state;
}

/** The cursor of a page of rows kept in log order: what follows the row with this sort key. */
export function cursorAfter(sort: string): string {
  return encodeCursor({ after: sort });
}

/** @throws Problem validation_failed unless `cursorAfter` made it */
export function rowAfter(cursor: string | undefined): string | undefined {
  return cursor === undefined ? undefined : decodeCursor(cursor, isAfter).after;
}

const isAfter = (state: unknown): state is { after: string } =>
  isObject(state) && typeof state['after'] === 'string' && POSITION_SORT.test(state['after']);

/** @param isEventId whether it came as the id of the last event of a stream (Last-Event-ID) */
export function unknownCursor(isEventId = false): Problem {
  const [pointer, message] = isEventId
    ? ['Last-Event-ID', 'Last-Event-ID must be the id of an event of this stream']
    : ['?cursor', 'cursor must be the next_cursor of an earlier answer to the same request'];
  return fieldProblem(pointer, 'unknown_cursor', message);
}
