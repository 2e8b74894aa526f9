import { parseUUID } from '@eventstore/db-client/dist/utils/grpcUUID.js';
import shared from '@eventstore/db-client/generated/shared_pb.js';
import status from '@eventstore/db-client/generated/status_pb.js';
import streams from '@eventstore/db-client/generated/streams_pb.js';
import type { ExpectedRevision } from '../../src/stores/ports/event-store.js';
import { appendRequest, appendResponse } from '../../src/stores/eventstoredb/messages.js';
import { sampleEvents } from '../contracts/sample-events.js';

/** Messages against the client's own classes. */

const { BatchAppendReq, BatchAppendResp } = streams;

const ID = '0e8c2f0a-5d3a-4f44-9f0b-1f2f3a4b5c6d';
const STREAM = 'action-\u00e9';

describe('a request', () => {
  test.each<[ExpectedRevision, object]>([
    ['any', { any: true }],
    ['no-stream', { noStream: true }],
    [0, { revision: '0' }],
    [7, { revision: '7' }],
    [2 ** 40 + 1, { revision: String(2 ** 40 + 1) }],
  ])('expects the revision %p', (expected, sent) => {
    const options = sentBy(appendRequest(ID, STREAM, expected, sampleEvents(STREAM, 1))).getOptions()!;
    expect({
      ...(options.hasAny() && { any: true }),
      ...(options.hasNoStream() && { noStream: true }),
      ...(options.hasStreamPosition() && { revision: options.getStreamPosition() }),
    }).toEqual(sent);
    expect(options.hasStreamExists() || options.hasDeadline()).toBe(false);
  });

  test('holds the whole append', () => {
    const events = sampleEvents(STREAM, 3).map((event) => ({
      ...event,
      data: { ...event.data, name: '\u00e9"\u{1f600}' },
    }));
    const request = sentBy(appendRequest(ID, STREAM, 'any', events));
    expect(parseUUID(request.getCorrelationId())).toBe(ID);
    expect(request.getIsFinal()).toBe(true);
    expect(Buffer.from(request.getOptions()!.getStreamIdentifier()!.getStreamName_asU8()).toString()).toBe(STREAM);
    const sent = request.getProposedMessagesList().map((message) => ({
      id: parseUUID(message.getId()),
      system: Object.fromEntries(message.getMetadataMap().getEntryList()),
      metadata: JSON.parse(Buffer.from(message.getCustomMetadata_asU8()).toString()) as unknown,
      data: JSON.parse(Buffer.from(message.getData_asU8()).toString()) as unknown,
    }));
    expect(sent).toEqual(
      events.map(({ id, type, metadata, data }) => ({
        id,
        system: { type, 'content-type': 'application/json' },
        metadata,
        data,
      })),
    );
  });

  function sentBy(bytes: Buffer): streams.BatchAppendReq {
    return BatchAppendReq.deserializeBinary(bytes);
  }
});

describe('a response', () => {
  test.each([ID, '00000000-0000-0000-0000-000000000001', 'ffffffff-ffff-4fff-bfff-ffffffffffff'])(
    'to the request %s names where the append is',
    (id) => {
      for (const uuid of [asText(id), asIntegers(id)]) {
        expect(appendResponse(success(uuid))).toEqual({ id, position: 5_000_000_000_001, revision: 7 });
      }
    },
  );

  test('with an error is left to the client', () => {
    const error = new status.Status();
    error.setMessage('no');
    const response = new BatchAppendResp();
    response.setCorrelationId(asIntegers(ID));
    response.setError(error);
    const decoded = appendResponse(Buffer.from(response.serializeBinary()));
    if (!('error' in decoded)) throw new Error('no error');
    expect([decoded.id, decoded.error.getMessage()]).toEqual([ID, 'no']);
  });

  test('without an outcome, or cut anywhere within it, is refused', () => {
    const response = new BatchAppendResp();
    response.setCorrelationId(asIntegers(ID));
    const whole = success(asIntegers(ID));
    const start = response.serializeBinary().length;
    for (let length = start; length < whole.length; length++) {
      expect(() => appendResponse(whole.subarray(0, length))).toThrow();
    }
  });

  function success(id: shared.UUID): Buffer {
    const position = new shared.AllStreamPosition();
    position.setCommitPosition('5000000000001');
    position.setPreparePosition('5000000000000');
    const done = new BatchAppendResp.Success();
    done.setCurrentRevision('7');
    done.setPosition(position);
    const response = new BatchAppendResp();
    response.setCorrelationId(id);
    response.setSuccess(done);
    return Buffer.from(response.serializeBinary());
  }

  function asText(id: string): shared.UUID {
    const uuid = new shared.UUID();
    uuid.setString(id);
    return uuid;
  }

  function asIntegers(id: string): shared.UUID {
    const bits = BigInt(`0x${id.replaceAll('-', '')}`);
    const structured = new shared.UUID.Structured();
    structured.setMostSignificantBits(String(BigInt.asIntN(64, bits >> 64n)));
    structured.setLeastSignificantBits(String(BigInt.asIntN(64, bits)));
    const uuid = new shared.UUID();
    uuid.setStructured(structured);
    return uuid;
  }
});
