import { hash } from 'node:crypto';
import { crc32 } from 'node:zlib';
import { uuidOf } from '../../kernel/hash.js';
import { UNREADABLE, subjectGuess } from '../../kernel/event-definition.js';
import type { Position, RecordedEvent } from '../../kernel/event.js';

/**
 * Events as they stand in the embedded log: JSON text whose last member, `crc`, is sixteen hexadecimal digits: the CRC-32
 * of all that stands before it, begun with the position so that it holds for this place only, and that of the identity the
 * event is about, by which that is known for sure where the rest is damaged. Builds that know of no checksums read such a
 * text as well. Texts of such builds have none.
 */
const SEAL_START = ',"crc":"';
const SEAL_END = '"}';
const SEAL_LENGTH = SEAL_START.length + 16 + SEAL_END.length;

/** Valid, and earlier than any: of when it happened nothing is known. */
const NEVER = new Date(0).toISOString();

function hex32(value: number): string {
  return value.toString(16).padStart(8, '0');
}

/** What of an event says whom it is about. */
type Subjected = Pick<RecordedEvent, 'data' | 'stream'>;

/** The text of an event, closed with its checksums. @param text a JSON object of at least one member */
export function sealed(text: string, position: Position, event: Subjected): string {
  const body = text.slice(0, -1);
  return `${body}${SEAL_START}${hex32(crc32(body, position))}${hex32(crc32(subjectGuess(event) ?? ''))}${SEAL_END}`;
}

export function isSealed(text: string): boolean {
  return text.startsWith(SEAL_START, text.length - SEAL_LENGTH);
}

/**
 * The event of a stored text.
 * @param mustBeSealed whether a text without checksums is damaged
 */
export function openSealed(text: string, position: Position, mustBeSealed: boolean): RecordedEvent {
  let body = text;
  if (isSealed(text)) {
    body = text.slice(0, -SEAL_LENGTH);
    const stored = parseInt(text.slice(body.length + SEAL_START.length, -SEAL_END.length - 8), 16);
    if (stored !== crc32(body, position)) return damaged(text, position, 'its checksum is that of another text');
    body += '}';
  } else if (mustBeSealed) {
    return damaged(text, position, 'it has no checksum');
  }
  let event: RecordedEvent;
  try {
    event = JSON.parse(body) as RecordedEvent;
  } catch {
    return damaged(text, position, 'it is not JSON');
  }
  event.position = position;
  return event;
}

/** What stands at a position whose event cannot be read. */
export function damaged(text: string | undefined, position: Position, reason: string): RecordedEvent {
  const read = text === undefined ? undefined : parsed(text);
  return {
    // Not the id that it claims, which may be that of an event elsewhere.
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

/** The identity that the damaged text of an event is about: one that it names, and whose checksum it has. */
function subjectIn(text: string, stream: unknown): string | null {
  if (!isSealed(text)) return null;
  const stored = parseInt(text.slice(-SEAL_END.length - 8, -SEAL_END.length), 16);
  const named = [...text.matchAll(/"([ -~]{1,200}?)"/g)].map(([, name]) => name!);
  const ofStreams = [...named, String(stream)].map((name) => name.slice(name.indexOf('-') + 1));
  return [...named, ...ofStreams].find((name) => name !== '' && crc32(name) === stored) ?? null;
}
