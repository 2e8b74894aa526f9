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
  /**
   * Who caused it: `key:<id>`, `session:<tris or wallet>`, `cli:<user>`, `job:<kind>`, `start` (of a new log), or
   * `wallet:<address>` for an imported on-chain history.
   */
  actor: string;
  /** SHA-256, hex, of the validated command without server-filled fields. */
  body_hash: string;
  /** SHA-256, hex, of (key id, method, path, Idempotency-Key), if the request had an Idempotency-Key. */
  idempotency?: string;
  /** `traceparent` (W3C Trace Context) of the command, if it was traced: as the extension of CloudEvents of this name. */
  traceparent?: string;
  /** This event's index in its append, and the append's size. */
  index: number;
  size: number;
  /** 16 random bytes, hex, made with the event: what its leaf is salted with (docs/decisions/0034). Absent before. */
  salt?: string;
}

export interface NewEvent {
  /** UUIDv5 of (stream, body_hash, ordinal): a retry has the same ids. */
  id: string;
  type: string;
  data: JsonObject;
  metadata: EventMetadata;
}

export interface RecordedEvent extends NewEvent {
  stream: string;
  /** Index in the stream, from 0. */
  revision: number;
  position: Position;
  /** Only on an event that cannot be read: its position is known; its other fields cannot be trusted. */
  damage?: Damage;
}

export interface Damage {
  /** What is wrong with the event, as a clause. */
  reason: string;
  /** The identity that the event is about, if that is certain. */
  tris_id: string | null;
}
