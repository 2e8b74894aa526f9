import { randomUUID } from 'node:crypto';
import { eventId } from '../../src/stores/ports/event-encoding.js';
import type { NewEvent } from '../../src/kernel/event.js';
import type { EventStore } from '../../src/stores/ports/event-store.js';
import { sha256Hex } from '../../src/kernel/hash.js';
import type { JsonObject } from '../../src/kernel/json.js';

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

/** Appends an action as another build would have: this one cannot decode its data or its schema. Answers its id. */
export function plantAction(store: EventStore, data: JsonObject, schema = 1): Promise<string> {
  return plantEvent(store, newStream('action'), 'ActionRelayed', data, schema);
}

/** The same with an event of any type, at the end of a stream. */
export async function plantEvent(
  store: EventStore,
  stream: string,
  type: string,
  data: JsonObject,
  schema = 1,
): Promise<string> {
  const id = randomUUID();
  const now = new Date().toISOString();
  const metadata = {
    schema,
    occurred_at: now,
    recorded_at: now,
    correlation_id: id,
    actor: 'key:test',
    body_hash: '0'.repeat(64),
    index: 0,
    size: 1,
  };
  const { length } = await store.readStream(stream);
  await store.append(stream, length === 0 ? 'no-stream' : length - 1, [{ id, type, data, metadata }]);
  return id;
}
