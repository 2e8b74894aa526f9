import streams from '@eventstore/db-client/generated/streams_pb.js';
import protobuf from 'protobufjs';
import type { NewEvent } from '../../kernel/event.js';
import type { Appended, ExpectedRevision } from '../ports/event-store.js';

/**
 * The messages of EventStoreDB's streams.proto that are sent or arrive often, with the fields that are used here
 * (docs/decisions/0031). Other fields are skipped. What is text here may be bytes there, which is the same on the wire.
 */
const { root } = protobuf.parse(`
  syntax = "proto3";
  message UUID { Structured structured = 1; string text = 2; }
  message Structured { int64 most = 1; int64 least = 2; }
  message Empty {}
  message StreamIdentifier { string name = 3; }

  message ReadReq { ReadOptions options = 1; }
  message ReadOptions {
    StreamOptions stream = 1; AllOptions all = 2; uint32 direction = 3; uint64 count = 5; Empty noFilter = 8;
    UUIDOption uuid = 9;
  }
  message StreamOptions { StreamIdentifier stream = 1; uint64 revision = 2; }
  message AllOptions { AllStreamPosition position = 1; Empty start = 2; Empty end = 3; }
  message UUIDOption { Empty text = 2; }
  message ReadResp { ReadEvent event = 1; }
  message ReadEvent { RecordedEvent event = 1; }
  message RecordedEvent {
    UUID id = 1; StreamIdentifier stream = 2; uint64 revision = 3; uint64 position = 5;
    map<string, string> system = 6; bytes metadata = 7; bytes data = 8;
  }

  message BatchAppendReq { UUID id = 1; Options options = 2; repeated ProposedMessage events = 3; bool isFinal = 4; }
  message Options { StreamIdentifier stream = 1; uint64 revision = 2; Empty noStream = 3; Empty any = 4; }
  message ProposedMessage { UUID id = 1; map<string, string> system = 2; string metadata = 3; string data = 4; }
  message BatchAppendResp { UUID id = 1; bytes error = 2; Success success = 3; }
  message Success { uint64 revision = 1; AllStreamPosition position = 3; }
  message AllStreamPosition { uint64 commit = 1; uint64 prepare = 2; }
`);
const ReadReq = root.lookupType('ReadReq');
const ReadResp = root.lookupType('ReadResp');
const BatchAppendReq = root.lookupType('BatchAppendReq');
const BatchAppendResp = root.lookupType('BatchAppendResp');

/** Exact up to 2^53. `high` and `low`: its halves, of 32 bits. */
interface Integer {
  high: number;
  low: number;
  toNumber(): number;
}

/** A `ReadReq`, to be answered with ids as text. @param of the option that says of what */
export function readRequest(of: { all: object } | { stream: object }, isBackward: boolean, count: number): Buffer {
  const options = { ...of, direction: isBackward ? 1 : 0, count, noFilter: {}, uuid: { text: {} } };
  return ReadReq.encode({ options }).finish() as Buffer;
}

/** A record of the log as the server sends it. */
export interface ServerRecord {
  id: string;
  stream: string;
  type: string;
  revision: number;
  /** The commit position: the same for every reader, and different for each event, also within one append. */
  position: number;
  isJson: boolean;
  /** JSON. A view of the message, as is `data`. */
  metadata: Buffer;
  data: Buffer;
}

/** Messages such as "there is no such stream" or "the end is reached" have no record. */
export type ReadResponse = ServerRecord | 'no record';

/** Decodes a `ReadResp`; no reader here follows links to events. @throws Error for bytes that are no such message */
export function readResponse(bytes: Buffer): ReadResponse {
  const { event } = ReadResp.decode(bytes) as unknown as { event?: { event?: Recorded } };
  if (!event?.event) return 'no record';
  const { id, stream, revision, position, system, metadata, data } = event.event;
  return {
    id: id?.text ?? '',
    stream: stream?.name ?? '',
    type: system['type'] ?? '',
    revision: revision.toNumber(),
    position: position.toNumber(),
    isJson: system['content-type'] === 'application/json',
    metadata,
    data,
  };
}

interface Recorded extends Pick<ServerRecord, 'metadata' | 'data'> {
  id?: { text: string };
  stream?: { name: string };
  revision: Integer;
  position: Integer;
  system: Record<string, string>;
}

/** A `BatchAppendReq` of one whole append. @param id a UUID by which the answer names it */
export function appendRequest(
  id: string,
  stream: string,
  expected: ExpectedRevision,
  events: readonly NewEvent[],
): Buffer {
  const revision =
    expected === 'any' ? { any: {} } : expected === 'no-stream' ? { noStream: {} } : { revision: expected };
  const request = {
    id: { text: id },
    options: { stream: { name: stream }, ...revision },
    events: events.map(({ id, type, data, metadata }) => ({
      id: { text: id },
      system: { 'content-type': 'application/json', type },
      metadata: JSON.stringify(metadata),
      data: JSON.stringify(data),
    })),
    isFinal: true,
  };
  return BatchAppendReq.encode(request).finish() as Buffer;
}

type Status = NonNullable<ReturnType<streams.BatchAppendResp['getError']>>;

/** What the server answers to a request, named by the request's UUID: where the append is, or why it is refused. */
export type AppendResponse = { id: string } & (Appended | { error: Status });

/** @throws Error for bytes that are no `BatchAppendResp` */
export function appendResponse(bytes: Buffer): AppendResponse {
  const answer = BatchAppendResp.decode(bytes) as unknown as Answer;
  const { id: uuid, success } = answer;
  const id = uuid?.structured ? uuidOf(uuid.structured) : (uuid?.text ?? '');
  // The client makes errors of its own class of message.
  if (Object.hasOwn(answer, 'error'))
    return { id, error: streams.BatchAppendResp.deserializeBinary(bytes).getError()! };
  if (!success) throw new Error('EventStoreDB answered an append without an outcome');
  return { id, position: success.position?.commit.toNumber() ?? 0, revision: success.revision.toNumber() };
}

interface Answer {
  id?: { text: string; structured?: { most: Integer; least: Integer } };
  success?: { revision: Integer; position?: { commit: Integer } };
}

function uuidOf({ most, least }: { most: Integer; least: Integer }): string {
  const parts = [most.high, most.low, least.high, least.low];
  const digits = parts.map((bits) => (bits >>> 0).toString(16).padStart(8, '0')).join('');
  return digits.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
}
