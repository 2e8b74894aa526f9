/**
 * Every refusal the service can give, with its HTTP status and title, in one place.
 * The wire form is RFC 9457 `application/problem+json`; `code` is the stable, machine-readable name.
 */
export const PROBLEMS = {
  validation_failed: [400, 'The request is not valid'],
  malformed_request: [400, 'The request is not well-formed HTTP'],
  malformed_json: [400, 'The body is not well-formed JSON'],
  unknown_criticality: [400, 'Unknown criticality'],
  unknown_metric: [400, 'Unknown metric'],
  batch_too_large: [400, 'Too many identities in one batch'],
  position_unknown: [400, 'Unknown position'],
  unauthorized: [401, 'A valid credential is required'],
  forbidden: [403, 'The credential does not allow this'],
  platform_not_owned: [403, 'The platform belongs to another organization'],
  not_found: [404, 'Not found'],
  identity_not_found: [404, 'Unknown identity'],
  policy_not_found: [404, 'Unknown policy'],
  replay_not_found: [404, 'Unknown replay'],
  record_not_found: [404, 'Unknown record'],
  issuer_not_found: [404, 'Unknown issuer'],
  organization_not_found: [404, 'Unknown organization'],
  organization_not_vetted: [404, 'Not a vetted organization'],
  method_not_allowed: [405, 'Method not allowed'],
  request_timeout: [408, 'The request did not arrive in time'],
  platform_already_registered: [409, 'The platform is registered to another organization'],
  external_id_conflict: [409, 'The external id was used for another action'],
  policy_conflict: [409, 'The policy exists with other content'],
  record_conflict: [409, 'The content was submitted as another record'],
  record_decided: [409, 'The record is decided'],
  issuer_conflict: [409, 'The issuer exists with another key or platform'],
  policy_retired: [409, 'The policy is retired'],
  policy_not_active: [409, 'The policy is not active'],
  promotion_conflict: [409, 'Another promotion was faster'],
  replay_not_usable: [409, 'The replay does not fit'],
  write_conflict: [409, 'The resource changed at the same time'],
  payload_too_large: [413, 'The body is too large'],
  uri_too_long: [414, 'The address is too long'],
  unsupported_media_type: [415, 'Unsupported media type'],
  weight_criticality_mismatch: [422, 'The weight is not that of its criticality'],
  duplicate_metric: [422, 'A metric is weighed twice'],
  total_weight_out_of_range: [422, 'The total weight is out of range'],
  idempotency_key_reused: [422, 'The Idempotency-Key was used for another request'],
  rate_limited: [429, 'Too many requests'],
  headers_too_large: [431, 'The request headers are too large'],
  internal_error: [500, 'Internal error'],
  shutting_down: [503, 'The service is stopping'],
  store_unavailable: [503, 'The event store is unavailable'],
  projection_behind: [503, 'The read models have not reached the requested position yet'],
  projection_rebuilding: [503, 'The read models are being rebuilt'],
} as const satisfies Record<string, readonly [number, string]>;

export type ProblemCode = keyof typeof PROBLEMS;

/** One wrong field: `pointer` is an RFC 6901 JSON pointer into the body, or `?name` for a query parameter. */
export interface FieldError {
  pointer: string;
  code: string;
  message: string;
}

/** A refusal with a stable code. Thrown anywhere, rendered once by the HTTP edge and the CLI. */
export class Problem extends Error {
  readonly status: number;
  readonly title: string;

  constructor(
    readonly code: ProblemCode,
    detail: string,
    readonly extra: { errors?: FieldError[]; headers?: Record<string, string>; members?: Record<string, unknown> } = {},
  ) {
    super(detail);
    this.name = 'Problem';
    [this.status, this.title] = PROBLEMS[code];
  }
}
