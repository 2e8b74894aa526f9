import { HttpException } from '@nestjs/common';
import type { FastifyReply } from 'fastify';
import { NewerSchema } from '../kernel/event-definition.js';
import { type StoreFailure, StoreUnavailable } from '../stores/ports/event-store.js';
import type { Logger } from '../kernel/logger.js';
import { Problem, type ProblemCode, PROBLEMS, problemMembers } from '../kernel/problems.js';
import type { ItemProblemDto } from './common.dto.js';

/** Turns refusals and failures into answers: RFC 9457 `application/problem+json`. */

export const CONTENT_TYPE = 'application/problem+json';

/** Answers with a problem. Failures that the client did not cause are logged with the request's id, and not described in the answer. */
export function sendProblem(reply: FastifyReply, error: unknown, logger: Logger): void {
  if (reply.sent) {
    logger.error('A request failed after its answer', { request_id: reply.request.id, error });
    return;
  }
  // Aborted because the client disconnected: not a failure, so nothing is logged.
  if (reply.raw.destroyed && (error as Error | null)?.name === 'AbortError') return;
  const problem = problemOf(error);
  reply.request.problem = problem.code;
  if (problem.status >= 500) {
    const request = { request_id: reply.request.id, method: reply.request.method, route: reply.request.pattern };
    if (problem.status === 503 && !logger.isNews(reasonOf(problem.code, error)))
      logger.debug(problem.message, { ...request, error });
    // An expected refusal, for example while read models are being built, is no failure.
    else if (error === problem) logger.warn(problem.message, { ...request, code: problem.code });
    else logger.error(problem.code === 'internal_error' ? 'Internal error' : problem.message, { ...request, error });
  }
  if (problem.extra.headers) reply.headers(problem.extra.headers);
  // Fastify closes the connection if it did not read the body, which resets it while the client is still sending. If it
  // is kept open, the rest is read and dropped within the request timeout, and the client gets the answer.
  if (problem.status === 413) reply.removeHeader('connection');
  reply.removeHeader('etag');
  reply
    .code(problem.status)
    .header('cache-control', 'no-store')
    .header('content-type', CONTENT_TYPE)
    // As bytes: to text Fastify would add a charset, which this media type does not have.
    .send(Buffer.from(problemBody(problem, reply.request.id)));
}

export function problemBody(problem: Problem, requestId: string): string {
  const { errors, members } = problem.extra;
  return JSON.stringify({ ...problemMembers(problem), request_id: requestId, ...members, ...(errors && { errors }) });
}

/**
 * While a store is unavailable every request is refused, so each reason is logged only once a minute, and its
 * repetitions at debug level. Counted by reason and not by code alone, since the first refusal may be a consequence and
 * a later one the cause; and without its numbers: how far a build is, or the position that a client waits for, differ in
 * each request.
 */
function reasonOf(code: ProblemCode, error: unknown): string {
  return `${code} ${(error as Error | null)?.message}`.replaceAll(/\d[\d.,]*/g, '#');
}

/** Wrong fields that are described of one item of a batch. */
const MAX_ERRORS = 10;

/** The refusal of one item of a batch. @throws what is no refusal */
export function itemProblem(error: Error): { status: number; problem: ItemProblemDto } {
  const problem = problemOf(error);
  const errors = problem.extra.errors?.slice(0, MAX_ERRORS);
  return { status: problem.status, problem: { ...problemMembers(problem), ...(errors && { errors }) } };
}

const BY_FASTIFY_CODE: Record<string, [ProblemCode, string]> = {
  FST_ERR_BAD_URL: ['validation_failed', 'The path is not properly percent-encoded UTF-8.'],
  FST_ERR_MAX_PARAM_LENGTH: ['uri_too_long', 'A path parameter has at most 512 characters.'],
  FST_ERR_CTP_BODY_TOO_LARGE: ['payload_too_large', 'The body has at most 1 MiB, and 64 KiB on a public route.'],
  FST_ERR_CTP_INVALID_MEDIA_TYPE: ['unsupported_media_type', 'The body must be sent as application/json in UTF-8.'],
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: ['malformed_request', 'The length of the body differs from its Content-Length.'],
};

const BY_STATUS: Record<number, ProblemCode> = {
  400: 'malformed_request',
  401: 'unauthorized',
  403: 'forbidden',
  404: 'not_found',
  405: 'method_not_allowed',
  408: 'request_timeout',
  413: 'payload_too_large',
  414: 'uri_too_long',
  415: 'unsupported_media_type',
  429: 'rate_limited',
  431: 'headers_too_large',
};

const STORE_FAILURES: Record<StoreFailure, string> = {
  store_unavailable: 'A store of the service gives no definite answer. The same request may be repeated.',
  store_busy: 'Too many writes are waiting for the log. Nothing was recorded; try again later.',
  store_full: 'The disk of the service is all but full. Nothing was recorded; reads continue.',
  log_replaced:
    'The log was replaced by another one or by an older copy. Nothing is read or recorded until the right one is back.',
  read_models_foreign:
    'The read models were folded from another log. Nothing is read or recorded until the right ones are back.',
  read_models_damaged:
    'The read models are damaged or have lost rows. Nothing is read or recorded until that is repaired.',
};

export function problemOf(error: unknown): Problem {
  if (error instanceof Problem) return error;
  if (error instanceof StoreUnavailable) {
    return new Problem(error.code, STORE_FAILURES[error.code], { headers: { 'retry-after': '1' } });
  }
  if (error instanceof NewerSchema) return new Problem('newer_schema', `The ${error.message}.`);
  const known = BY_FASTIFY_CODE[(error as { code?: string } | null)?.code ?? ''];
  if (known) return new Problem(...known);
  const status = error instanceof HttpException ? error.getStatus() : statusOfPlugin(error);
  const code = status === undefined ? undefined : BY_STATUS[status];
  // The message of a foreign exception may contain anything, so only the title is shown.
  if (code) return new Problem(code, `${PROBLEMS[code][1]}.`);
  return new Problem('internal_error', 'The service failed to handle the request; its log contains the request id.');
}

/** With 403 @fastify/static refuses a path that leads out of its folder: no credential would allow that. */
function statusOfPlugin(error: unknown): number | undefined {
  const { statusCode } = (error ?? {}) as { statusCode?: number };
  return statusCode === 403 ? 404 : statusCode;
}
