import type { FastifyReply, FastifyRequest, RouteOptions } from 'fastify';
import { Problem } from '../kernel/problems.js';
import { PREFLIGHT_HEADERS } from './headers.js';

interface Path {
  pattern: RegExp;
  parameters: number;
  methods: Set<string>;
}

/** All path patterns with their methods, for requests that match no route. */
export class KnownPaths {
  private readonly byUrl = new Map<string, Path>();

  add({ url, method }: RouteOptions): void {
    const parameters = url.split(/[:*]/).length - 1;
    const known = this.byUrl.get(url) ?? { pattern: patternOf(url), parameters, methods: new Set() };
    for (const each of [method].flat()) known.methods.add(each);
    this.byUrl.set(url, known);
  }

  /** Answers a request without a route: OPTIONS 204, a known path with another method 405 with Allow, else 404. */
  answerUnrouted(request: FastifyRequest, reply: FastifyReply): void {
    const path = request.url.split('?')[0]!;
    // Of several patterns, the router takes the one with the fewest parameters.
    const [at] = [...this.byUrl.values()]
      .filter(({ pattern }) => pattern.test(path))
      .sort((a, b) => a.parameters - b.parameters);
    if (!at) throw nothingHere();
    const allow = [...at.methods, 'OPTIONS'].join(', ');
    if (request.method !== 'OPTIONS') {
      const detail = `This address supports ${allow}, not ${request.method}.`;
      throw new Problem('method_not_allowed', detail, { headers: { allow } });
    }
    reply.code(204).header('allow', allow);
    if (request.raw.headers.origin !== undefined) {
      reply.headers(PREFLIGHT_HEADERS).header('access-control-allow-methods', allow);
    }
    reply.send();
  }
}

export const nothingHere = (): Problem => new Problem('not_found', 'There is nothing at this address.');

const patternOf = (path: string): RegExp =>
  new RegExp(
    `^${path
      .replace(/[.+?^${}()|[\]\\]/g, '\\$&')
      .replace(/:[^/]+/g, '[^/]+')
      .replaceAll('*', '.*')}$`,
  );
