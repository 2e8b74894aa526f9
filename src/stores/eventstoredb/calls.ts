import grpc from '@eventstore/db-client/generated/streams_grpc_pb.js';
import type { Position } from '../../kernel/event.js';
import type { Link } from './link.js';
import { type AppendResponse, appendResponse, type ReadResponse, readRequest, readResponse } from './messages.js';
import type { ServerStream } from './server-stream.js';

/** Reads and appends, with the connection and the credentials of the client. */

/** Records of the whole log. A position must be that of a record. */
export async function readAll(
  link: Link,
  from: 'start' | 'end' | Position,
  { isBackward = false, most = Number.MAX_SAFE_INTEGER } = {},
): Promise<ServerStream> {
  const at = typeof from === 'string' ? { [from]: {} } : { position: { commit: from, prepare: from } };
  return read(link, readRequest({ all: at }, isBackward, most));
}

/** Records of a stream, from a revision on. */
export async function readStream(link: Link, name: string, from: number, most: number): Promise<ServerStream> {
  return read(link, readRequest({ stream: { stream: { name }, revision: from } }, false, most));
}

async function read({ client }: Link, request: Buffer): Promise<ServerStream> {
  const call = client['GRPCStreamCreator'](grpc.StreamsClient, 'read', (streamsClient) =>
    streamsClient.makeServerStreamRequest<Buffer, ReadResponse>(
      grpc.StreamsService.read.path,
      (bytes) => bytes,
      readResponse,
      request,
      ...client['callArguments']({ requiresLeader: true }, { deadline: Infinity }),
    ),
  );
  return (await call()) as ServerStream;
}

/** A call of BatchAppend: appends are written to it as they are encoded already. */
export function openAppends({ client }: Link) {
  const create = client['GRPCStreamCreator'](grpc.StreamsClient, 'appendToStream', (streamsClient) =>
    streamsClient.makeBidiStreamRequest<Buffer, AppendResponse>(
      grpc.StreamsService.batchAppend.path,
      (bytes) => bytes,
      appendResponse,
      ...client['callArguments']({}, { deadline: Infinity }),
    ),
  );
  return create();
}
