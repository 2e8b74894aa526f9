import { Problem } from '../problems.js';

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

export function unknownCursor(): Problem {
  const message = 'cursor must be the next_cursor of an earlier answer to the same request';
  return new Problem('validation_failed', message, {
    errors: [{ pointer: '?cursor', code: 'unknown_cursor', message }],
  });
}
