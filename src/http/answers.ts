import { hash } from 'node:crypto';
import type { OutgoingHttpHeaders, ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Created, Recorded } from '../commands/context.js';
import type { Cursors } from '../kernel/cursor.js';
import type { Position } from '../kernel/event.js';
import { isObject } from '../kernel/json.js';
import { unauthorized } from '../kernel/problems.js';
import { formatPosition, type PositionGate } from '../kernel/positions.js';
import { yieldIfDue } from '../kernel/turn.js';
import { endWithClient, excludeFromLimit } from './connections.js';
import { CORS_HEADERS } from './headers.js';
import { NDJSON } from './json-body.js';

/** The answer to a command. `position` goes into the `Credence-Position` header; null or 0 if nothing was written. */
export class Written<T = unknown> {
  constructor(
    readonly body: T,
    readonly position: Position | null,
    /** Default: the status its route declares. */
    readonly status?: number,
    /** Segments of the address where a client reads what it created: the `Location` of a 201. */
    readonly location?: readonly string[],
  ) {}

  static of<T>({ body, position }: Recorded<T>): Written<T> {
    return new Written(body, position);
  }

  /** 201, or 200 for what an earlier request has created. */
  static created<T>({ body, position, own }: Created<T>, location: readonly string[]): Written<T> {
    return new Written(body, position, own ? 201 : 200, location);
  }
}

/** A body that is already serialised as JSON. */
export class JsonText {
  constructor(readonly text: string) {}
}

/**
 * The answer to a query. `etagParts` are all inputs of the body besides the address (position, lens, model, hour …):
 * equal parts must mean an equal body. A request that already has this body gets 304.
 */
export class Read<T = unknown> {
  constructor(
    readonly body: T,
    readonly etagParts: readonly (string | number)[],
    readonly cacheControl: string = 'no-cache',
  ) {}

  static of<T>({ body, etagParts }: Pick<Read<T>, 'body' | 'etagParts'>): Read<T> {
    return new Read(body, etagParts);
  }
}

/** An answer for people, too: its JSON, or the same as text or as HTML, whichever `Accept` names first. */
export class ForPeople {
  /** @param lines the first is the title */
  constructor(
    readonly body: object,
    readonly lines: readonly string[],
  ) {}
}

