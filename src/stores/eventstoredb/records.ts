import { type JsonObject, isObject } from '../../kernel/json.js';
import type { EventMetadata, RecordedEvent } from '../../kernel/event.js';
import { Problem } from '../../kernel/problems.js';
import { DamagedLog } from './connection.js';
import type { ServerRecord } from './messages.js';

/** The stream with one event, which contains the id of the log. It belongs to the adapter. */
export const LOG_STREAM = 'credence-log';

/** Whether readers of the log skip a stream, so that no fact may be appended to it. */
export function isReserved(stream: string): boolean {
  return stream.startsWith('$') || stream === LOG_STREAM;
}

/** Events of the server itself (statistics, stream metadata, links of its projections) and of this adapter. */
export function isDomain({ stream, type }: ServerRecord): boolean {
  return !isReserved(stream) && !type.startsWith('$');
}

/** The stream of facts that a record of the server cuts: it deletes events of it, or says which ones expire. */
export function cutStream({ stream, type, data }: ServerRecord): string | undefined {
  const isCut = type === '$metadata' && /"\$(tb|maxCount|maxAge)"/.test(data.toString());
  const cut = isCut ? stream.slice('$$'.length) : stream;
  return (isCut || type === '$streamDeleted') && !isReserved(cut) ? cut : undefined;
}

/** @throws DamagedLog for an event that was not written by Credence */
export function recordedEvent({ id, type, stream, revision, position, isJson, ...bytes }: ServerRecord): RecordedEvent {
  const data = isJson ? parsed(bytes.data) : undefined;
  const metadata = parsed(bytes.metadata);
  const isOurs = isObject(data) && isObject(metadata) && [metadata['index'], metadata['size']].every(Number.isInteger);
  if (!isOurs) {
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
    revision,
    position,
  };
}

/** Refuses a stream of which an operator has deleted events. */
export function unreadable(stream: string): Problem {
  const detail = `${stream} cannot be read: events of it were deleted in EventStoreDB. An operator must restore them.`;
  return new Problem('history_unreadable', detail);
}

/** Undefined if it is not JSON. */
function parsed(bytes: Buffer): unknown {
  try {
    return JSON.parse(bytes.toString());
  } catch {
    return undefined;
  }
}
