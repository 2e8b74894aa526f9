import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { createInterface } from 'node:readline';
import { canonicalJson } from '../kernel/hash.js';
import type { NewEvent, Position, RecordedEvent } from '../kernel/event.js';
import { type Appended, AppendRefused, type EventStore, WrongExpectedRevision } from './ports/event-store.js';

/** One line of an export: an event with everything that makes it that event. */
type ExportedEvent = RecordedEvent;

/** An export that cannot be read into this log; the message names the line or event. Nothing of an append is half written. */
export class TransferError extends Error {
  override readonly name = 'TransferError';
}

const IN_FLIGHT = 1_000;

/** Events in log order, all or those that `wanted` accepts. */
export async function* exportEvents(
  store: EventStore,
  wanted: (event: RecordedEvent) => boolean = () => true,
): AsyncIterable<ExportedEvent> {
  for await (const slice of store.readAll(0, { sliceSize: 5_000 })) {
    for (const event of slice) if (wanted(event)) yield event;
  }
}

/**
 * Appends events with their ids, times and order to a log that is empty or holds the beginning of the same ones (an
 * import that was interrupted), which is compared and skipped.
 * @param appends the events, grouped as they were appended, in the order of their log
 * @throws TransferError for what is no event, a log that holds or takes something else, or one whose order cannot be kept
 */
export async function importEvents(
  appends: AsyncIterable<readonly RecordedEvent[]>,
  store: EventStore,
  onProgress: (events: number) => void = () => undefined,
): Promise<{ events: number; appended: number }> {
  const present = exportEvents(store)[Symbol.asyncIterator]();
  let events = 0;
  let appended = 0;
  let inFlight: Promise<Appended>[] = [];
  let last: Position = 0;
  const settle = async () => {
    for (const { position } of await Promise.all(inFlight)) {
      // Sent together and stored in turn; where that is not kept, nothing can repair it.
      if (position <= last)
        throw new TransferError('The log took events in another order: begin anew with an empty one.');
      last = position;
    }
    inFlight = [];
    onProgress(events);
  };
  try {
    for await (const append of appends) {
      events += append.length;
      if (appended === 0 && (await isPresent(append, present, events))) continue;
      const sent = send(append, store);
      sent.catch(() => undefined); // `settle` throws it; it may come before, while the next append is awaited
      inFlight.push(sent);
      appended += append.length;
      if (inFlight.length >= IN_FLIGHT) await settle();
    }
    await settle();
  } finally {
    await Promise.allSettled(inFlight);
    // Its reader may hold a connection open.
    await present.return?.();
  }
  return { events, appended };
}

/** @throws TransferError for what the log refuses, StoreUnavailable */
async function send(append: readonly ExportedEvent[], store: EventStore): Promise<Appended> {
  const { id, stream, revision } = append[0]!;
  try {
    return await store.append(stream, revision === 0 ? 'no-stream' : revision - 1, append.map(newEventOf));
  } catch (error) {
    if (!(error instanceof AppendRefused || error instanceof WrongExpectedRevision)) throw error;
    throw new TransferError(
      `The log refuses event ${id}, revision ${revision} of ${stream}: ${error.message}. Begin anew with an empty one.`,
    );
  }
}

/** A log's events, grouped as they were appended. */
export async function* appendsOf(store: EventStore): AsyncIterable<RecordedEvent[]> {
  let append: RecordedEvent[] = [];
  for await (const event of exportEvents(store)) {
    append.push(event);
    if (event.metadata.index < event.metadata.size - 1) continue;
    yield append;
    append = [];
  }
}

/**
 * SHA-256, hex, over every event in order, each with its stream, revision, id, type, data and metadata, in canonical
 * JSON. Positions are left out: they are each log's own.
 */
export async function hashLog(
  store: EventStore,
  onProgress: (events: number) => void = () => undefined,
): Promise<{ events: number; hash: string }> {
  const hash = createHash('sha256');
  let events = 0;
  for await (const slice of store.readAll(0, { sliceSize: 5_000 })) {
    for (const { stream, revision, id, type, data, metadata } of slice) {
      hash.update(`${canonicalJson({ stream, revision, id, type, data, metadata })}\n`);
    }
    onProgress((events += slice.length));
  }
  return { events, hash: hash.digest('hex') };
}

/** Is the next append of the log this one? False at the log's end. @throws TransferError if it is another one */
async function isPresent(
  append: readonly ExportedEvent[],
  present: AsyncIterator<RecordedEvent>,
  events: number,
): Promise<boolean> {
  for (const [i, { id, stream }] of append.entries()) {
    const { done, value: there } = await present.next();
    if (done && i === 0) return false;
    if (done || there.id !== id || there.stream !== stream) {
      throw new TransferError(`The log holds something else at event ${events}: import into an empty store.`);
    }
  }
  return true;
}

function newEventOf({ id, type, data, metadata }: RecordedEvent): NewEvent {
  return { id, type, data, metadata };
}

/** The lines of an export, grouped as they were appended. @throws TransferError */
export async function* appendsIn(file: string): AsyncIterable<RecordedEvent[]> {
  let append: RecordedEvent[] = [];
  let line = 0;
  for await (const text of createInterface({ input: createReadStream(file), crlfDelay: Infinity })) {
    line++;
    if (text === '') continue;
    const event = parse(text, line);
    append.push(event);
    if (event.metadata.index === event.metadata.size - 1) {
      yield append;
      append = [];
    }
  }
  if (append.length > 0) throw new TransferError(`The file ends in the middle of an append, at line ${line}.`);
}

function parse(text: string, line: number): RecordedEvent {
  try {
    const event = JSON.parse(text) as RecordedEvent;
    const { id, type, stream, revision, data, metadata } = event;
    const texts = [id, type, stream].every((value) => typeof value === 'string');
    if (texts && Number.isInteger(revision) && typeof data === 'object' && typeof metadata?.size === 'number')
      return event;
  } catch {
    // Told below, as for a line that is JSON but no event.
  }
  throw new TransferError(`Line ${line} is not an exported event.`);
}
