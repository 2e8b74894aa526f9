import streams from '@eventstore/db-client/generated/streams_pb.js';
import protobuf, { type Reader, type Writer } from 'protobufjs/minimal.js';
import type { NewEvent } from '../../kernel/event.js';
import type { Appended, ExpectedRevision } from '../ports/event-store.js';
import { endOf, field, hexOfInt64, skip, uint64 } from './wire-format.js';

/**
 * The messages of BatchAppend in EventStoreDB's streams.proto, as far as they are needed here (docs/decisions/0031). The
 * numbers are those of the fields.
 */

/** Types of a field on the wire. */
const VARINT = 0;
const LENGTH = 2;
/** An integer that is 0 is left out. */
const ZERO = '0'.repeat(16);

/** A `BatchAppendReq` of one whole append. @param id a UUID by which the answer names it */
export function appendRequest(
  id: string,
  stream: string,
  expected: ExpectedRevision,
  events: readonly NewEvent[],
): Buffer {
  const writer = protobuf.Writer.create();
  writeUuid(writer, id);
  begin(writer, 2);
  text(begin(writer, 1), 3, stream).ldelim();
  if (expected === 'any') begin(writer, 4).ldelim();
  else if (expected === 'no-stream') begin(writer, 3).ldelim();
  else writer.uint32(tagOf(2, VARINT)).uint64(expected);
  writer.ldelim();
  for (const event of events) writeEvent(begin(writer, 3), event).ldelim();
  return writer.uint32(tagOf(4, VARINT)).bool(true).finish() as Buffer;
}

function writeEvent(writer: Writer, { id, type, data, metadata }: NewEvent): Writer {
  writeUuid(writer, id);
  // A map of texts.
  text(text(begin(writer, 2), 1, 'content-type'), 2, 'application/json').ldelim();
  text(text(begin(writer, 2), 1, 'type'), 2, type).ldelim();
  return text(text(writer, 3, JSON.stringify(metadata)), 4, JSON.stringify(data));
}

function writeUuid(writer: Writer, id: string): void {
  text(begin(writer, 1), 2, id).ldelim();
}

/** A field that is a message; `ldelim` ends it. */
function begin(writer: Writer, number: number): Writer {
  return writer.uint32(tagOf(number, LENGTH)).fork();
}

function text(writer: Writer, number: number, value: string): Writer {
  return writer.uint32(tagOf(number, LENGTH)).string(value);
}

function tagOf(number: number, wireType: number): number {
  return (number << 3) | wireType;
}

type Status = NonNullable<ReturnType<streams.BatchAppendResp['getError']>>;

/** What the server answers to a request, named by the request's UUID: where the append is, or why it is refused. */
export type AppendResponse = { id: string } & (Appended | { error: Status });

/** @throws Error for bytes that are no `BatchAppendResp` */
export function appendResponse(bytes: Buffer): AppendResponse {
  const reader = protobuf.Reader.create(bytes);
  let id = '';
  let appended: Appended | undefined;
  let isRefused = false;
  while (reader.pos < reader.len) {
    const tag = reader.uint32();
    if (field(tag) === 1) {
      id = uuid(reader);
    } else if (field(tag) === 3) {
      appended = success(reader);
    } else {
      if (field(tag) === 2) isRefused = true;
      skip(reader, tag);
    }
  }
  // The client makes errors of its own class of message.
  if (isRefused) return { id, error: streams.BatchAppendResp.deserializeBinary(bytes).getError()! };
  if (!appended) throw new Error('EventStoreDB answered an append without an outcome');
  return { id, ...appended };
}

function success(reader: Reader): Appended {
  const appended = { position: 0, revision: 0 };
  for (const end = endOf(reader); reader.pos < end;) {
    const tag = reader.uint32();
    if (field(tag) === 1) appended.revision = uint64(reader);
    else if (field(tag) === 3) appended.position = commitPosition(reader);
    else skip(reader, tag);
  }
  return appended;
}

function commitPosition(reader: Reader): number {
  let position = 0;
  for (const end = endOf(reader); reader.pos < end;) {
    const tag = reader.uint32();
    if (field(tag) === 1) position = uint64(reader);
    else skip(reader, tag);
  }
  return position;
}

/** A UUID as text; the server sends it as two integers. */
function uuid(reader: Reader): string {
  let id = '';
  for (const end = endOf(reader); reader.pos < end;) {
    const tag = reader.uint32();
    if (field(tag) === 1) id = uuidOfIntegers(reader);
    else if (field(tag) === 2) id = reader.string();
    else skip(reader, tag);
  }
  return id;
}

function uuidOfIntegers(reader: Reader): string {
  const halves = { 1: ZERO, 2: ZERO };
  for (const end = endOf(reader); reader.pos < end;) {
    const tag = reader.uint32();
    const half = field(tag);
    if (half === 1 || half === 2) halves[half] = hexOfInt64(reader);
    else skip(reader, tag);
  }
  return `${halves[1]}${halves[2]}`.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
}
