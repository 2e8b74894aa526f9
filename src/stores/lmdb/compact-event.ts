import { PREFIXES, WORDS } from './compact-words.js';
import type { RecordedEvent } from '../../kernel/event.js';
import type { Json, JsonObject } from '../../kernel/json.js';

/**
 * The values of an event in few bytes; docs/log.md describes the form. Field names and other frequent words are places in
 * a list, and hashes, UUIDs and times are numbers. Whatever is written comes back exactly, with its fields in the same
 * order.
 */

/** A local name: looking up a global takes 0.1 µs in the context of the test runner. */
const { floor } = Math;

/** The first byte of a value, unless it is a place in WORDS below 128. */
const LATER_WORD = 0x80;
const NULL = 0x81;
const TRUE = 0x82;
const FALSE = 0x83;
const INTEGER = 0x84;
const NEGATIVE = 0x85;
const DOUBLE = 0x86;
const HEX = 0x87;
const UUID = 0x88;
const TIME = 0x89;
const SAME_TIME = 0x8a;
const PREFIXED_HEX = 0x8b;
const PREFIXED_UUID = 0x8c;
const STRING = 0x8d;
const ARRAY = 0x8e;
const OBJECT = 0x8f;
/** And the number of members. */
const SMALL_OBJECT = 0x90;
/** And the length of an ASCII string. */
const SHORT_STRING = 0xa0;
/** And the number. */
const SMALL_INTEGER = 0xc0;

const FIRST_WORDS = 128;
const WORD_PLACES = new Map(WORDS.map((word, place) => [word, place]));
const LONGEST_WORD = Math.max(...WORDS.map(({ length }) => length));
const PREFIX_PLACES = new Map(PREFIXES.map((prefix, place) => [prefix, place]));
const LONGEST_PREFIX = Math.max(...PREFIXES.map(({ length }) => length));
const UUID_LENGTH = 36;
/** Bytes of a UUID after each dash. */
const UUID_PARTS = [2, 2, 2, 6];
const TIME_LENGTH = 24;
const TIME_BYTES = 6;
/** Of each part of a time, `YYYY-MM-DDTHH:MM:SS.mmmZ`: its start, its digits, what follows, how many values it has. */
const TIME_PARTS = [
  [0, 4, '-', 2 ** 12],
  [5, 2, '-', 2 ** 4],
  [8, 2, 'T', 2 ** 5],
  [11, 2, ':', 2 ** 5],
  [14, 2, ':', 2 ** 6],
  [17, 2, '.', 2 ** 6],
  [20, 3, 'Z', 2 ** 10],
] as const;
/** The last part is the lowest in the number, so it is taken out first. */
const REVERSED_PARTS = TIME_PARTS.toReversed();
/** Shorter ones are as short as strings. */
const SHORTEST_HEX = 16;
/** Lengths of hashes and addresses that follow a prefix. */
const TAILS = [64, 40];

/** Bytes that the values of an event take beyond three times the length of its JSON text. */
export const MORE_BYTES = 64;

// The values being written or read, the place in them, and the last time among them.
let bytes: Buffer = Buffer.alloc(0);
let at = 0;
let lastTime = '';

/**
 * Writes the values of an event, which JSON represents exactly.
 * @param target has MORE_BYTES, and three times the length of the event's JSON text, from `start` on
 * @returns where they end
 */
export function writeEvent(target: Buffer, start: number, event: RecordedEvent): number {
  bytes = target;
  at = start;
  lastTime = '';
  putString(event.stream);
  putNumber(event.revision);
  putString(event.id);
  putString(event.type);
  putValue(event.data);
  putValue(event.metadata as unknown as JsonObject);
  return at;
}

/** The event whose values start there. Only for bytes that are what was written. */
export function readEvent(source: Buffer, start: number, position: number): RecordedEvent {
  const { stream, revision } = readPlace(source, start);
  const id = takeString();
  const type = takeString();
  const data = takeValue() as JsonObject;
  const metadata = takeValue() as unknown as RecordedEvent['metadata'];
  return { stream, revision, id, type, data, metadata, position };
}

