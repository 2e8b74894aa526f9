import { hash } from 'node:crypto';
import { crc32 } from 'node:zlib';
import { uuidOf } from '../../kernel/hash.js';
import { UNREADABLE, subjectGuess } from '../../kernel/event-definition.js';
import type { Position, RecordedEvent } from '../../kernel/event.js';

/**
 * Events as stored in the embedded log: JSON text whose last member, `crc`, has sixteen hexadecimal digits. They are
 * the CRC-32 of everything before it, seeded with the position so that it is valid at this position only, and the
 * CRC-32 of the identity that the event is about, which confirms the identity if the rest is damaged. Builds without
 * checksums can read such a text too, and write texts without `crc`.
 */
const SEAL_START = ',"crc":"';
const SEAL_END = '"}';
const SEAL_LENGTH = SEAL_START.length + 16 + SEAL_END.length;

/** A valid time earlier than any other, for an event whose time is unknown. */
const NEVER = new Date(0).toISOString();

/** The parts of an event that name the identity it is about. */
type Subjected = Pick<RecordedEvent, 'data' | 'stream'>;

/** Bytes that checksums add to a text. */
export const SEAL_GROWTH = SEAL_LENGTH - 1;

/** The checksum of the identity that an event is about. */
export function subjectChecksum(event: Subjected): number {
  return crc32(subjectGuess(event) ?? '');
}

/**
 * Appends the checksums to the text of an event. They are computed over the bytes already written, since encoding the
 * text again would cost more than everything else.
 * @param bytes contain the text, a JSON object with at least one member, from `start` to `end`, and then SEAL_GROWTH
 * free bytes
 * @returns where the text with checksums ends
 */
export function seal(bytes: Buffer, start: number, end: number, position: Position, subject: number): number {
  let at = end - 1;
  const checksum = crc32(bytes.subarray(start, at), position);
  // Byte by byte: a call into the runtime would take longer for so few bytes.
  for (let i = 0; i < START_BYTES.length; i++) bytes[at++] = START_BYTES[i]!;
  at = writeHex(bytes, at, checksum);
  at = writeHex(bytes, at, subject);
  for (let i = 0; i < END_BYTES.length; i++) bytes[at++] = END_BYTES[i]!;
  return at;
}

const START_BYTES = Buffer.from(SEAL_START);
const END_BYTES = Buffer.from(SEAL_END);
const DIGITS = Buffer.from('0123456789abcdef');

/** Writes eight hexadecimal digits. @returns where they end */
function writeHex(bytes: Buffer, at: number, value: number): number {
  for (let shift = 28; shift >= 0; shift -= 4) bytes[at++] = DIGITS[(value >>> shift) & 15]!;
  return at;
}

/** The number in eight hexadecimal digits; NaN if they are not digits. */
function readHex(bytes: Buffer, at: number): number {
  let value = 0;
  for (let i = 0; i < 8; i++) {
    const digit = bytes[at + i]!;
    value = value * 16 + (digit >= 48 && digit <= 57 ? digit - 48 : digit >= 97 && digit <= 102 ? digit - 87 : NaN);
  }
  return value;
}

/** Whether a text ends with checksums. */
export function sealed(text: string, position: Position, event: Subjected): Buffer {
  const bytes = Buffer.alloc(Buffer.byteLength(text) + SEAL_GROWTH);
  seal(bytes, 0, bytes.write(text), position, subjectChecksum(event));
  return bytes;
}

export function isSealed(text: string): boolean {
  return text.startsWith(SEAL_START, text.length - SEAL_LENGTH);
}

/** As `isSealed`, of the first bytes of a buffer. */
function endsSealed(bytes: Buffer, length: number): boolean {
  for (let i = 0; i < START_BYTES.length; i++) {
    if (bytes[length - SEAL_LENGTH + i] !== START_BYTES[i]) return false;
  }
  return true;
}

/**
 * The event of a stored text.
 * @param bytes the text, and possibly more
 * @param mustBeSealed whether a text without checksums is damaged
 */
export function openSealed(bytes: Buffer, length: number, position: Position, mustBeSealed: boolean): RecordedEvent {
  let body: string;
  if (endsSealed(bytes, length)) {
    const end = length - SEAL_LENGTH;
    if (readHex(bytes, end + SEAL_START.length) !== crc32(bytes.subarray(0, end), position)) {
      return damaged(bytes.toString('utf8', 0, length), position, 'its checksum is that of another text');
    }
    body = `${bytes.toString('utf8', 0, end)}}`;
  } else {
    body = bytes.toString('utf8', 0, length);
    if (mustBeSealed) return damaged(body, position, 'it has no checksum');
  }
  let event: RecordedEvent;
  try {
    event = JSON.parse(body) as RecordedEvent;
  } catch {
    return damaged(bytes.toString('utf8', 0, length), position, 'it is not JSON');
  }
  event.position = position;
  return event;
}

/** The event that is returned for a position whose event cannot be read. */
export function damaged(text: string | undefined, position: Position, reason: string): RecordedEvent {
  const read = text === undefined ? undefined : parsed(text);
  return {
    // Not the id in the text, which may be that of another event.
    id: uuidOf(hash('sha256', `damaged event at ${position}`), 8),
    type: UNREADABLE,
    stream: typeof read?.stream === 'string' ? read.stream : '',
    revision: Number.isInteger(read?.revision) ? read!.revision! : 0,
    position,
    data: {},
    metadata: {
      schema: 1,
      occurred_at: NEVER,
      recorded_at: NEVER,
      correlation_id: '',
      actor: '',
      body_hash: '',
      index: 0,
      size: 1,
    },
    damage: { reason, tris_id: text === undefined ? null : subjectIn(text, read?.stream) },
  };
}

function parsed(text: string): Partial<RecordedEvent> | undefined {
  try {
    return JSON.parse(text) as Partial<RecordedEvent>;
  } catch {
    return undefined;
  }
}

/** The identity that the damaged text of an event is about: one that it names and that matches its second checksum. */
function subjectIn(text: string, stream: unknown): string | null {
  if (!isSealed(text)) return null;
  const stored = parseInt(text.slice(-SEAL_END.length - 8, -SEAL_END.length), 16);
  const named = [...text.matchAll(/"([ -~]{1,200}?)"/g)].map(([, name]) => name!);
  const ofStreams = [...named, String(stream)].map((name) => name.slice(name.indexOf('-') + 1));
  return [...named, ...ofStreams].find((name) => name !== '' && crc32(name) === stored) ?? null;
}
