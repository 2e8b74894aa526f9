import { createParamDecorator, type ExecutionContext } from '@nestjs/common';
import type { FastifyReply, FastifyRequest } from 'fastify';

/** Returns the value of a parameter of a controller's method. */
export type ReadParameter<T = unknown> = (request: FastifyRequest, reply: FastifyReply) => T;

/**
 * Makes a parameter decorator. `read` is also a property of the factory that Nest stores, so that it can be called
 * without Nest's execution context (see `controller-handler.ts`).
 */
export function parameterOf<T>(read: ReadParameter<T>) {
  const factory = (_data: unknown, context: ExecutionContext): T => {
    const http = context.switchToHttp();
    return read(http.getRequest(), http.getResponse());
  };
  return createParamDecorator(Object.assign(factory, { read }));
}