const escaped = (text: string): string => text.replace(/[&<>"]/g, (character) => `&#${character.charCodeAt(0)};`);

function sendForPeople(reply: FastifyReply, { body, lines }: ForPeople): void {
  const [wanted] = /application\/json|text\/(?:plain|html)/.exec(reply.request.headers.accept ?? '') ?? [];
  reply.header('cache-control', 'no-store').header('vary', 'accept');
  if (wanted === 'text/plain') {
    reply.header('content-type', 'text/plain; charset=utf-8').send(`${lines.join('\n')}\n`);
  } else if (wanted === 'text/html') {
    const [title, ...others] = lines.map(escaped);
    const text = others.map((line) => `<p>${line}</p>\n`).join('');
    reply
      .header('content-type', 'text/html; charset=utf-8')
      .header('content-security-policy', "default-src 'none'")
      .send(`<!doctype html>\n<html lang="en">\n<title>${title}</title>\n<h1>${title}</h1>\n${text}</html>\n`);
  } else reply.send(body);
}

/** An answer of lines of JSON, which are made while they are sent. If that fails, the connection is closed. */
export class Lines {
  /** @param texts each has whole lines */
  constructor(readonly texts: AsyncIterable<string>) {}
}

function sendLines(reply: FastifyReply, { texts }: Lines): void {
  reply
    .header('content-type', NDJSON)
    .header('cache-control', 'no-store')
    .send(Readable.from(whileAccepted(texts, reply.request)));
}

/** A client that reads slowly must not go on reading once its key was deleted. */
async function* whileAccepted(texts: AsyncIterable<string>, request: FastifyRequest): AsyncIterable<string> {
  for await (const text of texts) {
    if (!request.isAccepted()) throw unauthorized(false, 'The key of this request was deleted.');
    yield text;
  }
}

/** An answer that has no end of its own: server-sent events (WHATWG HTML, section 9.2). */
export class Live {
  /** @param begin writes to the response from then on, until one of the two sides ends it */
  constructor(readonly begin: (response: ServerResponse) => void) {}
}

function sendLive(reply: FastifyReply, answer: Live): void {
  reply.header('content-type', 'text/event-stream; charset=utf-8').header('cache-control', 'no-store');
  // Proxies that buffer answers would keep the events.
  reply.header('x-accel-buffering', 'no').header('connection', 'close');
  if (reply.request.method === 'HEAD') return void reply.send();
  const { raw } = reply;
  reply.hijack();
  const begin = (): void => {
    if (raw.destroyed) return;
    // Ends with its connection: no event needs the frame of a chunk.
    raw.useChunkedEncodingByDefault = false;
    raw.writeHead(200, reply.getHeaders() as OutgoingHttpHeaders);
    excludeFromLimit(raw);
    endWithClient(raw);
    answer.begin(raw);
  };
  // The answer to a pipelined request has no connection until those before it have been sent.
  if (raw.socket === null) raw.once('socket', begin);
  else begin();
}

/** Sends what the controllers' methods return. */
export class Answers {
  /** @param gate undefined in an application without views, as `staleness` */
  constructor(
    private readonly cursors: Cursors,
    private readonly gate: PositionGate | undefined,
    private readonly staleness: { readonly seconds: number } | undefined,
  ) {}

  send(reply: FastifyReply, body: unknown): void | Promise<void> {
    const { policy } = reply.request;
    const lag = this.staleness?.seconds ?? 0;
    if (lag > 0 && policy && !policy.write && !policy.plain) reply.header('credence-lag', String(lag));
    if (body instanceof Read) return sendRead(reply, body, this.cursors);
    if (body instanceof Written) return sendWritten(reply, body, this.gate?.logId);
    if (body instanceof Live) sendLive(reply, body);
    else if (body instanceof Lines) sendLines(reply, body);
    else if (body instanceof ForPeople) sendForPeople(reply, body);
    // Without this, a shared cache may keep it for a time of its own choice, and give it to callers with other keys.
    else return sendJson(reply.header('cache-control', 'no-store'), sealed(body, reply.request, this.cursors));
  }
}

/** The answer to a query for something small, whose version is its content. */
export const readByContent = <T extends object>(body: T): Read<T> => new Read(body, [JSON.stringify(body)]);

function sendWritten(reply: FastifyReply, answer: Written, logId: string | undefined): void | Promise<void> {
  if (answer.status !== undefined) reply.code(answer.status);
  if (answer.position && logId !== undefined) {
    reply.header('credence-position', formatPosition(logId, answer.position));
  }
  if (answer.location && reply.statusCode === 201) {
    reply.header('location', `/${answer.location.map(encodeURIComponent).join('/')}`);
  }
  return sendJson(reply.header('cache-control', 'no-store'), answer.body);
}

/** The content type the framework sets for the bodies it serialises. */
export const JSON_TYPE = 'application/json; charset=utf-8';

function sendRead(reply: FastifyReply, answer: Read, cursors: Cursors): void | Promise<void> {
  const etag = etagOf(answer.etagParts);
  reply.header('etag', etag).header('cache-control', answer.cacheControl);
  // A shared cache may give this answer to a web page although the first request for it had no Origin.
  if (answer.cacheControl.startsWith('public')) reply.headers(CORS_HEADERS);
  const known = reply.request.raw.headers['if-none-match'];
  if (known !== undefined && matches(known, etag)) {
    // A cache replaces the headers that it has with these (RFC 9110, section 15.4.5). Only long bodies are compressed.
    reply.code(304).header('vary', 'accept-encoding').send();
    return;
  }
  if (answer.body instanceof JsonText) reply.header('content-type', JSON_TYPE).send(answer.body.text);
  else return sendJson(reply, sealed(answer.body, reply.request, cursors));
}

/** A longer list is serialised item by item, and other work goes on in between: some have megabytes. */
const LONG_LIST = 50;

function sendJson(reply: FastifyReply, body: unknown): void | Promise<void> {
  const isLong = (value: unknown) => Array.isArray(value) && value.length > LONG_LIST;
  if (isObject(body) && Object.values(body).some(isLong)) return sendInParts(reply, body);
  reply.send(body);
}

async function sendInParts(reply: FastifyReply, body: Record<string, unknown>): Promise<void> {
  const parts: Buffer[] = [];
  const add = (text: string) => parts.push(Buffer.from(text));
  for (const [name, value] of Object.entries(body)) {
    if (value === undefined) continue;
    add(`${parts.length > 0 ? ',' : '{'}${JSON.stringify(name)}:`);
    if (Array.isArray(value)) {
      add('[');
      for (const [n, item] of value.entries()) {
        add(`${n > 0 ? ',' : ''}${JSON.stringify(item)}`);
        await yieldIfDue();
      }
      add(']');
    } else add(JSON.stringify(value));
  }
  add('}');
  reply.header('content-type', JSON_TYPE).send(Buffer.concat(parts));
}

/** A page's body with its `next_cursor` signed; anything else as it is. */
function sealed(body: unknown, request: FastifyRequest, cursors: Cursors): unknown {
  if (!isObject(body) || typeof body['next_cursor'] !== 'string') return body;
  return { ...body, next_cursor: cursors.seal(body['next_cursor'], listOf(request)) };
}

/** The list that a request reads. Decoded, since a proxy may percent-encode the same path differently. */
export const listOf = (request: FastifyRequest): string =>
  // The stream of a list has the cursors of the list.
  decodeURIComponent(request.url.split('?', 1)[0]!).replace(/\/stream$/, '');

/** RFC 9110 section 13.1.2: `*` or a list, compared weakly. */
const matches = (header: string, etag: string): boolean =>
  header === etag ||
  header.trim() === '*' ||
  header.split(',').some((tag) => tag.trim().replace(/^W\//, '') === etag.slice(2));

/** A weak ETag of 66 bits. Compared with tags of the same address only: a collision misleads one client's cache. */
export function etagOf(parts: readonly (string | number)[]): string {
  const isLast = parts.length === last.parts.length && parts.every((part, n) => part === last.parts[n]);
  if (!isLast) {
    last = { parts, etag: `W/"${hash('sha256', parts.join('\u0000'), 'base64url').slice(0, 11)}"` };
  }
  return last.etag;
}
/** Until the read models change, the answers about most identities have the same. */
let last: { parts: readonly (string | number)[]; etag: string } = { parts: [], etag: '' };
