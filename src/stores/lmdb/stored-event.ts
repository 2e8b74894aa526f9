import { hash } from 'node:crypto';
import { crc32 } from 'node:zlib';
import { uuidOf } from '../../kernel/hash.js';
import { UNREADABLE, subjectGuess } from '../../kernel/event-definition.js';
import type { Position, RecordedEvent } from '../../kernel/event.js';
import { isTooLong } from '../ports/event-encoding.js';
import { StoreUnavailable } from '../ports/event-store.js';
import { MORE_BYTES, readEvent, readPlace, textsIn, writeEvent } from './compact-event.js';

/**
 * Events as entries of the embedded log. An entry begins with the number of its form. In the form that is written, the
 * CRC-32 of the identity that the event is about follows, which confirms the identity if the rest is damaged; then the
 * values of the event (compact-event.ts); then the CRC-32 of everything before it, seeded with the position so that it
 * is valid at this position only.
 */
const FORM = 2;
/** This form differs from the one that is written only in its shorter list of words. */
const FORM_OF_FEWER_WORDS = 1;
/** The index of streams stores revisions in 32 bits. */
const MAX_REVISION = 0xffff_ffff;
const CRC_BYTES = 4;
const HEAD_BYTES = 1 + CRC_BYTES;

/** A valid time earlier than any other, for an event whose time is unknown. */
const NEVER = new Date(0).toISOString();

/**
 * The bytes that an entry takes at most.
 * @param units UTF-16 code units of the JSON text of the event's own values
 */
export function mostBytes(stream: string, units: number): number {
  return 3 * (stream.length + units) + MORE_BYTES + HEAD_BYTES + CRC_BYTES;
}

/**
 * Writes the entry of an event.
 * @param bytes have `mostBytes` from `start` on
 * @returns where the entry ends
 */
export function writeEntry(bytes: Buffer, start: number, event: RecordedEvent): number {
  bytes[start] = FORM;
  bytes.writeUInt32LE(crc32(subjectGuess(event) ?? ''), start + 1);
  const end = writeEvent(bytes, start + HEAD_BYTES, event);
  return bytes.writeUInt32LE(crc32(bytes.subarray(start, end), event.position), end);
}

/**
 * The event of an entry; one with a mark if it is damaged.
 * @param bytes the entry, and possibly more
 * @throws StoreUnavailable if a newer build wrote it
 */
export function readEntry(bytes: Buffer, length: number, position: Position): RecordedEvent {
  const end = length - CRC_BYTES;
  if (end < HEAD_BYTES || bytes.readUInt32LE(end) !== crc32(bytes.subarray(0, end), position)) {
    return damaged(position, 'its checksum is that of another text', bytes.subarray(0, length));
  }
  if (bytes[0] !== FORM && bytes[0] !== FORM_OF_FEWER_WORDS) {
    const what = `the event at position ${position} has form ${bytes[0]}, which this build cannot read`;
    throw new StoreUnavailable(`${what}: run a build that is at least as new as the one that wrote it`);
  }
  return readEvent(bytes, HEAD_BYTES, position);
}

/** The stream and revision of an entry, without checking the rest; undefined if it is damaged there. */
export function placeOf(entry: Buffer): { stream: string; revision: number } | undefined {
  try {
    const { stream, revision } = readPlace(entry, HEAD_BYTES);
    const isRevision = Number.isInteger(revision) && revision >= 0 && revision <= MAX_REVISION;
    return isRevision && !isTooLong(stream) ? { stream, revision } : undefined;
  } catch {
    return undefined;
  }
}

/**
 * The event that is returned for a position whose event cannot be read.
 * @param entry what is there, which may still tell its stream, its revision and the identity that it is about
 */
export function damaged(position: Position, reason: string, entry?: Buffer): RecordedEvent {
  const { stream = '', revision = 0 } = (entry && placeOf(entry)) ?? {};
  return {
    // Not the id in the entry, which may be that of another event.
    id: uuidOf(hash('sha256', `damaged event at ${position}`), 8),
    type: UNREADABLE,
    stream,
    revision,
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
    damage: { reason, tris_id: entry ? subjectIn(entry, stream) : null },
  };
}

/** The identity that a damaged entry is about: a text in it that matches its checksum of the identity. */
function subjectIn(entry: Buffer, stream: string): string | null {
  if (entry.length < HEAD_BYTES) return null;
  const checksum = entry.readUInt32LE(1);
  for (const text of [stream, ...textsIn(entry, HEAD_BYTES)]) {
    for (const name of [text, text.slice(text.indexOf('-') + 1)]) {
      if (name !== '' && crc32(name) === checksum) return name;
    }
  }
  return null;
}