/** The stream and revision of the event whose values start there. @throws for bytes that are not what was written */
export function readPlace(source: Buffer, start: number): { stream: string; revision: number } {
  bytes = source;
  at = start;
  lastTime = '';
  const stream = takeString();
  const revision = takeValue();
  if (typeof revision !== 'number') throw new TypeError('the revision is not a number');
  return { stream, revision };
}

/** Strings that may be among the values from `start` on, wherever they may begin, of bytes that may be damaged. */
export function textsIn(source: Buffer, start: number): string[] {
  const texts: string[] = [];
  for (let place = start; place < source.length; place++) {
    const first = source[place]!;
    let [from, length] = [place + 1, first - SHORT_STRING];
    if (first === STRING) [from, length] = [place + 2, source[place + 1] ?? 0];
    else if (first < SHORT_STRING || first >= SMALL_INTEGER) continue;
    const text = source.toString('latin1', from, from + length);
    if (text.length === length && /^[ -~]+$/.test(text)) texts.push(text);
  }
  return texts;
}

function putValue(value: Json): void {
  if (typeof value === 'string') putString(value);
  else if (typeof value === 'number') putNumber(value);
  else if (typeof value === 'boolean') bytes[at++] = value ? TRUE : FALSE;
  else if (value === null) bytes[at++] = NULL;
  else if (Array.isArray(value)) {
    bytes[at++] = ARRAY;
    putCount(value.length);
    for (const item of value) putValue(item);
  } else putObject(value);
}

function putObject(value: JsonObject): void {
  const keys = Object.keys(value);
  if (keys.length < SHORT_STRING - SMALL_OBJECT) bytes[at++] = SMALL_OBJECT + keys.length;
  else {
    bytes[at++] = OBJECT;
    putCount(keys.length);
  }
  for (const key of keys) {
    putString(key);
    putValue(value[key]!);
  }
}

function putNumber(value: number): void {
  if (!Number.isSafeInteger(value)) {
    bytes[at++] = DOUBLE;
    at = bytes.writeDoubleLE(value, at);
  } else if (value < 0) {
    bytes[at++] = NEGATIVE;
    putCount(-value);
  } else if (value < 256 - SMALL_INTEGER) bytes[at++] = SMALL_INTEGER + value;
  else {
    bytes[at++] = INTEGER;
    putCount(value);
  }
}

/** Seven bits a byte, the lowest first; all but the last byte have the highest bit. */
function putCount(value: number): void {
  let rest = value;
  while (rest >= 128) {
    bytes[at++] = (rest % 128) | 128;
    rest = floor(rest / 128);
  }
  bytes[at++] = rest;
}

function putString(text: string): void {
  const { length } = text;
  const word = length <= LONGEST_WORD ? WORD_PLACES.get(text) : undefined;
  if (word !== undefined) {
    if (word >= FIRST_WORDS) bytes[at++] = LATER_WORD;
    bytes[at++] = word % FIRST_WORDS;
    return;
  }
  if (length >= SHORTEST_HEX && putNumeric(text, length)) return;
  if (length < SMALL_INTEGER - SHORT_STRING && putAscii(text, length)) return;
  bytes[at++] = STRING;
  putCount(Buffer.byteLength(text));
  at += bytes.write(text, at);
}

function putAscii(text: string, length: number): boolean {
  const start = at;
  bytes[at++] = SHORT_STRING + length;
  // A loop, since calls that copy take longer for so few bytes.
  for (let i = 0; i < length; i++) {
    const unit = text.charCodeAt(i);
    if (unit > 127) {
      at = start;
      return false;
    }
    bytes[at++] = unit;
  }
  return true;
}

