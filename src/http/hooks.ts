import { randomUUID } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { Counter, Histogram, type Registry, type RegistryContentType } from 'prom-client';
import type { FastifyInstance, FastifyReply, FastifyRequest, HookHandlerDoneFunction, RouteOptions } from 'fastify';
import type { Logger } from '../kernel/logger.js';
import { Problem, refusalOf, unauthorized } from '../kernel/problems.js';
import type { PublicReads } from '../kernel/config.js';
import type { Cursors } from '../kernel/cursor.js';
import { ownerOfTurns } from '../commands/context.js';
import { CallerTurns } from './caller-turns.js';
import { KnownPaths, nothingHere } from './known-paths.js';
import { JSON_TYPE, listOf } from './answers.js';
import { compress, MIN_COMPRESSED } from './compression.js';
import { refuseUnknownLength, refuseUnlessOneHost } from './connections.js';
import type { AccessTokens } from '../credentials/access-tokens.js';
import type { ApiKeys } from '../credentials/api-keys.js';
import { REQUEST_ID } from '../kernel/identifiers.js';
import { CONSOLE_HEADERS, CORS_HEADERS, DOCS_HEADERS, NO_SNIFF } from './headers.js';
import { PUBLIC_BODY_LIMIT, registerJsonBody } from './json-body.js';
import { parsePosition, type PositionGate } from '../kernel/positions.js';
import type { RequestLimit } from './rate-limit.js';
import type { Caller, Session } from '../credentials/caller.js';
import { policyOf, type RoutePolicy } from './routes.js';
import type { Admission } from '../stores/ports/event-store.js';
import { shorten } from '../kernel/json.js';
import { readBody, readParams, readQuery } from './validation.js';

const WAIT_MS = 2_000;
const STOPPING_HEADERS = { 'retry-after': '5' };

export interface EdgeParts {
  publicReads: PublicReads;
  keys: ApiKeys;
  tokens: AccessTokens;
  /** The session with the TRIS that it may act for now. @throws Problem session_revoked */
  standing(session: Session): Promise<Session>;
  cursors: Cursors;
  /** undefined: no limit. */
  rateLimit: RequestLimit | undefined;
  registry: Registry<RegistryContentType>;
  logger: Logger;
  /** That of the log, if it can be overloaded. */
  admission: Admission | undefined;
  handlerOf(policy: RoutePolicy): (request: FastifyRequest, reply: FastifyReply) => void;
  /** Whether this process serves this address; other addresses return 404. */
  serves(url: string): boolean;
  /** undefined in an application without views. */
  gate: PositionGate | undefined;
}

/** The client's X-Request-Id if it has a safe form, else a UUID. */
export function requestId(request: IncomingMessage): string {
  const own = request.headers['x-request-id'];
  return typeof own === 'string' && REQUEST_ID.test(own) ? own : randomUUID();
}

/** What is the same for all routes, as Fastify hooks. A route gets them once, when it is registered, by its policy. */
export function installHooks(fastify: FastifyInstance, parts: EdgeParts): void {
  const paths = new KnownPaths();
  const turns = new CallerTurns();
  const turnOf: Admit = (request) => {
    request.hasTurn = true;
    return turns.take(ownerOf(request), request.startedAt);
  };
  const admit = admitting(turnOf, parts);
  registerJsonBody(fastify, admit, (request) => request.policy?.list);
  fastify.decorateRequest('caller', null);
  fastify.decorateRequest('problem', null);
  fastify.decorateRequest('pattern', 'none');
  fastify.decorateRequest('policy', null);
  fastify.decorateRequest('startedAt', 0);
  fastify.decorateRequest('hasTurn', false);
  fastify.decorateRequest('isAdmitted', false);
  fastify.decorateRequest('isAccepted', function () {
    const { caller } = this;
    return caller === null || (caller.session ? Date.now() < caller.expiresAt! : parts.keys.accepts(caller));
  });
  const observe = observing(parts);

  let closing = false;
  fastify.addHook('preClose', (done) => {
    closing = true;
    done();
  });
  fastify.addHook('onRequest', (request, reply, done) => {
    request.startedAt = performance.now();
    startAnswer(request, reply);
    refuseUnknownLength(request.raw);
    refuseUnlessOneHost(request.raw);
    if (closing) throw new Problem('shutting_down', 'The service is stopping.', { headers: STOPPING_HEADERS });
    // In a hook, so that the body of a request to an unknown address is not read.
    if (request.is404) paths.answerUnrouted(request, reply);
    else done();
  });
  // On sending: a 'finish' listener would cost each response more than all other work here.
  fastify.addHook('onSend', (request, reply, payload, done) => {
    leave(request, parts.admission);
    observe(request, reply.statusCode);
    // A kept-alive connection of a request in flight would delay the close until it times out.
    if (closing) reply.header('connection', 'close');
    const isText =
      typeof payload === 'string' || (Buffer.isBuffer(payload) && reply.getHeader('content-type') === JSON_TYPE);
    if (isText && payload.length >= MIN_COMPRESSED) compress(request, reply, payload, done);
    else done(null, payload);
  });
  // For addresses that a plugin declines, such as a missing file. Unknown addresses are handled above.
  fastify.setNotFoundHandler(refuseAddress);
  fastify.addHook('onRoute', (route) => {
    if (parts.serves(route.url)) {
      paths.add(route);
      if (policyOf(route.config)?.scope === null) route.bodyLimit = PUBLIC_BODY_LIMIT;
      addRouteHooks(route, admit, turnOf, parts);
    } else route.onRequest = [refuseAddress];
  });
}

