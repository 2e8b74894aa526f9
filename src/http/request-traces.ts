import type { FastifyInstance } from 'fastify';
import type { Span, Tracing } from '../kernel/tracing.js';
import { policyOf } from './routes.js';

declare module 'fastify' {
  interface FastifyRequest {
    /** Absent unless it is traced. */
    span?: Span | undefined;
  }
}

/**
 * Spans of requests, by the semantic conventions of OpenTelemetry for HTTP servers. A `traceparent` that a client sends
 * is continued. Health, metrics and streams, which do not end by themselves, are not traced.
 */
export function traceRequests(fastify: FastifyInstance, tracing: Tracing): void {
  fastify.addHook('onRequest', (request, _reply, done) => {
    const policy = policyOf(request.routeOptions.config);
    if (policy && !policy.plain && !policy.live) {
      const { traceparent, tracestate } = request.headers;
      const { url: route } = request.routeOptions;
      const span = tracing.start(`${request.method} ${route}`, {
        kind: 'server',
        parent: typeof traceparent === 'string' ? traceparent : undefined,
        tracestate: typeof tracestate === 'string' ? tracestate : undefined,
      });
      span?.set({
        'http.request.method': request.method,
        'http.route': route!,
        'url.path': request.url.split('?', 1)[0]!,
        'url.scheme': request.protocol,
        'credence.request_id': request.id,
      });
      request.span = span;
    }
    done();
  });
  fastify.addHook('onSend', (request, reply, payload, done) => {
    const { span, problem } = request;
    if (span) {
      const isFailure = reply.statusCode >= 500;
      span.set({ 'http.response.status_code': reply.statusCode, ...(problem !== null && { 'error.type': problem }) });
      span.end(isFailure ? (problem ?? String(reply.statusCode)) : undefined);
    }
    done(null, payload);
  });
}
