import type { components } from './schema.js';

/** The codes that this version of the client knows; docs/http.md of the service says when it gives which. */
export type ProblemCode = components['schemas']['ProblemCode'];

/** What is wrong with one field: `pointer` is an RFC 6901 pointer into the body, `?name` of a query parameter, or a name. */
export type FieldError = components['schemas']['FieldErrorDto'];

/** The service refused a request: RFC 9457, `application/problem+json`. */
export class ProblemError extends Error {
  override readonly name = 'ProblemError';

  constructor(
    /** HTTP status. */
    readonly status: number,
    /** Stable. `unknown`: the answer is not a problem of the service, but of a proxy, for example. */
    readonly code: ProblemCode | 'unknown' | (string & {}),
    /** For people; may change. */
    readonly detail: string,
    readonly errors: readonly FieldError[],
    /** The request's id in the log of the service. */
    readonly requestId: string | null,
    /** After how many milliseconds the service wants to be asked again; null: it did not say. */
    readonly retryAfter: number | null,
    /** The problem as it came, with what only some have, such as `progress`. */
    readonly problem: Readonly<Record<string, unknown>>,
  ) {
    super(`${code}: ${detail}`);
  }

  static async of(response: Response): Promise<ProblemError> {
    const body: unknown = await response.json().catch(() => null);
    const problem = (typeof body === 'object' && body !== null ? body : {}) as Record<string, unknown>;
    const { code, detail, errors, request_id: id } = problem;
    return new ProblemError(
      response.status,
      typeof code === 'string' ? code : 'unknown',
      typeof detail === 'string' ? detail : `The answer has the status ${response.status}.`,
      Array.isArray(errors) ? (errors as FieldError[]) : [],
      typeof id === 'string' ? id : response.headers.get('x-request-id'),
      milliseconds(response.headers.get('retry-after')),
      problem,
    );
  }
}

/** No answer came: the service cannot be reached, the connection was cut, or the time was over. `cause` says what happened. */
export class ConnectionError extends Error {
  override readonly name = 'ConnectionError';
}

/** Retry-After is a number of seconds or a date. */
function milliseconds(value: string | null): number | null {
  if (value === null) return null;
  const ms = /^\d+$/.test(value) ? Number(value) * 1_000 : Date.parse(value) - Date.now();
  return Number.isNaN(ms) ? null : Math.max(0, ms);
}
