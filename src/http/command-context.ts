import { createParamDecorator } from '@nestjs/common';
import type { FastifyRequest } from 'fastify';
import { canonicalJson, hashOf, sha256Hex } from '../hash.js';
import { Problem } from '../problems.js';
import { IDEMPOTENCY_KEY } from './formats.js';
import type { Caller } from './routes.js';

/** What a command needs to know of its request. */
export interface RequestContext {
  caller: Caller;
  actor: string;
  correlation_id: string;
  idempotency: string | null;
}

/** Parameter decorator of a command's handler: who asks, under which request id and Idempotency-Key. */
export const Context = createParamDecorator((_data: unknown, execution): RequestContext => {
  const request = execution.switchToHttp().getRequest<FastifyRequest>();
  const caller = request.caller!;
  return {
    caller,
    actor: caller.session ? `session:${caller.session.trisId ?? caller.session.wallet}` : `key:${caller.keyId}`,
    correlation_id: request.id,
    idempotency: idempotencyHash(request, caller.keyId),
  };
});

/** Hash of a validated command, its server-filled fields left out: equal for a retry, different for another request. */
export function bodyHash(command: object): string {
  return sha256Hex(canonicalJson(command));
}

function idempotencyHash(request: FastifyRequest, keyId: string): string | null {
  const key = request.headers['idempotency-key'];
  if (key === undefined) return null;
  if (typeof key !== 'string' || !IDEMPOTENCY_KEY.test(key)) {
    const message = 'Idempotency-Key must be 1 to 255 printable ASCII characters';
    throw new Problem('validation_failed', message, {
      errors: [{ pointer: 'Idempotency-Key', code: 'idempotency_key', message }],
    });
  }
  return hashOf(keyId, request.method, request.url.split('?', 1)[0]!, key);
}
