import { crc32 } from 'node:zlib';
import type { Position, RecordedEvent } from '../../kernel/event.js';
import { firstBytes } from './first-bytes.js';

/**
 * Events as older builds stored them: JSON text whose last member, `crc`, has sixteen hexadecimal digits. They are the
 * CRC-32 of everything before it, seeded with the position, and the CRC-32 of the identity that the event is about. The
 * oldest builds wrote no checksums.
 */
const CRC_START = ',"crc":"';
const CRC_END = '"}';
const CRC_LENGTH = CRC_START.length + 16 + CRC_END.length;
const START_BYTES = Buffer.from(CRC_START);

/** What a damaged event still tells. */
export interface Remains {
  stream?: string | undefined;
  revision?: number | undefined;
  /** The identity that the event is about, if that is certain. */
  tris_id: string | null;
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

function hasChecksums(bytes: Buffer, length: number): boolean {
  for (let i = 0; i < START_BYTES.length; i++) {
    if (bytes[length - CRC_LENGTH + i] !== START_BYTES[i]) return false;
  }
  return true;
}

/**
 * The event of a text, or what is wrong with it.
 * @param bytes the text, and possibly more
 * @param mustBeChecked whether a text without checksums is damaged
 */
export function eventOfText(
  bytes: Buffer,
  length: number,
  position: Position,
  mustBeChecked: boolean,
): { event: RecordedEvent } | { reason: string; remains: Remains } {
  const text = (end: number) => bytes.toString('utf8', 0, end);
  const flawed = (reason: string) => ({ reason, remains: remainsOf(text(length)) });
  let body: string;
  if (hasChecksums(bytes, length)) {
    const end = length - CRC_LENGTH;
    if (readHex(bytes, end + CRC_START.length) !== crc32(firstBytes(bytes, end), position)) {
      return flawed('its checksum is that of another text');
    }
    body = `${text(end)}}`;
  } else if (mustBeChecked) return flawed('it has no checksum');
  else body = text(length);
  try {
    const event = JSON.parse(body) as RecordedEvent;
    event.position = position;
    return { event };
  } catch {
    return flawed('it is not JSON');
  }
}

/** The stream and revision of an event, without decoding the rest. @throws if the text is damaged there */
export function placeInText(text: string): { stream: string; revision: number } {
  const end = text.indexOf(',"revision":');
  const stream = JSON.parse(text.slice('{"stream":'.length, end)) as string;
  return { stream, revision: parseInt(text.slice(end + ',"revision":'.length), 10) };
}

function remainsOf(text: string): Remains {
  const { stream, revision } = parsed(text);
  return {
    stream: typeof stream === 'string' ? stream : undefined,
    revision: Number.isInteger(revision) ? revision : undefined,
    tris_id: subjectIn(text, stream),
  };
}

function parsed(text: string): Partial<RecordedEvent> {
  try {
    return (JSON.parse(text) ?? {}) as Partial<RecordedEvent>;
  } catch {
    return {};
  }
}

/** The identity that a damaged text is about: one that it names and that matches its checksum of the identity. */
function subjectIn(text: string, stream: unknown): string | null {
  if (!text.startsWith(CRC_START, text.length - CRC_LENGTH)) return null;
  const stored = parseInt(text.slice(-CRC_END.length - 8, -CRC_END.length), 16);
  const named = [...text.matchAll(/"([ -~]{1,200}?)"/g)].map(([, name]) => name!);
  const ofStreams = [...named, String(stream)].map((name) => name.slice(name.indexOf('-') + 1));
  return [...named, ...ofStreams].find((name) => name !== '' && crc32(name) === stored) ?? null;
}
