import shared from '@eventstore/db-client/generated/shared_pb.js';
import grpc from '@eventstore/db-client/generated/streams_grpc_pb.js';
import streams from '@eventstore/db-client/generated/streams_pb.js';
import type { Position } from '../../kernel/event.js';
import type { Link } from './link.js';
import { type ReadResponse, readResponse } from './messages.js';
import type { ServerStream } from './server-stream.js';

/** The reads of the client, with its connection, credentials and messages, but with a decoder of their own. */

const { ReadReq } = streams;
type Options = streams.ReadReq.Options;

interface Extent {
  direction?: 'forward' | 'backward';
  maxCount?: number;
}

/** Records of the whole log. A position must be that of a record. */
export function readAll(link: Link, from: 'start' | 'end' | Position, extent: Extent = {}): Promise<ServerStream> {
  const all = new ReadReq.Options.AllOptions();
  if (from === 'start') all.setStart(new shared.Empty());
  else if (from === 'end') all.setEnd(new shared.Empty());
  else {
    const position = new ReadReq.Options.Position();
    position.setCommitPosition(String(from));
    position.setPreparePosition(String(from));
    all.setPosition(position);
  }
  return read(link, extent, (options) => options.setAll(all));
}

/** Records of a stream, from a revision on. */
export function readStream(link: Link, name: string, from: number, maxCount: number): Promise<ServerStream> {
  const identifier = new shared.StreamIdentifier();
  identifier.setStreamName(Buffer.from(name));
  const stream = new ReadReq.Options.StreamOptions();
  stream.setStreamIdentifier(identifier);
  stream.setRevision(String(from));
  return read(link, { maxCount }, (options) => options.setStream(stream));
}

async function read(
  { client }: Link,
  { direction = 'forward', maxCount = Number.MAX_SAFE_INTEGER }: Extent,
  choose: (options: Options) => void,
): Promise<ServerStream> {
  const uuids = new ReadReq.Options.UUIDOption();
  uuids.setString(new shared.Empty());
  const options = new ReadReq.Options();
  choose(options);
  options.setReadDirection(direction === 'forward' ? 0 : 1);
  options.setResolveLinks(false);
  options.setCount(String(maxCount));
  options.setUuidOption(uuids);
  options.setNoFilter(new shared.Empty());
  const request = new ReadReq();
  request.setOptions(options);
  const { path, requestSerialize } = grpc.StreamsService.read;
  const call = client['GRPCStreamCreator'](grpc.StreamsClient, 'read', (streamsClient) =>
    streamsClient.makeServerStreamRequest<streams.ReadReq, ReadResponse>(
      path,
      requestSerialize,
      readResponse,
      request,
      ...client['callArguments']({ requiresLeader: true }, { deadline: Infinity }),
    ),
  );
  return (await call()) as ServerStream;
}
