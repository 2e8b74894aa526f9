import { createHash } from 'node:crypto';
import { EVENT_ID } from '../kernel/identifiers.js';
import { canonicalJson } from '../kernel/hash.js';
import { addLeaf, base64Of, leafOf, rootOfPeaks } from '../kernel/merkle.js';
import { readLines } from '../kernel/lines.js';
import type { Position, RecordedEvent } from '../kernel/event.js';
import { type Appended, AppendRefused, type EventStore, WrongExpectedRevision } from './ports/event-store.js';

/** An export cannot be imported into this log; the message names the line or event. No append is partly written. */
export class TransferError extends Error {
  override readonly name = 'TransferError';
}

/** Events read at once. */
const SLICE = 5_000;
/** Appends that are sent before their outcomes are awaited. */
const IN_FLIGHT = 1_000;
/** Bytes of a line of an export: more than the largest append and the name of its stream take. */
const MAX_LINE_BYTES = 2 ** 20;

/**
 * The last line of an export: the number of events before it, the number of events left out because they are damaged,
 * the SHA-256 of the lines, and the identity if it has only the events about one.
 */
interface Trailer {
  end_of_export: { events: number; damaged: number; sha256: string; about?: string | undefined };
}

interface ExportOptions {
  /** The identity that the events are about, if they are not all. */
  about?: string | undefined;
  onProgress?: (read: number, written: number) => void;
  /** Called for each event that cannot be read and is left out. */
  onDamage?: (event: RecordedEvent) => void;
}

/**
 * The lines of an export, about a thousand per text, and at the end the trailer, which lets an import detect a
 * truncated or changed file.
 * @param wanted selects the events
 */
export async function* exportLines(
  store: EventStore,
  wanted: (event: RecordedEvent) => boolean = () => true,
  { about, onProgress, onDamage }: ExportOptions = {},
): AsyncIterable<string> {
  const hash = createHash('sha256');
  let [read, events, damaged] = [0, 0, 0];
  for await (const slice of store.readAll(0, { sliceSize: SLICE })) {
    const lines = slice.filter(wanted).flatMap((event) => {
      if (!event.damage) return `${JSON.stringify(event)}\n`;
      onDamage?.(event);
      damaged++;
      return [];
    });
    const text = lines.join('');
    hash.update(text);
    events += lines.length;
    read += slice.length;
    onProgress?.(read, events);
    if (text !== '') yield text;
  }
  const trailer: Trailer = { end_of_export: { events, damaged, sha256: hash.digest('hex'), about } };
  yield `${JSON.stringify(trailer)}\n`;
}

/** All events, in log order. */
export async function* exportEvents(store: EventStore): AsyncIterable<RecordedEvent> {
  for await (const slice of store.readAll(0, { sliceSize: SLICE })) yield* slice;
}

/**
 * Appends events with their ids, times and order to a log that is empty or contains the first of them (an interrupted
 * import), which are compared and skipped.
 * @param appends the events, grouped as they were appended, in the order of their log
 * @throws TransferError for an invalid event, for a log with other events or whose other writers append, and if the
 * order cannot be kept
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
      // Sent together and stored in order. If the order is not kept, it cannot be repaired.
      if (position <= last)
        throw new TransferError('The log stored the events in another order: start again with an empty log.');
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
      sent.catch(() => undefined); // `settle` throws this error; it may occur earlier, while the next append is awaited
      inFlight.push(sent);
      appended += append.length;
      if (inFlight.length >= IN_FLIGHT) await settle();
    }
    await settle();
  } finally {
    await Promise.allSettled(inFlight);
    // The reader may keep a connection open.
    await present.return?.();
  }
  return { events, appended };
}

/** @throws TransferError if the log refuses the append, StoreUnavailable */
async function send(append: readonly RecordedEvent[], store: EventStore): Promise<Appended> {
  const { id, stream, revision } = append[0]!;
  try {
    const events = append.map(({ id, type, data, metadata }) => ({ id, type, data, metadata }));
    return await store.append(stream, revision === 0 ? 'no-stream' : revision - 1, events);
  } catch (error) {
    if (!(error instanceof AppendRefused || error instanceof WrongExpectedRevision)) throw error;
    throw new TransferError(
      `The log refuses event ${id}, revision ${revision} of ${stream}: ${error.message}. Start again with an empty log.`,
    );
  }
}

