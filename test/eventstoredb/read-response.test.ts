import shared from '@eventstore/db-client/generated/shared_pb.js';
import streams from '@eventstore/db-client/generated/streams_pb.js';
import { readResponse } from '../../src/stores/eventstoredb/messages.js';

/** Messages as the client's own classes encode them. */

const { ReadResp } = streams;
const { ReadEvent } = ReadResp;

const STREAM = 'action-\u00e9';
const ID = '0e8c2f0a-5d3a-4f44-9f0b-1f2f3a4b5c6d';
const [METADATA, DATA] = ['{"index":0,"size":1}', '{"name":"\u00e9"}'];

function recorded(contentType = 'application/json'): streams.ReadResp.ReadEvent.RecordedEvent {
  const id = new shared.UUID();
  id.setString(ID);
  const stream = new shared.StreamIdentifier();
  stream.setStreamName(Buffer.from(STREAM));
  const event = new ReadEvent.RecordedEvent();
  event.setId(id);
  event.setStreamIdentifier(stream);
  event.setStreamRevision('7');
  event.setPreparePosition('5000000000000');
  event.setCommitPosition('5000000000001');
  event.getMetadataMap().set('type', 'ActionRelayed').set('created', '17').set('content-type', contentType);
  event.setCustomMetadata(Buffer.from(METADATA));
  event.setData(Buffer.from(DATA));
  return event;
}

function response(fill: (response: streams.ReadResp) => void): Buffer {
  const message = new ReadResp();
  fill(message);
  return Buffer.from(message.serializeBinary());
}

function eventResponse(fill: (event: streams.ReadResp.ReadEvent) => void): Buffer {
  const event = new ReadEvent();
  fill(event);
  return response((message) => message.setEvent(event));
}

test('a record is decoded with all that is used of it, and the rest is skipped', () => {
  const bytes = eventResponse((event) => {
    event.setEvent(recorded());
    event.setCommitPosition('5000000000001');
  });
  const record = readResponse(bytes);
  if (record === 'no record') throw new Error(record);
  const { metadata, data, ...fields } = record;
  expect(fields).toEqual({
    id: ID,
    stream: STREAM,
    type: 'ActionRelayed',
    revision: 7,
    position: 5_000_000_000_001,
    isJson: true,
  });
  expect([metadata.toString(), data.toString()]).toEqual([METADATA, DATA]);
});

test('data that is not JSON is told apart', () => {
  const bytes = eventResponse((event) => event.setEvent(recorded('application/octet-stream')));
  expect(readResponse(bytes)).toMatchObject({ isJson: false });
});

test.each([
  ['the stream is not there', response((message) => message.setStreamNotFound(new ReadResp.StreamNotFound()))],
  ['the first position of a stream', response((message) => message.setFirstStreamPosition('3'))],
  ['an event whose link leads nowhere', eventResponse((event) => event.setLink(recorded()))],
  ['nothing', Buffer.alloc(0)],
])('a message without a record: %s', (_, bytes) => {
  expect(readResponse(bytes)).toBe('no record');
});

test('a message that is cut anywhere within its record is refused', () => {
  const whole = eventResponse((event) => event.setEvent(recorded()));
  for (let length = 1; length < whole.length; length++) {
    expect(() => readResponse(whole.subarray(0, length))).toThrow();
  }
});