/** Writes a time, a UUID or hexadecimal digits, possibly after a prefix; false if the text is none of these. */
function putNumeric(text: string, length: number): boolean {
  if (length === TIME_LENGTH && putTime(text)) return true;
  const start = at;
  if (length === UUID_LENGTH) {
    bytes[at++] = UUID;
    if (putUuid(text, 0)) return true;
    at = start;
  }
  if (length % 2 === 0 && length < 512) {
    bytes[at++] = HEX;
    bytes[at++] = length / 2;
    if (putHex(text, 0, length)) return true;
    at = start;
  }
  if (putPrefix(PREFIXED_UUID, text, UUID_LENGTH)) {
    if (putUuid(text, length - UUID_LENGTH)) return true;
    at = start;
  }
  for (const tail of TAILS) {
    if (!putPrefix(PREFIXED_HEX, text, tail)) continue;
    bytes[at++] = tail / 2;
    if (putHex(text, length - tail, length)) return true;
    at = start;
  }
  return false;
}

/** Writes a prefix that is followed by `tail` code units; false if the text has none. */
function putPrefix(kind: number, text: string, tail: number): boolean {
  if (text.length <= tail || text.length > tail + LONGEST_PREFIX) return false;
  const prefix = PREFIX_PLACES.get(text.slice(0, -tail));
  if (prefix === undefined) return false;
  bytes[at++] = kind;
  bytes[at++] = prefix;
  return true;
}

/** Of each code unit: the value of the lower-case hexadecimal digit; none: 255, which no two digits make. */
const DIGITS = new Uint8Array(128).fill(255);
for (let value = 0; value < 16; value++) DIGITS[value.toString(16).charCodeAt(0)] = value;

function putHex(text: string, from: number, to: number): boolean {
  for (let i = from; i < to; i += 2) {
    const high = DIGITS[text.charCodeAt(i)]!;
    const low = DIGITS[text.charCodeAt(i + 1)]!;
    // Undefined, too, for a code unit beyond ASCII.
    if (!(high < 16 && low < 16)) return false;
    bytes[at++] = (high << 4) | low;
  }
  return true;
}

const DASH = '-'.charCodeAt(0);

function putUuid(text: string, from: number): boolean {
  let end = from + 8;
  if (!putHex(text, from, end)) return false;
  for (const count of UUID_PARTS) {
    const start = end + 1;
    if (text.charCodeAt(end) !== DASH || !putHex(text, start, start + 2 * count)) return false;
    end = start + 2 * count;
  }
  return true;
}

function putTime(text: string): boolean {
  if (text === lastTime) {
    bytes[at++] = SAME_TIME;
    return true;
  }
  let time = 0;
  for (const [from, count, end, values] of TIME_PARTS) {
    let value = 0;
    for (let i = from; i < from + count; i++) {
      const digit = text.charCodeAt(i) - 48;
      if (digit < 0 || digit > 9) return false;
      value = value * 10 + digit;
    }
    if (value >= values || text[from + count] !== end) return false;
    time = time * values + value;
  }
  lastTime = text;
  bytes[at++] = TIME;
  at = bytes.writeUIntBE(time, at, TIME_BYTES);
  return true;
}

function takeValue(): Json {
  const first = bytes[at++]!;
  if (first >= SMALL_INTEGER) return first - SMALL_INTEGER;
  if (first >= SMALL_OBJECT && first < SHORT_STRING) return takeObject(first - SMALL_OBJECT);
  switch (first) {
    case NULL:
      return null;
    case TRUE:
      return true;
    case FALSE:
      return false;
    case INTEGER:
      return takeCount();
    case NEGATIVE:
      return -takeCount();
    case DOUBLE:
      at += 8;
      return bytes.readDoubleLE(at - 8);
    case ARRAY: {
      const count = takeCount();
      const items: Json[] = [];
      for (let i = 0; i < count; i++) items.push(takeValue());
      return items;
    }
    case OBJECT:
      return takeObject(takeCount());
    default:
      return takeString(first);
  }
}

function takeObject(members: number): JsonObject {
  const object: JsonObject = {};
  for (let i = 0; i < members; i++) {
    const key = takeString();
    const value = takeValue();
    if (key !== '__proto__') object[key] = value;
    // As JSON.parse does: a member, not the prototype.
    else Object.defineProperty(object, key, { value, writable: true, enumerable: true, configurable: true });
  }
  return object;
}

function takeCount(): number {
  let value = 0;
  for (let factor = 1; factor <= 2 ** 49; factor *= 128) {
    const byte = bytes[at++]!;
    if (byte < 128) return value + byte * factor;
    value += (byte - 128) * factor;
  }
  throw new TypeError('the number has no end');
}

