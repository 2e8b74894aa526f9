import type { RecordedEvent as ServerEvent } from '@eventstore/db-client';
import { type JsonObject, isObject } from '../../kernel/json.js';
import type { EventMetadata, Position, RecordedEvent } from '../../kernel/event.js';
import { DamagedLog } from './connection.js';

/** The stream with one event, which contains the id of the log. It belongs to the adapter. */
export const LOG_STREAM = 'credence-log';

/** Whether readers of the log skip a stream, so that no fact may be appended to it. */
export function isReserved(stream: string): boolean {
  return stream.startsWith('$') || stream === LOG_STREAM;
}

/** Events of the server itself (statistics, stream metadata, links of its projections) and of this adapter. */
export function isDomain({ streamId, type }: ServerEvent): boolean {
  return !isReserved(streamId) && !type.startsWith('$');
}

/** The commit position: the same for every reader, and different for each event, also within one append. */
export function positionOf({ position }: ServerEvent): Position {
  return Number(position!.commit);
}

/** @throws DamagedLog for an event that was not written by Credence */
export function recordedEvent(event: ServerEvent): RecordedEvent {
  const { id, type, data, streamId: stream, revision } = event;
  const metadata = event.metadata as EventMetadata | undefined;
  // Malformed JSON arrives as text, other content as bytes.
  const ours =
    isObject(data) && !(data instanceof Uint8Array) && isObject(metadata) && Number.isInteger(metadata['index']);
  if (!ours || !Number.isInteger(metadata['size'])) {
    throw new DamagedLog(
      `event ${id} (${type}) in stream ${stream} of EventStoreDB was not written by Credence: ` +
        'Credence needs a database of its own',
    );
  }
  return {
    id,
    type,
    data: data as JsonObject,
    metadata: metadata as unknown as EventMetadata,
    stream,
    revision: Number(revision),
    position: positionOf(event),
  };
}
