import { type IncomingMessage, type RequestListener, Server, type ServerOptions, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { Problem, type ProblemCode } from '../kernel/problems.js';
import { Turns } from '../kernel/turns.js';
import { NO_SNIFF } from './headers.js';
import { CONTENT_TYPE, problemBody } from './problem-response.js';

/** Connections, below the framework: limits of what a client can occupy, and refusals of what is no HTTP request. */

/** A whole request must arrive within this; it also bounds how long the rest of a refused body is read. */
const REQUEST_TIMEOUT_MS = 30_000;
/** How often Node compares connections with that limit: its default of 30 s would double it. */
const CHECK_MS = 1_000;
/** A client that takes nothing of its answer for this long is disconnected. */
const STALL_MS = 30_000;
const MAX_CONNECTIONS = 4_096;
/** Pipelined requests of one connection that are handled at the same time; others wait. */
const MAX_RUNNING = 16;
/** Pipelined requests of one connection that may wait. With more it is disconnected. */
const MAX_WAITING = 500;
/** When the service stops, the rest of a request's body must arrive within this, and of an answer be taken. */
const REST_MS = 2_000;
/** The default of Fastify, which sets it only on servers of its own. */
const KEEP_ALIVE_MS = 72_000;

export function serverOf(handler: RequestListener): Server {
  const server = new ClosingServer(
    {
      requestTimeout: REQUEST_TIMEOUT_MS,
      headersTimeout: REQUEST_TIMEOUT_MS,
      connectionsCheckingInterval: CHECK_MS,
      keepAliveTimeout: KEEP_ALIVE_MS,
      requireHostHeader: false, // `refuseUnlessOneHost` answers with a problem
    },
    inTurn(handler),
  );
  // Their size is limited already; by default, Node drops all but the first 2,000 without a word.
  server.maxHeadersCount = 0;
  server.maxConnections = MAX_CONNECTIONS;
  // Without a listener, Node closes the connection without an answer.
  server.on('connect', (_request, socket: Socket) => {
    // Node has taken its own listener away: without one, a client that resets the connection would end the process.
    socket.on('error', () => undefined);
    // An answer that is still being sent would be mixed with it.
    if (currentAnswer(socket)) return void socket.destroy();
    // No resource has this method, so no other one is listed either.
    answerAndClose(
      new Problem('method_not_allowed', 'This service is not a proxy.', { headers: { allow: '' } }),
      socket,
    );
  });
  return server.setTimeout(STALL_MS, (socket: Socket) => {
    // Without unsent bytes the time is the handler's, not the client's, unless no request is under way.
    if (socket.writableLength > 0 || !currentAnswer(socket)) socket.destroy();
  });
}

/**
 * A client may end its side of the connection after its requests, and is still answered. And Node waits for a request that
 * has begun to arrive, however long it takes: one client would hold up the end of the service.
 */
class ClosingServer extends Server {
  private readonly sockets = new Set<Socket>();

  constructor(options: ServerOptions, handler: RequestListener) {
    super(options, handler);
    // Not documented by Node, which otherwise ends its own side at once.
    (this as { httpAllowHalfOpen?: boolean }).httpAllowHalfOpen = true;
    this.on('connection', (socket: Socket) => {
      this.sockets.add(socket);
      socket.once('close', () => this.sockets.delete(socket));
      socket.once('end', () => {
        const answer = currentAnswer(socket);
        if (answer && endingWithClient.has(answer)) answer.destroy();
      });
    });
  }

  /** Called when the server stops listening. Requests that have arrived are answered, if the client takes the answer. */
  override closeIdleConnections(): void {
    super.closeIdleConnections();
    this.closeUnless((answer) => answer !== null);
    setTimeout(
      () => this.closeUnless((answer) => answer?.req.complete === true && !answer.writableEnded),
      REST_MS,
    ).unref();
  }

  private closeUnless(isKept: (answer: ServerResponse | null) => boolean): void {
    for (const socket of this.sockets) if (!isKept(currentAnswer(socket))) socket.destroy();
  }
}

/** The connection of a response that does not end no longer counts: such streams have a limit of their own. */
export function excludeFromLimit(response: ServerResponse): void {
  const { server } = response.socket as unknown as { server: Server };
  server.maxConnections++;
  response.once('close', () => void server.maxConnections--);
}

const endingWithClient = new WeakSet<ServerResponse>();

/** For what lasts long: a client that ends its side of the connection is taken to be gone, as most that do so are. */
export function endWithClient(response: ServerResponse): void {
  endingWithClient.add(response);
  if (response.socket?.readableEnded) response.destroy();
}

/** Node sets this while a response of the socket is not finished. */
function currentAnswer(socket: Socket): ServerResponse | null {
  return (socket as { _httpMessage?: ServerResponse | null })._httpMessage ?? null;
}

/** Calls `next` once the answers to all earlier requests of the connection have been sent, if it is still open then. */
function afterAnswers(socket: Socket, next: () => void): void {
  const answer = currentAnswer(socket);
  if (answer) answer.once('finish', () => afterAnswers(socket, next));
  else if (socket.writable) next();
}

/**
 * Node parses all requests that arrive in one packet and emits each at once, whether or not the client reads the answers
 * before them. A response that is not the first of its connection has no socket yet: only such requests are counted.
 */
function inTurn(handler: RequestListener): RequestListener {
  const pipelines = new WeakMap<Socket, Turns>();
  return (request, response) => {
    if (response.socket !== null) return handler(request, response);
    const { socket } = request;
    let turns = pipelines.get(socket);
    if (!turns) pipelines.set(socket, (turns = new Turns(MAX_RUNNING, MAX_RUNNING)));
    if (turns.waiting.size >= MAX_WAITING) return void socket.destroy();
    void turns.run('', async () => {
      if (socket.destroyed) return;
      const finished = new Promise((resolve) => response.once('finish', resolve));
      handler(request, response);
      await finished;
    });
  };
}

const CLIENT_ERRORS: Record<string, [ProblemCode, string]> = {
  HPE_HEADER_OVERFLOW: ['headers_too_large', 'The request line and headers have at most 16 KiB together.'],
  HPE_CHUNK_EXTENSIONS_OVERFLOW: ['payload_too_large', 'The chunk extensions are too large.'],
  ERR_HTTP_REQUEST_TIMEOUT: ['request_timeout', 'The request did not arrive in time.'],
};

/** Connections whose refused request has its answer, or gets one after those before it. The parser may refuse it again. */
const answered = new WeakSet<Socket>();

/**
 * The parser emits a request of unknown length and then refuses it; it would be answered twice. And it takes chunks in
 * HTTP/1.0, which a proxy that does not know them may have taken for another request.
 * @throws Problem malformed_request for a Transfer-Encoding other than chunked, or in HTTP/1.0 (RFC 9112 section 6.1)
 */
export function refuseUnknownLength({ headers, socket, httpVersionMinor }: IncomingMessage): void {
  const encoding = headers['transfer-encoding'];
  if (encoding === undefined) return;
  if (httpVersionMinor === 0) {
    throw new Problem('malformed_request', 'HTTP/1.0 has no Transfer-Encoding.', { headers: { connection: 'close' } });
  }
  if (encoding.toLowerCase() === 'chunked') return;
  answered.add(socket);
  const detail = `Transfer-Encoding can only be chunked, not ${JSON.stringify(encoding)}.`;
  throw new Problem('malformed_request', detail, { headers: { connection: 'close' } });
}

/**
 * Node keeps the first of several Host headers, a proxy in front may go by the last. Only HTTP/1.0 has requests without.
 * @throws Problem malformed_request (RFC 9112 section 3.2)
 */
export function refuseUnlessOneHost({ rawHeaders, httpVersionMinor }: IncomingMessage): void {
  let hosts = 0;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    if (rawHeaders[i]!.length === 4 && rawHeaders[i]!.toLowerCase() === 'host') hosts++;
  }
  if (hosts === 1 || (hosts === 0 && httpVersionMinor === 0)) return;
  throw new Problem('malformed_request', 'A request has one Host header.', { headers: { connection: 'close' } });
}