function refuseAddress(): never {
  throw nothingHere();
}

/**
 * Counts and times an answer, and logs it at the level `debug`. Routes are patterns, never paths, so the number of routes
 * bounds the number of series.
 */
function observing({ registry, logger }: EdgeParts): (request: FastifyRequest, status: number) => void {
  const registers = [registry];
  const durations = new Histogram({
    name: 'http_request_duration_seconds',
    help: 'Duration of HTTP requests in seconds',
    labelNames: ['method', 'route', 'status'],
    buckets: [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
    registers,
  });
  const help = 'Answers that were problems, by code';
  const problems = new Counter({ name: 'credence_problems_total', help, labelNames: ['code'], registers });
  const isLogged = logger.enabled('debug');
  return (request, status) => {
    const milliseconds = performance.now() - request.startedAt;
    const { method, pattern: route, problem } = request;
    durations.observe({ method, route, status }, milliseconds / 1000);
    if (problem !== null) problems.inc({ code: problem });
    if (!isLogged) return;
    logger.debug('request', {
      request_id: request.id,
      method,
      path: request.url.split('?')[0],
      status,
      ms: Math.round(milliseconds * 100) / 100,
      key: request.caller?.keyId,
    });
  };
}

/** Gives a route its hooks and its handler, as its policy says. @throws TypeError for a route without a decorator */
function addRouteHooks(route: RouteOptions, admit: Admit, turnOf: Admit, parts: EdgeParts): void {
  const declared = policyOf(route.config);
  if (declared) {
    const policy = enforced(declared, parts);
    // A request with a body has its turn once that has arrived, so that a client that sends slowly keeps no other out.
    const hasBody = policy.write || route.method === 'POST';
    route.onRequest = [authorization(route.url, policy, hasBody || policy.plain ? undefined : turnOf, parts)];
    route.preValidation = [validation(policy, parts)];
    if (policy.counts !== undefined) route.preValidation.push(itemCount(policy, policy.counts, parts));
    // A body was admitted before it was parsed.
    if (hasBody) route.preValidation.unshift(hook((request) => (request.hasTurn ? undefined : admit(request))));
    route.handler = parts.handlerOf(policy);
    route.preHandler = [
      // While the read models cannot be trusted: limits are checked by them, and the store of the cluster that has them also
      // keeps the texts of commands.
      ...(policy.write ? [hook(() => parts.gate?.refuseCommands())] : []),
      ...(policy.waits ? [positionWait(parts)] : []),
      secondLook(policy, parts),
      ...(policy.scope !== null && policy.session && !policy.write ? [standing(policy, parts)] : []),
      ...(policy.admitsEach ? [hook((request) => leave(request, parts.admission))] : []),
    ];
  } else if (isConsole(route.url) || route.url === '/openapi.json' || route.url.startsWith('/docs')) {
    // Pages and their files, which have no decorator, have a rate limit and headers.
    const headers = isConsole(route.url) ? CONSOLE_HEADERS : DOCS_HEADERS;
    const limit = hook((request, reply) => {
      request.pattern = route.url;
      reply.headers(headers);
      return parts.rateLimit?.take(request.ip, reply);
    });
    route.onRequest = [limit];
  } else {
    throw new TypeError(
      `${[route.method].flat().join('|')} ${route.url} has no route decorator (see src/http/routes.ts)`,
    );
  }
}

const isConsole = (url: string): boolean => url === '/' || url.startsWith('/console');

/** Headers of every answer. Also used where the framework fails before any hook runs. */
export function startAnswer(request: FastifyRequest, reply: FastifyReply): void {
  reply.header('x-request-id', request.id).headers(NO_SNIFF);
  if (request.raw.headers.origin !== undefined) reply.headers(CORS_HEADERS);
}

type Hook = (request: FastifyRequest, reply: FastifyReply, done: HookHandlerDoneFunction) => void;

/** Goes on once the work has ended; at once if it need not be waited for. */
const hook =
  (work: (request: FastifyRequest, reply: FastifyReply) => Promise<unknown> | void): Hook =>
  (request, reply, done) => {
    const working = work(request, reply);
    if (working) working.then(() => done(), done);
    else done();
  };

/** A route as CREDENCE_PUBLIC_READS has it: those that are not public need a key, or the identity's own session. */
const enforced = (route: RoutePolicy, { publicReads }: EdgeParts): RoutePolicy =>
  route.publicWith.includes(publicReads) ? route : { ...route, scope: 'any', session: route.own };

/** Authentication, authorisation and the rate limit. */
function authorization(pattern: string, policy: RoutePolicy, turnOf: Admit | undefined, parts: EdgeParts): Hook {
  const { keys, tokens, rateLimit } = parts;
  const { scope, plain, write } = policy;
  return hook((request, reply) => {
    request.pattern = pattern;
    request.policy = policy;
    const caller = identify(request, keys, tokens);
    if (!(caller instanceof Problem)) request.caller = caller;
    // Wrong credentials are limited on every route; otherwise guessing keys, and making the service verify signatures,
    // would be free.
    const counts = caller instanceof Problem || (!plain && isLimited(caller, scope));
    const counting = counts ? rateLimit?.take(request.ip, reply) : undefined;
    const begin = () => {
      permit(caller, policy);
      if (write) parts.admission?.refuseIfFull(ownerOf(request));
      return turnOf?.(request);
    };
    return counting ? counting.then(begin) : begin();
  });
}

/**
 * Authentication and authorisation once more, before the handler: its client may have held back the body until its key was
 * deleted, and it may have waited for its turn and for the read models.
 */
function secondLook(policy: RoutePolicy, parts: EdgeParts): Hook {
  return hook((request) => {
    if (request.isAccepted()) return;
    const caller = identify(request, parts.keys, parts.tokens);
    permit(caller, policy);
    request.caller = caller as Caller;
  });
}

/**
 * Of a query that a session needs its credential for: what the session may act for now, by the log rather than by its
 * token. A query about one identity is refused to the sessions of others.
 */
function standing({ own }: RoutePolicy, parts: EdgeParts): Hook {
  const look = async (request: FastifyRequest, claimed: Session) => {
    const now = await parts.standing(claimed);
    const { tris_id } = request.params as { tris_id?: string };
    if (own && now.trisId !== tris_id) {
      throw new Problem('forbidden', `This needs a session of ${tris_id}, or an API key.`);
    }
    request.caller = { ...request.caller!, session: now };
  };
  return hook((request) => {
    const claimed = request.caller?.session;
    return claimed ? look(request, claimed) : undefined;
  });
}

/** Anyone can create a wallet and a session, so sessions are rate limited as anonymous requests are. */
const isLimited = (caller: Caller | null, scope: RoutePolicy['scope']): boolean =>
  caller === null ? scope === null : caller.session !== null;

/** Of a batch, each further item counts as one more request. The batch itself has been counted. */
function itemCount({ scope }: RoutePolicy, list: string, { rateLimit }: EdgeParts): Hook {
  return hook((request, reply) => {
    const more = (request.body as Record<string, unknown[]>)[list]!.length - 1;
    const counts = more > 0 && isLimited(request.caller, scope);
    return counts ? rateLimit?.take(request.ip, reply, more) : undefined;
  });
}

/** Lets a request begin, or has it wait. The probes of health and the metrics do not wait. */
type Admit = (request: FastifyRequest) => Promise<void> | undefined;

/** Who takes turns: an owner of a key. All who need no key are one, since anyone can be many of them. */
const ownerOf = ({ caller }: FastifyRequest): string =>
  caller === null || caller.session
    ? ''
    : ownerOfTurns({ organization: caller.organization, name: `key:${caller.keyId}` });

/** Lets a request begin, and admits one that may append. */
function admitting(turnOf: Admit, { admission }: EdgeParts): Admit {
  if (!admission) return turnOf;
  const enter = (request: FastifyRequest) => {
    if (!request.policy!.write) return undefined;
    const entering = admission.enter(ownerOf(request));
    if (entering) return entering.then(() => void (request.isAdmitted = true));
    request.isAdmitted = true;
    return undefined;
  };
  return (request) => {
    const turn = turnOf(request);
    return turn ? turn.then(() => enter(request)) : enter(request);
  };
}

function leave(request: FastifyRequest, admission: Admission | undefined): void {
  if (!request.isAdmitted) return;
  request.isAdmitted = false;
  admission!.leave();
}

/** @throws Problem unauthorized, forbidden, or the problem of a refused credential */
function permit(caller: Caller | Problem | null, { scope, session }: RoutePolicy): void {
  if (caller instanceof Problem) throw caller;
  if (scope === null) return;
  if (!caller) throw unauthorized(session);
  if (caller.session) {
    if (!session) throw new Problem('forbidden', 'A session cannot do this; an API key is required.');
  } else if (scope === 'session') {
    throw new Problem('forbidden', 'This is about whoever signed in with a wallet: send a session’s token, not a key.');
  } else if (scope !== 'any' && !caller.scopes.has(scope)) {
    const why = scope === 'ops' && caller.organization !== null ? ', which no key of an organization has' : '';
    throw new Problem('forbidden', `The key "${caller.keyId}" lacks the scope "${scope}"${why}.`);
  }
}

/** The caller, or why the credential is refused: an error also on public routes, since its sender expects it to work. */
function identify(request: FastifyRequest, keys: ApiKeys, tokens: AccessTokens): Caller | Problem | null {
  const { 'x-api-key': key, authorization } = request.raw.headers;
  // Other schemes than Bearer are for a proxy in front of the service.
  const token = authorization === undefined ? undefined : /^bearer +(.+)$/i.exec(authorization)?.[1];
  if (key === undefined) return token === undefined ? null : callerOfToken(token, request, keys, tokens);
  if (token !== undefined) return unauthorized(true, 'Send an API key or a session’s token, not both.');
  const caller = typeof key === 'string' ? keys.find(key) : undefined;
  return caller ?? unauthorized(false, 'The key in the X-API-Key header is unknown.');
}

function callerOfToken(token: string, request: FastifyRequest, keys: ApiKeys, tokens: AccessTokens): Caller | Problem {
  try {
    return tokens.caller(token);
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    const caller = keys.find(token);
    if (!caller) return error;
    if (request.routeOptions.url === '/metrics') return caller; // The Prometheus Operator knows no other header.
    return unauthorized(true, 'Authorization: Bearer contains an API key; send it in the X-API-Key header instead.');
  }
}

class NoFields {}

/** Replaces the raw body, query and path parameters by validated instances. */
function validation({ body, query, params, write, live }: RoutePolicy, { cursors }: EdgeParts): Hook {
  return hook((request) => {
    for (const name in request.params as object) {
      // The router accepts an empty segment as a parameter.
      if ((request.params as Record<string, string>)[name] === '') throw nothingHere();
    }
    if (params) request.params = readParams(params, request.params as Record<string, unknown>);
    const given = request.query as Record<string, unknown>;
    if (query) {
      checkEncoding(request.raw.url!);
      const read: { cursor?: string } = readQuery(query, given);
      const last = live ? request.raw.headers['last-event-id'] : undefined;
      if (last !== undefined && last !== '') read.cursor = cursors.open(String(last), listOf(request), true);
      else if (read.cursor !== undefined) read.cursor = cursors.open(read.cursor, listOf(request));
      request.query = read;
    } else {
      for (const name in given) {
        const message = `${JSON.stringify(shorten(name))} is unknown; this address has no query parameters`;
        throw refusalOf(`?${name}`, 'unknown_parameter', message);
      }
    }
    if (body) request.body = readBody(body, request.body);
    else if (write && request.body !== undefined) readBody(NoFields, request.body);
  });
}

/** Refuses broken percent-escapes in query strings, which the parser would keep as text. */
function checkEncoding(url: string): void {
  const start = url.indexOf('?');
  if (start < 0 || !url.includes('%', start)) return;
  try {
    decodeURIComponent(url.slice(start));
  } catch {
    throw refusalOf('', 'encoding', 'the query is not properly percent-encoded UTF-8');
  }
}

/** Lets a read wait until the client's `Credence-Min-Position` is applied. */
function positionWait({ gate }: EdgeParts): Hook {
  return hook((request) => {
    const wire = request.raw.headers['credence-min-position'];
    return wire === undefined ? undefined : awaitPosition(String(wire), gate);
  });
}

async function awaitPosition(wire: string, gate: PositionGate | undefined): Promise<void> {
  const position = gate && parsePosition(wire, gate.logId);
  if (position === undefined || !(await gate!.has(position))) {
    throw new Problem('position_unknown', 'Credence-Min-Position is not a Credence-Position of this log.');
  }
  if (!(await gate!.waitForPosition(position, WAIT_MS))) {
    const detail = `The read models have not applied ${wire} within ${WAIT_MS / 1000} s.`;
    throw new Problem('projection_behind', detail, { headers: { 'retry-after': '1' } });
  }
}
