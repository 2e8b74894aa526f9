import { createParamDecorator, type ExecutionContext } from '@nestjs/common';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Caller } from '../credentials/caller.js';
import type { Logger } from '../kernel/logger.js';
import { endOfTurn } from '../kernel/turn.js';
import type { Answers } from './answers.js';
import { endWithClient } from './connections.js';
import { parametersOf, type ReadParameter, usesPipeline } from './nest-internals.js';
import { sendProblem } from './problem-response.js';
import type { RoutePolicy } from './routes.js';

/**
 * What the methods of controllers take, and how they are called: without Nest's request pipeline. For a GET the pipeline
 * costs as much as the rest of the service (measured: 10 µs of CPU; bare Fastify takes 23 µs). So a guard, a pipe, an
 * interceptor or an unknown parameter decorator would do nothing: the boot fails for a controller that has one.
 */
type Method = (...args: unknown[]) => unknown;

/** @throws TypeError when the method needs Nest's pipeline */
export function controllerHandler(
  { controller, method, status }: RoutePolicy,
  instance: object,
  answers: Answers,
  logger: Logger,
) {
  const callback = (instance as Record<string | symbol, Method>)[method]!;
  const extracts = extractsOf(controller, method);
  if (!extracts || usesPipeline(controller, callback)) {
    const where = `${controller.name}.${String(method)}`;
    throw new TypeError(`${where} needs Nest’s request pipeline, without which controllers are called`);
  }

  const handle = async (request: FastifyRequest, reply: FastifyReply): Promise<void> => {
    try {
      const args = extracts.map((extract) => extract(request, reply));
      reply.code(status);
      const body = await callback.apply(instance, args);
      // Answers of one turn are written together. Written one by one, those of 64 connections cost nearly twice the CPU time.
      await endOfTurn();
      await answers.send(reply, body);
    } catch (error) {
      sendProblem(reply, error, logger);
    }
  };
  return (request: FastifyRequest, reply: FastifyReply): void => void handle(request, reply);
}

function extractsOf(controller: RoutePolicy['controller'], method: string | symbol): ReadParameter[] | undefined {
  const extracts: ReadParameter[] = [];
  for (const { kind, index, pipes, factory } of parametersOf(controller, method)) {
    const extract = kind === 'custom' ? factory!.read : kind && BUILT_IN[kind];
    if (!extract || (pipes && pipes.length > 0)) return undefined;
    extracts[index] = extract;
  }
  return Array.from(extracts, (extract) => extract ?? (() => undefined));
}

const BUILT_IN: Record<'request' | 'body' | 'query' | 'params', ReadParameter> = {
  request: (request) => request,
  body: (request) => request.body,
  query: (request) => request.query,
  params: (request) => request.params,
};

/** Makes a parameter decorator. `read` is also a property of what Nest stores, to be called without its context. */
export function parameterOf<T>(read: ReadParameter<T>) {
  const factory = (_data: unknown, context: ExecutionContext): T => {
    const http = context.switchToHttp();
    return read(http.getRequest(), http.getResponse());
  };
  return createParamDecorator(Object.assign(factory, { read }));
}

/** Parameter decorator: the reply, for its headers. */
export const Reply = parameterOf((_request, reply): FastifyReply => reply);

/** Parameter decorator: the `Caller`, never null behind a scope; null for an anonymous request to a public route. */
export const RequestCaller = parameterOf((request): Caller | null => request.caller);

/** Parameter decorator: an AbortSignal that aborts if the client disconnects before it gets its answer. */
export const ClientGone = parameterOf((_request, { raw }): AbortSignal => {
  const gone = new AbortController();
  endWithClient(raw);
  const look = (): void => void (raw.writableFinished || gone.abort());
  if (raw.destroyed) look();
  else raw.once('close', look);
  return gone.signal;
});
