import { hash } from 'node:crypto';
import { isWellFormed, takesMoreThan, uuidOf } from '../../kernel/hash.js';
import type { NewEvent } from '../../kernel/event.js';
import { AppendRefused } from './event-store.js';
import { isObject } from '../../kernel/json.js';

/**
 * The one encoder of events, for every store. It accepts only values that JSON represents exactly. EventStoreDB
 * silently turns NaN into null and rounds large integers; here such an append is refused before it reaches a store.
 */

/** Bytes of UTF-8 that one append may take; EventStoreDB refuses more than 1 MiB including its own envelope. */
export const MAX_APPEND_BYTES = 900_000;
/** Bytes of UTF-8 in a stream's name: LMDB refuses keys over 1,978 bytes, also on reading. */
export const MAX_STREAM_BYTES = 512;
/** Deeper values are refused: a cyclic one has no end, and a recursive reader of a deep one would overflow. */
const MAX_DEPTH = 64;

/**
 * Namespace of event ids: UUIDv5 (RFC 9562 §5.5) of the URL namespace and `urn:credence:event`. It must never change,
 * since a retry must compute the same ids.
 */
const EVENT_ID_NAMESPACE = '2dda090d-2aaa-5c87-9282-54c306beff68';
/** Its bytes, followed by space for a name: an escaped stream name takes at most 3,072 bytes. */
const hashed = Buffer.alloc(4_096);
const NAMESPACE_BYTES = hashed.write(EVENT_ID_NAMESPACE.replaceAll('-', ''), 'hex');

/**
 * The id of an event: UUIDv5 of the JSON array [stream, body hash, ordinal].
 * @param ordinal the event's index in its append, from 0
 */
export function eventId(stream: string, bodyHash: string, ordinal: number): string {
  const name = `[${JSON.stringify(stream)},${JSON.stringify(bodyHash)},${ordinal}]`;
  const end = NAMESPACE_BYTES + hashed.write(name, NAMESPACE_BYTES);
  return uuidOf(hash('sha1', hashed.subarray(0, end)), 5);
}

/**
 * Checks a whole append and returns each event's JSON text `{"id","type","data","metadata"}`.
 * @throws AppendRefused naming the path of what is wrong
 */
export function encodeAppend(stream: string, events: readonly NewEvent[]): string[] {
  if (stream === '' || stream.includes('\0') || !isWellFormed(stream)) {
    throw new AppendRefused('a stream name must be a non-empty, well-formed string without NUL');
  }
  if (isTooLong(stream)) {
    throw new AppendRefused(`the stream name is longer than ${MAX_STREAM_BYTES} bytes`);
  }
  if (events.length === 0) throw new AppendRefused('an append needs at least one event');

  let units = 0;
  const texts = events.map((event, index) => {
    const text = encodeEvent(event, `events[${index}]`);
    if (event.metadata.index !== index || event.metadata.size !== events.length) {
      throw new AppendRefused(`events[${index}].metadata must have index ${index} and size ${events.length}`);
    }
    units += text.length;
    return text;
  });
  // Counted only if it may exceed the limit.
  const bytes = units <= MAX_APPEND_BYTES / 3 ? 0 : texts.reduce((sum, text) => sum + Buffer.byteLength(text), 0);
  if (bytes > MAX_APPEND_BYTES) {
    throw new AppendRefused(`the append takes ${bytes} bytes, more than ${MAX_APPEND_BYTES}`);
  }
  return texts;
}

/** Whether a name is longer than any stream name may be. */
export function isTooLong(stream: string): boolean {
  return takesMoreThan(MAX_STREAM_BYTES, stream);
}

function encodeEvent({ id, type, data, metadata }: NewEvent, path: string): string {
  const event = { id, type, data, metadata };
  if (typeof id !== 'string' || id === '') throw new AppendRefused(`${path}.id must be a non-empty string`);
  if (typeof type !== 'string' || type === '') throw new AppendRefused(`${path}.type must be a non-empty string`);
  if (!isObject(data)) throw new AppendRefused(`${path}.data must be an object`);
  if (!isObject(metadata)) throw new AppendRefused(`${path}.metadata must be an object`);
  const found = flaw(event, 0);
  if (found) throw new AppendRefused(`${path}${found}`);
  const text = JSON.stringify(event);
  // JSON.stringify escapes only lone surrogates: without this marker there is nothing to search for.
  if (text.includes('\\ud')) checkStrings(event, path);
  return text;
}

/** The stored form of an event: its text with stream and revision as further members. */
export function storedText(stream: string, revision: number, text: string): string {
  return `{"stream":${JSON.stringify(stream)},"revision":${revision},${text.slice(1)}`;
}

/** The stream and revision of a stored event, without decoding the rest. */
export function placeOfStored(text: string): { stream: string; revision: number } {
  const end = text.indexOf(',"revision":');
  const stream = JSON.parse(text.slice('{"stream":'.length, end)) as string;
  return { stream, revision: parseInt(text.slice(end + ',"revision":'.length), 10) };
}

/**
 * What is wrong with a value, as `<path> is …`; undefined if nothing is. Strings are not checked here, since that is
 * expensive and rarely needed. The path is built only if something is wrong.
 */
function flaw(value: unknown, depth: number): string | undefined {
  switch (typeof value) {
    case 'string':
    case 'boolean':
      return undefined;
    case 'number':
      if (!Number.isFinite(value)) return ` is ${value}`;
      if (Object.is(value, -0)) return ' is -0';
      return Number.isInteger(value) && !Number.isSafeInteger(value) ? ' is an integer beyond 2^53 - 1' : undefined;
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
    const found = flaw((value as Record<string, unknown>)[key], depth + 1);
    if (found) return `.${key}${found}`;
  }
  return undefined;
}

function checkStrings(value: unknown, path: string): void {
  if (typeof value === 'string') {
    if (!isWellFormed(value)) throw new AppendRefused(`${path} contains ill-formed Unicode`);
  } else if (Array.isArray(value)) {
    value.forEach((item, index) => checkStrings(item, `${path}[${index}]`));
  } else if (typeof value === 'object' && value !== null) {
    for (const [key, item] of Object.entries(value)) {
      if (!isWellFormed(key)) throw new AppendRefused(`a key of ${path} contains ill-formed Unicode`);
      checkStrings(item, `${path}.${key}`);
    }
  }
}
