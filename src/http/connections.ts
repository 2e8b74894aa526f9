import { type IncomingMessage, type RequestListener, Server, type ServerOptions, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

/** Limits of a connection, below the framework: what one client can occupy by sending much or reading nothing. */

/** A whole request must arrive within this; it also bounds how long the rest of a refused body is read. */
const REQUEST_TIMEOUT_MS = 30_000;
/** How often Node compares connections with that limit: its default of 30 s would double it. */
const CHECK_MS = 1_000;
/** A client that takes nothing of its answer for this long is disconnected. */
const STALL_MS = 30_000;
const MAX_CONNECTIONS = 4_096;
/** How many further connections a server takes. */
const rooms = new WeakMap<Server, { left: number }>();
/** Pipelined requests of one connection that are handled at the same time; others wait. */
const AT_WORK = 16;
/** Pipelined requests of one connection that may wait. With more it is disconnected. */
const WAITING = 500;
/** The default of Fastify, which sets it only on servers of its own. */
const KEEP_ALIVE_MS = 72_000;

export function serverOf(handler: RequestListener): Server {
  const server = new ClosingServer(
    {
      requestTimeout: REQUEST_TIMEOUT_MS,
      headersTimeout: REQUEST_TIMEOUT_MS,
      connectionsCheckingInterval: CHECK_MS,
      keepAliveTimeout: KEEP_ALIVE_MS,
    },
    inTurn(handler),
  );
  const room = { left: MAX_CONNECTIONS };
  rooms.set(server, room);
  // Not by `maxConnections`: of several processes that are all full, each would pass the connection on, again and again.
  server.prependListener('connection', (socket: Socket) => {
    if (room.left <= 0) return void socket.destroy();
    room.left--;
    socket.once('close', () => void room.left++);
  });
  return server.setTimeout(STALL_MS, (socket: Socket) => {
    // Without unsent bytes the time is the handler's, not the client's, unless no request is under way.
    if (socket.writableLength > 0 || !isAnswering(socket)) socket.destroy();
  });
}

/** Node takes a connection on which no request has begun for one at work, so that each would hold up the end of the service. */
class ClosingServer extends Server {
  private readonly sockets = new Set<Socket>();

  constructor(options: ServerOptions, handler: RequestListener) {
    super(options, handler);
    this.on('connection', (socket: Socket) => {
      this.sockets.add(socket);
      socket.once('close', () => this.sockets.delete(socket));
    });
  }

  override closeIdleConnections(): void {
    for (const socket of this.sockets) if (socket.bytesRead === 0) socket.destroy();
    super.closeIdleConnections();
  }
}

/** A connection whose response does not end leaves room for another: whoever keeps it open limits how many there are. */
export function setApart(response: ServerResponse): void {
  const room = rooms.get((response.socket as unknown as { server: Server }).server)!;
  room.left++;
  response.once('close', () => void room.left--);
}

/** Node sets this while a response of the socket is not finished. */
function isAnswering(socket: Socket): boolean {
  return ((socket as { _httpMessage?: ServerResponse | null })._httpMessage ?? null) !== null;
}

interface Pipeline {
  atWork: number;
  waiting: [IncomingMessage, ServerResponse][];
}

/**
 * Node parses all requests that arrive in one packet and emits each at once, whether or not the client reads the answers
 * before them. A response that is not the first of its connection has no socket yet: only such requests are counted.
 */
function inTurn(handler: RequestListener): RequestListener {
  const pipelines = new WeakMap<Socket, Pipeline>();
  return (request, response) => {
    if (response.socket !== null) return handler(request, response);
    const { socket } = request;
    let pipeline = pipelines.get(socket);
    if (!pipeline) pipelines.set(socket, (pipeline = { atWork: 0, waiting: [] }));
    pipeline.waiting.push([request, response]);
    if (pipeline.waiting.length > WAITING) {
      pipeline.waiting = [];
      socket.destroy();
    } else handleNext(pipeline, handler);
  };
}

function handleNext(pipeline: Pipeline, handler: RequestListener): void {
  while (pipeline.atWork < AT_WORK && pipeline.waiting.length > 0) {
    const [request, response] = pipeline.waiting.shift()!;
    pipeline.atWork++;
    response.once('finish', () => {
      pipeline.atWork--;
      if (!request.socket.destroyed) handleNext(pipeline, handler);
    });
    handler(request, response);
  }
}
