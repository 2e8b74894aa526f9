import protobuf, { type Reader } from 'protobufjs/minimal.js';
import { endOf, field, skip, uint64 } from './wire-format.js';

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

/**
 * Decodes a `ReadResp` of EventStoreDB's streams.proto, as far as it is needed here (docs/decisions/0031). Each function
 * below reads one message of that file; the numbers are those of its fields.
 * @throws Error for bytes that are no such message
 */
export function readResponse(bytes: Buffer): ReadResponse {
  const reader = protobuf.Reader.create(bytes);
  let response: ReadResponse = 'no record';
  while (reader.pos < reader.len) {
    const tag = reader.uint32();
    if (field(tag) === 1) response = readEvent(reader) ?? response;
    else skip(reader, tag);
  }
  return response;
}

/** A link to an event is not followed by any reader here. */
function readEvent(reader: Reader): ServerRecord | undefined {
  let record: ServerRecord | undefined;
  for (const end = endOf(reader); reader.pos < end;) {
    const tag = reader.uint32();
    if (field(tag) === 1) record = recordedEvent(reader);
    else skip(reader, tag);
  }
  return record;
}

const NOTHING = Buffer.alloc(0);

function recordedEvent(reader: Reader): ServerRecord {
  const record: ServerRecord = {
    id: '',
    stream: '',
    type: '',
    revision: 0,
    position: 0,
    isJson: false,
    metadata: NOTHING,
    data: NOTHING,
  };
  for (const end = endOf(reader); reader.pos < end;) {
    const tag = reader.uint32();
    switch (field(tag)) {
      case 1:
        // Requests ask for ids as text.
        record.id = textIn(reader, 2);
        break;
      case 2:
        record.stream = textIn(reader, 3);
        break;
      case 3:
        record.revision = uint64(reader);
        break;
      case 5:
        record.position = uint64(reader);
        break;
      case 6:
        systemMetadata(reader, record);
        break;
      case 7:
        record.metadata = reader.bytes() as Buffer;
        break;
      case 8:
        record.data = reader.bytes() as Buffer;
        break;
      default:
        skip(reader, tag);
    }
  }
  return record;
}

/** An entry of the map of texts by name that the server keeps with an event. */
function systemMetadata(reader: Reader, record: ServerRecord): void {
  let [key, value] = ['', ''];
  for (const end = endOf(reader); reader.pos < end;) {
    const tag = reader.uint32();
    if (field(tag) === 1) key = reader.string();
    else if (field(tag) === 2) value = reader.string();
    else skip(reader, tag);
  }
  if (key === 'type') record.type = value;
  else if (key === 'content-type') record.isJson = value === 'application/json';
}

/** The text in one field of a message. */
function textIn(reader: Reader, number: number): string {
  let text = '';
  for (const end = endOf(reader); reader.pos < end;) {
    const tag = reader.uint32();
    if (field(tag) === number) text = reader.string();
    else skip(reader, tag);
  }
  return text;
}