/** A log's events, grouped as they were appended. */
export async function* appendsOf(store: EventStore): AsyncIterable<RecordedEvent[]> {
  let append: RecordedEvent[] = [];
  for await (const event of exportEvents(store)) {
    append.push(readable(event));
    if (event.metadata.index < event.metadata.size - 1) continue;
    yield append;
    append = [];
  }
}

/** The root, in base64, of the tree over every event in order. Positions are left out, since they differ between logs. */
export async function rootOfLog(
  store: EventStore,
  onProgress: (events: number) => void = () => undefined,
): Promise<{ events: number; root: string }> {
  const peaks: string[] = [];
  let events = 0;
  for await (const slice of store.readAll(0, { sliceSize: SLICE })) {
    for (const event of slice) addLeaf(peaks, events++, leafOf(readable(event)));
    onProgress(events);
  }
  return { events, root: base64Of(rootOfPeaks(peaks)) };
}

/**
 * Whether this is the next append of the log; false at the log's end.
 * @throws TransferError if the log has another one there
 */
async function isPresent(
  append: readonly RecordedEvent[],
  present: AsyncIterator<RecordedEvent>,
  events: number,
): Promise<boolean> {
  for (const [i, { id, stream }] of append.entries()) {
    const { done, value: there } = await present.next();
    if (done && i === 0) return false;
    if (done || there.id !== id || there.stream !== stream || contentOf(there) !== contentOf(append[i]!)) {
      throw new TransferError(`The log contains a different event ${events}: import into an empty store.`);
    }
  }
  return true;
}

/** @throws TransferError for a damaged event */
function readable(event: RecordedEvent): RecordedEvent {
  if (!event.damage) return event;
  throw new TransferError(`The event at position ${event.position} is damaged: ${event.damage.reason}.`);
}

/** The content of an event without its position. @throws TransferError for an invalid event */
function contentOf({ stream, revision, id, type, data, metadata }: RecordedEvent): string {
  try {
    return canonicalJson({ stream, revision, id, type, data, metadata });
  } catch (error) {
    throw new TransferError(`Event ${id}, revision ${revision} of ${stream}, is invalid: ${(error as Error).message}.`);
  }
}

/** Whether a file is an export of events rather than a list of actions, by its first line. */
export async function isExport(file: string): Promise<boolean> {
  for await (const { text } of linesOf(file)) {
    try {
      const first = JSON.parse(text ?? '') as object;
      return isTrailer(first) || ('stream' in first && 'revision' in first && 'metadata' in first);
    } catch {
      return false;
    }
  }
  return false;
}

/** @throws TransferError unless the file ends with a trailer that matches its content */
export async function checkExport(file: string): Promise<void> {
  const end = await endOfExport(file);
  if (!end) {
    throw new TransferError(
      `${file} has no last line with count and digest: it was truncated, or an older build wrote it. Nothing was ` +
        'imported; --incomplete imports the events that it contains.',
    );
  }
  if (end.damaged > 0) {
    throw new TransferError(
      `${file} lacks ${end.damaged} events that were damaged in their log: nothing was imported; --incomplete imports ` +
        'the others, if none of them follows a damaged one in its stream.',
    );
  }
  if (end.changed) throw new TransferError(`${file} ${end.changed} since it was exported: nothing was imported.`);
}

/**
 * What the trailer of an export says of it; undefined without one.
 * @returns changed: how the file differs from what its trailer says, undefined if it does not
 * @throws TransferError for a file that goes on after it
 */
