import { CUSTOM_ROUTE_ARGS_METADATA, ROUTE_ARGS_METADATA } from '@nestjs/common/constants.js';
import { RouteParamtypes } from '@nestjs/common/enums/route-paramtypes.enum.js';
import type { ExecutionContext } from '@nestjs/common';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';

/**
 * All uses of Nest beyond its public interface. Nest does not expose which parameters a controller's method has, nor of
 * which kinds: only its request pipeline knows, which is not used here (see `controllers.ts`).
 * test/http/nest-internals.test.ts fails when a version of Nest changes any of it.
 */

/** Returns the value of a parameter of a controller's method. */
export type ReadParameter<T = unknown> = (request: FastifyRequest, reply: FastifyReply) => T;

export interface Parameter {
  /** Undefined for a kind that is not used here. */
  kind: 'request' | 'body' | 'query' | 'params' | 'custom' | undefined;
  index: number;
  /** The argument of its decorator, such as the name of one field. */
  data?: unknown;
  pipes?: unknown[];
  /** For a custom decorator: the function that returns the value; with `read` if `parameterOf` made it. */
  factory?: ((data: unknown, context: ExecutionContext) => unknown) & { read?: ReadParameter };
}

const KINDS: Record<number, Parameter['kind']> = {
  [RouteParamtypes.REQUEST]: 'request',
  [RouteParamtypes.BODY]: 'body',
  [RouteParamtypes.QUERY]: 'query',
  [RouteParamtypes.PARAM]: 'params',
};

/** The decorated parameters of a controller's method. */
export function parametersOf(controller: object, method: string | symbol): Parameter[] {
  const metadata: Record<string, Omit<Parameter, 'kind'>> = Reflect.getMetadata(
    ROUTE_ARGS_METADATA,
    controller,
    method,
  ) ?? {};
  return Object.entries(metadata).map(([key, parameter]) => ({
    ...parameter,
    kind: key.includes(CUSTOM_ROUTE_ARGS_METADATA) ? 'custom' : KINDS[Number(key.split(':')[0])],
  }));
}

const PIPELINE = ['__guards__', '__interceptors__', '__pipes__', '__exceptionFilters__', '__headers__', '__redirect__'];

/** Whether a controller's method uses a part of Nest's request pipeline. */
export function usesPipeline(controller: object, callback: object): boolean {
  return PIPELINE.some((key) => Reflect.hasMetadata(key, controller) || Reflect.hasMetadata(key, callback));
}

/**
 * The server as the constructor of Nest's adapter gets it: hooks that are added to this are not added to the server. The
 * base class adds some to every request, for CORS, versions and middleware, of which there are none here.
 */
export function withoutHooks(server: FastifyInstance): never {
  return Object.create(server, { addHook: { value: () => server }, skipMiddie: { value: true } }) as never;
}
