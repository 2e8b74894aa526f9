import type { JsonObject } from './json.js';

/**
 * A position orders all events of one log. It is a positive safe integer, strictly increasing but not necessarily dense;
 * 0 means "before the first event". On the wire it is opaque: `<log id>.<decimal>`.
 */
export type Position = number;
export const START: Position = 0;

export interface EventMetadata {
  /** Schema version of `data`, from 1. Older versions are upcast on read, newer ones halt the projector. */
  schema: number;
  /** When the fact happened, ISO 8601 UTC with milliseconds. */
  occurred_at: string;
  /** When it was appended, ISO 8601 UTC with milliseconds. */
  recorded_at: string;
  correlation_id: string;
  causation_id?: string;
  /** Who caused it: `key:<id>`, `session:<tris or wallet>`, `cli`, `job:<kind>`, or `wallet:<address>` for an imported on-chain history. */
  actor: string;
  /** SHA-256, hex, of the validated command without server-filled fields. */
  body_hash: string;
  /** SHA-256, hex, of (key id, method, path, Idempotency-Key), where the request carried a key. */
  idempotency?: string;
  /** This event's index in its append, and the append's size. */
  index: number;
  size: number;
}

export interface NewEvent {
  /** UUIDv5 of (stream, body_hash, ordinal): a retry carries the same ids. */
  id: string;
  type: string;
  data: JsonObject;
  metadata: EventMetadata;
}

export interface RecordedEvent extends NewEvent {
  stream: string;
  /** Place in the stream, from 0. */
  revision: number;
  position: Position;
  /** Only on an event that cannot be read: its place is known, and nothing else of it is to be relied on. */
  damage?: Damage;
}

export interface Damage {
  /** A clause about the event. */
  reason: string;
  /** The identity that it is about, where that is certain. */
  tris_id: string | null;
}
