import { Problem } from './problems.js';

/** Cursors are opaque to clients: base64url JSON of whatever the next page needs. */
export function encodeCursor(state: object): string {
  return Buffer.from(JSON.stringify(state)).toString('base64url');
}

/** @throws Problem validation_failed unless `check` accepts what the cursor holds */
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

function isAfter(state: unknown): state is { after: string } {
  const after = (state as { after?: unknown } | null)?.after;
  return typeof after === 'string' && /^\d{16}$/.test(after);
}

export function unknownCursor(): Problem {
  const message = 'cursor must be the next_cursor of an earlier answer to the same request';
  return new Problem('validation_failed', message, {
    errors: [{ pointer: '?cursor', code: 'unknown_cursor', message }],
  });
}