export async function endOfExport(
  file: string,
): Promise<{ damaged: number; about: string | undefined; changed: string | undefined } | undefined> {
  const hash = createHash('sha256');
  let events = 0;
  let trailer: Trailer | undefined;
  for await (const line of linesOf(file)) {
    if (trailer) throw new TransferError(`${file} has lines after its trailer: it is not one export.`);
    const text = textOf(line);
    trailer = trailerIn(text);
    if (trailer) continue;
    hash.update(`${text}\n`);
    events++;
  }
  if (!trailer) return undefined;
  const { end_of_export: end } = trailer;
  const isSame = end.events === events && end.sha256 === hash.digest('hex');
  const what = end.events === events ? 'was changed' : `has changed from ${end.events} to ${events} events`;
  return { damaged: end.damaged, about: end.about, changed: isSame ? undefined : what };
}

/**
 * The events of an export, grouped as they were appended.
 * @param onCut for a file that was cut off: takes the number of the line at which its last append, which is not
 * whole, begins. Without it, such a file is refused.
 * @throws TransferError
 */
export async function* appendsIn(file: string, onCut?: (line: number) => void): AsyncIterable<RecordedEvent[]> {
  let append: RecordedEvent[] = [];
  /** The line at which it begins. */
  let begin = 0;
  let last = 0;
  let unread: TransferError | undefined;
  for await (const line of linesOf(file)) {
    if (unread) throw unread;
    last = line.number;
    const text = textOf(line);
    if (trailerIn(text)) continue;
    if (append.length === 0) begin = last;
    const event = eventIn(text);
    if (!event) {
      unread = new TransferError(`Line ${last} is not an exported event.`);
      // It may be cut off: then it is the last line.
      if (onCut) continue;
      throw unread;
    }
    if (!continues(append, event)) throw new TransferError(`Line ${last} is not the next event of its append.`);
    append.push(event);
    if (event.metadata.index === event.metadata.size - 1) {
      yield append;
      append = [];
    }
  }
  if (append.length === 0 && !unread) return;
  if (!onCut) throw new TransferError(`The file ends in the middle of an append, at line ${last}.`);
  onCut(begin);
}

/** Whether an event is the next of the append that these events begin. */
function continues(append: readonly RecordedEvent[], { stream, revision, metadata }: RecordedEvent): boolean {
  const first = append[0] ?? { stream, revision, metadata };
  const isInOrder = revision === first.revision + append.length && metadata.index === append.length;
  return isInOrder && stream === first.stream && metadata.size === first.metadata.size;
}

interface TextLine {
  number: number;
  /** Null: it is longer than any event. */
  text: string | null;
}

/** The lines of a file that are not blank. */
async function* linesOf(file: string): AsyncIterable<TextLine> {
  for await (const { lines } of readLines(file, MAX_LINE_BYTES)) {
    for (const { number, bytes } of lines) yield { number, text: bytes && bytes.toString().replace(/\r$/, '') };
  }
}

/** @throws TransferError */
function textOf({ number, text }: TextLine): string {
  if (text === null) throw new TransferError(`Line ${number} is longer than any event: it is not an exported event.`);
  return text;
}

function trailerIn(line: string): Trailer | undefined {
  if (!line.startsWith('{"end_of_export"')) return undefined;
  try {
    const trailer = JSON.parse(line) as object;
    return isTrailer(trailer) ? trailer : undefined;
  } catch {
    return undefined;
  }
}

function isTrailer(line: object): line is Trailer {
  return typeof (line as Partial<Trailer>).end_of_export?.sha256 === 'string';
}

function eventIn(line: string): RecordedEvent | undefined {
  try {
    const event = JSON.parse(line) as RecordedEvent;
    const { id, type, stream, revision, data, metadata } = event;
    const isNamed = EVENT_ID.test(id) && [type, stream].every((value) => typeof value === 'string');
    const isPlaced = Number.isInteger(revision) && typeof metadata?.size === 'number';
    return isNamed && isPlaced && typeof data === 'object' ? event : undefined;
  } catch {
    return undefined;
  }
}