/** @param first the first byte. @throws for anything but a string */
function takeString(first = bytes[at++]!): string {
  if (first < FIRST_WORDS) return WORDS[first]!;
  if (first >= SHORT_STRING && first < SMALL_INTEGER) {
    at += first - SHORT_STRING;
    return bytes.toString('latin1', at - first + SHORT_STRING, at);
  }
  switch (first) {
    case LATER_WORD: {
      const word = WORDS[FIRST_WORDS + bytes[at++]!];
      if (word === undefined) break;
      return word;
    }
    case HEX:
      return takeHex(0);
    case UUID:
      return takeUuid(0);
    case TIME:
      return (lastTime = takeTime());
    case SAME_TIME:
      return lastTime;
    case PREFIXED_HEX:
      return takeHex(takePrefix());
    case PREFIXED_UUID:
      return takeUuid(takePrefix());
    case STRING: {
      const length = takeCount();
      at += length;
      return bytes.toString('utf8', at - length, at);
    }
  }
  throw new TypeError(`there is no string of kind ${first}`);
}

/**
 * Where strings are put together: a string that is made of parts stays a tree of them, which takes several times the
 * memory, and the garbage collector longer than all of decoding.
 */
const SCRATCH = Buffer.alloc(1_024);

/** Puts the next prefix into the scratch. @returns where it ends there */
function takePrefix(): number {
  const prefix = PREFIXES[bytes[at++]!];
  if (prefix === undefined) throw new TypeError('there is no such prefix');
  for (let i = 0; i < prefix.length; i++) SCRATCH[i] = prefix.charCodeAt(i);
  return prefix.length;
}

/** Of each byte: its hexadecimal digits. */
const HIGH_DIGITS = Uint8Array.from({ length: 256 }, (_, byte) => (byte >> 4).toString(16).charCodeAt(0));
const LOW_DIGITS = Uint8Array.from({ length: 256 }, (_, byte) => (byte & 15).toString(16).charCodeAt(0));

/** Puts the digits of so many bytes into the scratch. @returns where they end there */
function takeDigits(count: number, to: number): number {
  let place = to;
  for (const end = at + count; at < end; at++) {
    const byte = bytes[at]!;
    SCRATCH[place++] = HIGH_DIGITS[byte]!;
    SCRATCH[place++] = LOW_DIGITS[byte]!;
  }
  return place;
}

/** The hexadecimal digits after what the scratch has up to `from`. */
function takeHex(from: number): string {
  return SCRATCH.toString('latin1', 0, takeDigits(bytes[at++]!, from));
}

/** The UUID after what the scratch has up to `from`. */
function takeUuid(from: number): string {
  let place = takeDigits(4, from);
  for (const count of UUID_PARTS) {
    SCRATCH[place++] = DASH;
    place = takeDigits(count, place);
  }
  return SCRATCH.toString('latin1', 0, place);
}

/** Neighbouring events have the same times: those that were read are kept, by a hash of date and time of day. */
const KEPT = 4_096;
const KEPT_TIMES: string[] = Array.from({ length: KEPT }, () => '');
const TIMES = new Float64Array(KEPT).fill(-1);

function takeTime(): string {
  const time = bytes.readUIntBE(at, TIME_BYTES);
  at += TIME_BYTES;
  const place = (time ^ (time / 2 ** 27)) & (KEPT - 1);
  if (TIMES[place] !== time) {
    TIMES[place] = time;
    KEPT_TIMES[place] = timeText(time);
  }
  return KEPT_TIMES[place]!;
}

function timeText(time: number): string {
  let rest = time;
  for (const [from, count, end, values] of REVERSED_PARTS) {
    let value = rest % values;
    rest = floor(rest / values);
    SCRATCH[from + count] = end.charCodeAt(0);
    for (let place = from + count - 1; place >= from; place--) {
      SCRATCH[place] = 48 + (value % 10);
      value = floor(value / 10);
    }
  }
  return SCRATCH.toString('latin1', 0, TIME_LENGTH);
}
