import { hash, randomFillSync } from 'node:crypto';
import { takesMoreThan, uuidOf } from '../../kernel/hash.js';
import type { NewEvent } from '../../kernel/event.js';
import { AppendRefused } from './event-store.js';
import { isExact, isObject } from '../../kernel/json.js';

/**
 * The one encoder of events, for every store. It accepts only values that JSON represents exactly. EventStoreDB
 * silently turns NaN into null and rounds large integers; here such an append is refused before it reaches a store.
 */

/** Bytes of UTF-8 that one append may take; EventStoreDB refuses more than 1 MiB including its own envelope. */
export const MAX_APPEND_BYTES = 900_000;
/** Bytes of UTF-8 in a stream's name: LMDB refuses keys over 1,978 bytes, also on reading. */
const MAX_STREAM_BYTES = 512;
/** Deeper values are refused: a cyclic one has no end, and a recursive reader of a deep one would overflow. */
const MAX_DEPTH = 64;

/** UUIDv5 (RFC 9562 §5.5) of the URL namespace and `urn:credence:event`. Never changes: a retry makes the same ids. */
const EVENT_ID_NAMESPACE = '2dda090d-2aaa-5c87-9282-54c306beff68';
/** Its bytes, followed by space for a name: an escaped stream name takes at most 3,072 bytes. */
const hashed = Buffer.alloc(4_096);
const NAMESPACE_BYTES = hashed.write(EVENT_ID_NAMESPACE.replaceAll('-', ''), 'hex');

/**
 * The id of an event: UUIDv5 of the JSON array [stream, body hash, ordinal], or [stream, body hash, ordinal, decided].
 * @param ordinal the event's index in its append, from 0
 * @param decided see `Fact.decided`
 */
export function eventId(stream: string, bodyHash: string, ordinal: number, decided?: string): string {
  const more = decided === undefined ? '' : `,${JSON.stringify(decided)}`;
  const name = `[${JSON.stringify(stream)},${JSON.stringify(bodyHash)},${ordinal}${more}]`;
  const end = NAMESPACE_BYTES + hashed.write(name, NAMESPACE_BYTES);
  return uuidOf(hash('sha1', hashed.subarray(0, end)), 5);
}

const SALT_BYTES = 16;
/** Random bytes for salts: taken together, since a call takes longer than the bytes. */
const randomBytes = Buffer.alloc(256 * SALT_BYTES);
let usedBytes = randomBytes.length;

/** The salt of an event (docs/decisions/0034): 16 random bytes, hex. */
export function newSalt(): string {
  if (usedBytes === randomBytes.length) {
    randomFillSync(randomBytes);
    usedBytes = 0;
  }
  return randomBytes.toString('hex', usedBytes, (usedBytes += SALT_BYTES));
}

/**
 * Checks a whole append.
 * @returns for each event, how many UTF-16 code units its JSON text has at most, escapes not counted
 * @throws AppendRefused naming the path of what is wrong
 */
export function checkAppend(stream: string, events: readonly NewEvent[]): number[] {
  if (stream === '' || stream.includes('\0') || !stream.isWellFormed()) {
    throw new AppendRefused('a stream name must be a non-empty, well-formed string without NUL');
  }
  if (isTooLong(stream)) {
    throw new AppendRefused(`the stream name is longer than ${MAX_STREAM_BYTES} bytes`);
  }
  if (events.length === 0) throw new AppendRefused('an append needs at least one event');

  let units = 0;
  const sizes = events.map((event, index) => {
    const size = checkEvent(event, `events[${index}]`);
    if (event.metadata.index !== index || event.metadata.size !== events.length) {
      throw new AppendRefused(`events[${index}].metadata must have index ${index} and size ${events.length}`);
    }
    units += size;
    return size;
  });
  // Counted only if it may exceed the limit.
  if (units <= MAX_APPEND_BYTES / MAX_BYTES_OF_UNIT) return sizes;
  const texts = events.map(({ id, type, data, metadata }) => JSON.stringify({ id, type, data, metadata }));
  const bytes = texts.reduce((sum, text) => sum + Buffer.byteLength(text), 0);
  if (bytes > MAX_APPEND_BYTES) {
    throw new AppendRefused(`the append takes ${bytes} bytes, more than ${MAX_APPEND_BYTES}`);
  }
  return sizes;
}

/** Whether a name is longer than any stream name may be. */
export function isTooLong(stream: string): boolean {
  return takesMoreThan(MAX_STREAM_BYTES, stream);
}

function checkEvent({ id, type, data, metadata }: NewEvent, path: string): number {
  if (typeof id !== 'string' || id === '') throw new AppendRefused(`${path}.id must be a non-empty string`);
  if (typeof type !== 'string' || type === '') throw new AppendRefused(`${path}.type must be a non-empty string`);
  if (!isObject(data)) throw new AppendRefused(`${path}.data must be an object`);
  if (!isObject(metadata)) throw new AppendRefused(`${path}.metadata must be an object`);
  unitsSeen = 0;
  const found = flaw({ id, type, data, metadata }, 0);
  if (found) throw new AppendRefused(`${path}${found}`);
  return unitsSeen;
}

/** Bytes that one UTF-16 code unit can take in JSON text: a control character, escaped. */
const MAX_BYTES_OF_UNIT = 6;
/** Code units of the longest number, and of what may surround a value: quotes, braces, a colon, a comma. */
const NUMBER_UNITS = 24;
const MORE_UNITS = 5;
/** Code units that the values checked so far take at most in JSON text, escapes not counted. */
let unitsSeen = 0;

/** What is wrong with a value, as `<path> is …`, built only then; undefined if nothing is. Counts its code units. */
function flaw(value: unknown, depth: number): string | undefined {
  unitsSeen += MORE_UNITS;
  switch (typeof value) {
    case 'string':
      unitsSeen += value.length;
      return value.isWellFormed() ? undefined : ' contains ill-formed Unicode';
    case 'boolean':
      return undefined;
    case 'number':
      unitsSeen += NUMBER_UNITS;
      if (isExact(value)) return undefined;
      if (Object.is(value, -0)) return ' is -0';
      return Number.isFinite(value) ? ' is an integer beyond 2^53 - 1' : ` is ${value}`;
    case 'object':
      return value === null ? undefined : objectFlaw(value, depth);
    case 'undefined':
      return ' is undefined';
    default:
      return ` is a ${typeof value}`;
  }
}

function objectFlaw(value: object, depth: number): string | undefined {
  if (depth > MAX_DEPTH) return ` is cyclic or nested deeper than ${MAX_DEPTH}`;
  if (Array.isArray(value)) {
    for (let i = 0; i < value.length; i++) {
      const found = flaw(value[i], depth + 1);
      if (found) return `[${i}]${found}`;
    }
    return undefined;
  }
  const prototype: unknown = Object.getPrototypeOf(value);
  // Plain: Object.prototype (of any realm) or none. A Date, Map or class instance has a longer chain.
  if (prototype !== null && Object.getPrototypeOf(prototype) !== null) {
    return ` is not a plain object (${value.constructor?.name ?? 'unknown class'})`;
  }
  if (Object.getOwnPropertySymbols(value).length > 0) return ' has a symbol as a key';
  for (const key in value) {
    unitsSeen += key.length + MORE_UNITS;
    if (!key.isWellFormed()) return ' has a key with ill-formed Unicode';
    const found = flaw((value as Record<string, unknown>)[key], depth + 1);
    if (found) return `.${key}${found}`;
  }
  return undefined;
}
