import type { FastifyReply, FastifyRequest } from 'fastify';
import { type Actor, type CommandContext, type CommandRequest, bodyHash } from '../commands/context.js';
import { hashOf } from '../kernel/hash.js';
import { fieldProblem } from '../kernel/problems.js';
import { IDEMPOTENCY_KEY } from '../kernel/identifiers.js';
import { parameterOf } from './controllers.js';

/** What a command needs from its request: the actor, the request id and the Idempotency-Key. */
export class RequestContext implements CommandRequest {
  readonly actor: Actor;
  readonly correlation_id: string;
  readonly idempotency: string | null;
  /** For a `Credence-Min-Position`. */
  readonly hasWaited: boolean;
  trace?: string | undefined;

  /** @throws Problem validation_failed for a malformed Idempotency-Key */
  constructor(
    request: FastifyRequest,
    private readonly reply: FastifyReply,
  ) {
    this.correlation_id = request.id;
    this.actor = actorOf(request);
    this.idempotency = idempotencyHash(request, request.caller!.idempotencyScope);
    this.hasWaited = request.raw.headers['credence-min-position'] !== undefined;
    this.trace = request.span?.traceparent;
  }

  /** Sets headers of the answer. */
  tell(headers: Record<string, string>): void {
    this.reply.headers(headers);
  }

  /** @param command validated, server-filled fields left out: equal for a retry, different for another request */
  of(command: object): CommandContext {
    const { actor, correlation_id, idempotency, trace, reply } = this;
    const onRepeated = () => void reply.header('idempotency-replayed', 'true');
    return { actor, correlation_id, idempotency, body_hash: bodyHash(command), onRepeated, trace };
  }
}

/** Parameter decorator for a command's route: its RequestContext. */
export const Context = parameterOf((request, reply) => new RequestContext(request, reply));

/** Parameter decorator: the actor of an authenticated request. */
export const RequestActor = parameterOf(actorOf);

function actorOf(request: FastifyRequest): Actor {
  const { keyId, scopes, organization, session } = request.caller!;
  const name = session ? `session:${session.trisId ?? session.wallet}` : `key:${keyId}`;
  return { name, scopes, organization, session, isAccepted: () => request.isAccepted() };
}

function idempotencyHash(request: FastifyRequest, scope: string): string | null {
  const key = request.headers['idempotency-key'];
  if (key === undefined) return null;
  const text = typeof key === 'string' ? unquoted(key) : '';
  if (!IDEMPOTENCY_KEY.test(text)) {
    const message = 'Idempotency-Key must be 1 to 255 printable ASCII characters';
    throw fieldProblem('Idempotency-Key', 'idempotency_key', message);
  }
  // Decoded: a proxy may percent-encode the same path differently.
  const path = decodeURIComponent(request.url.split('?', 1)[0]!);
  return hashOf(scope, request.method, path, text);
}

/** The IETF draft writes the key as a string of RFC 8941, in quotes; without them it is the same key. */
const unquoted = (key: string): string =>
  /^"(?:[^"\\]|\\["\\])*"$/.test(key) ? key.slice(1, -1).replace(/\\(["\\])/g, '$1') : key;
