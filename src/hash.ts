import { createHash } from 'node:crypto';

/** Content hashes and the identifiers derived from them. */

/**
 * SHA-256, lower-case hex. Several parts are framed as a JSON array, so that ("a", "bc") and ("ab", "c") differ;
 * a single part is hashed as it is.
 */
export function sha256Hex(...parts: string[]): string {
  return createHash('sha256')
    .update(parts.length === 1 ? parts[0]! : JSON.stringify(parts))
    .digest('hex');
}

/** RFC 8785 JSON: members sorted by UTF-16 code units, numbers as ECMAScript prints them. Expects plain JSON values. */
export function canonicalJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(',')}]`;
  if (value === null || typeof value !== 'object') return JSON.stringify(value);
  const members = Object.entries(value).filter(([, member]) => member !== undefined);
  members.sort(([a], [b]) => (a < b ? -1 : 1));
  return `{${members.map(([name, member]) => `${JSON.stringify(name)}:${canonicalJson(member)}`).join(',')}}`;
}

/** Namespace of every event id: UUIDv5 of the URL namespace and `urn:credence:event`. */
const EVENT_NAMESPACE = uuid5(Buffer.from('6ba7b8119dad11d180b400c04fd430c8', 'hex'), 'urn:credence:event');

/** Name-based UUID, version 5 (RFC 9562 §5.5). */
function uuid5(namespace: Buffer, name: string): Buffer {
  const id = createHash('sha1').update(namespace).update(name).digest().subarray(0, 16);
  id[6] = (id[6]! & 0x0f) | 0x50;
  id[8] = (id[8]! & 0x3f) | 0x80;
  return id;
}

/** The id of the event with this ordinal (from 0) in an append of this body to this stream: a retry gets the same. */
export function eventId(stream: string, bodyHash: string, ordinal: number): string {
  const hex = uuid5(EVENT_NAMESPACE, JSON.stringify([stream, bodyHash, ordinal])).toString('hex');
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}
