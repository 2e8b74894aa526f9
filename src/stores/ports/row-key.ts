import { takesMoreThan } from '../../kernel/hash.js';
import type { RowKey } from './read-models.js';

/** LMDB's limit, which every adapter enforces. */
const MAX_KEY_BYTES = 1_978;

/**
 * A row's address as one text whose byte order is that of view, key and sort: view, NUL, key and, for a row of a range,
 * NUL, sort. For a row that a store has accepted.
 */
export function addressOf({ view, key, sort }: RowKey): string {
  return sort === undefined ? `${view}\0${key}` : `${view}\0${key}\0${sort}`;
}

/** The address of a row that may be stored. @throws TypeError for a NUL in a part, RangeError for an address over 1,978 bytes */
export function rowAddress(row: RowKey): string {
  const { view, key, sort } = row;
  const text = addressOf(row);
  if (takesMoreThan(MAX_KEY_BYTES, text)) {
    throw new RangeError(`a row key of ${view} is longer than ${MAX_KEY_BYTES} bytes`);
  }
  if (view.includes('\0') || key.includes('\0') || sort?.includes('\0')) {
    throw new TypeError('a row key cannot contain NUL');
  }
  return text;
}

/** The row of an address. */
export function keyOf(address: string): RowKey {
  const [view, key, sort] = address.split('\0') as [string, string, string | undefined];
  return sort === undefined ? { view, key } : { view, key, sort };
}

/** @throws TypeError if it is not a JSON value */
export function rowContent(value: unknown): string {
  const text = JSON.stringify(value) as string | undefined;
  if (text === undefined) throw new TypeError('a row needs a JSON value');
  return text;
}
