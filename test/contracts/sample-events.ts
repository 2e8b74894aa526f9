import { randomUUID } from 'node:crypto';
import { eventId } from '../../src/event-store/encoding.js';
import type { NewEvent } from '../../src/event-store/event-store.js';
import { sha256Hex } from '../../src/hash.js';
import type { JsonObject } from '../../src/json.js';

/** A name that no other test uses: stores may be shared. */
export function newStream(category = 'sample'): string {
  return `${category}-${randomUUID()}`;
}

/** The events of one append, as a retry of the same command (stream, body) would carry them again. */
export function sampleEvents(stream: string, size = 1, body: JsonObject = { amount: 1 }): NewEvent[] {
  const body_hash = sha256Hex(JSON.stringify(body));
  return Array.from({ length: size }, (_, index) => ({
    id: eventId(stream, body_hash, index),
    type: 'SampleHappened',
    data: { ...body, index },
    metadata: {
      schema: 1,
      occurred_at: '2026-03-01T10:00:00.000Z',
      recorded_at: '2026-03-01T10:00:01.000Z',
      correlation_id: 'c0ffee',
      actor: 'key:test',
      body_hash,
      index,
      size,
    },
  }));
}