/** The path and query of a request's target, which may be in absolute form (RFC 9112 section 3.2.2). */
export function originForm({ url = '/' }: IncomingMessage): string {
  if (url.startsWith('/')) return url;
  const path = /^[a-z][a-z\d+.-]*:\/\/[^/?#]*(.*)$/i.exec(url)?.[1];
  if (path === undefined) return url;
  return path.startsWith('/') ? path : `/${path}`;
}

/** Answers what is not valid HTTP, below the framework, and closes the connection. */
export function answerClientError(error: NodeJS.ErrnoException, socket: Socket): void {
  if (answered.has(socket)) return;
  if (error.code === 'ECONNRESET' || socket.destroyed || !socket.writable) return void socket.destroy();
  const [code, detail] = CLIENT_ERRORS[error.code ?? ''] ?? [
    'malformed_request',
    'The request is not well-formed HTTP/1.1.',
  ];
  const problem = new Problem(code, detail);
  if (currentAnswer(socket)?.req.complete) {
    // Not well-formed is what follows a whole request, whose answer comes first.
    answered.add(socket);
    return afterAnswers(socket, () => answerAndClose(problem, socket));
  }
  // A body after the head of an answer to HEAD would be read as the next answer.
  const { rawPacket } = error as { rawPacket?: Buffer };
  const isHead = rawPacket?.subarray(0, 5).toString('latin1') === 'HEAD ';
  answerAndClose(problem, socket, isHead);
}

/** @param isHead leaves the body out */
function answerAndClose(problem: Problem, socket: Socket, isHead = false): void {
  const id = crypto.randomUUID();
  const body = problemBody(problem, id);
  const headers = Object.entries({
    ...NO_SNIFF,
    ...problem.extra.headers,
    'x-request-id': id,
    'content-type': CONTENT_TYPE,
    connection: 'close',
  });
  socket.end(
    [
      `HTTP/1.1 ${problem.status} ${problem.title}`,
      ...headers.map(([name, value]) => `${name}: ${value}`),
      `content-length: ${Buffer.byteLength(body)}`,
      '',
      isHead ? '' : body,
    ].join('\r\n'),
    () => socket.destroy(),
  );
}
