import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Logger } from '../kernel/logger.js';
import { endOfTurn } from '../kernel/turn.js';
import type { Answers } from './answers.js';
import { parametersOf, usesPipeline } from './nest-internals.js';
import { sendProblem } from './problem-response.js';
import type { ReadParameter } from './request-parameters.js';

/**
 * Calls a controller's method without Nest's request pipeline. For a GET the pipeline costs as much as the rest of
 * the service (measured: 10 µs of CPU; bare Fastify takes 23 µs), and nothing here uses it: there are no Nest guards,
 * pipes or interceptors. A controller that uses one, or an unknown parameter decorator, keeps Nest's own handler.
 */
type Method = (...args: unknown[]) => unknown;

export interface Target {
  controller: new (...args: never[]) => object;
  method: string | symbol;
  /** The HTTP status of its success. */
  status: number;
}

/** @returns undefined when the method needs Nest's pipeline */
export function controllerHandler(
  { controller, method, status }: Target,
  instance: object,
  answers: Answers,
  logger: Logger,
) {
  const callback = (instance as Record<string | symbol, Method>)[method]!;
  if (usesPipeline(controller, callback)) return undefined;
  const extracts = extractsOf(controller, method);
  if (!extracts) return undefined;

  return (request: FastifyRequest, reply: FastifyReply): void => {
    const failed = (error: unknown): void => sendProblem(reply, error, logger);
    // Answers of one turn are written together. Written one by one, the answers of 64 connections cost nearly twice the CPU time.
    const done = (body: unknown): Promise<void> => endOfTurn().then(() => answers.send(reply, body));
    try {
      const args = extracts.map((extract) => extract(request, reply));
      reply.code(status);
      const result = callback.apply(instance, args);
      Promise.resolve(result).then(done).catch(failed);
    } catch (error) {
      failed(error);
    }
  };
}

function extractsOf(controller: Target['controller'], method: string | symbol): ReadParameter[] | undefined {
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
