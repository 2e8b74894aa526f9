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
  batch_too_large: [400, 'Too many items in one batch'],
  position_unknown: [400, 'Unknown position'],
  personal_data: [400, 'The id identifies a person'],
  address_checksum: [400, 'The address has a wrong checksum'],
  chain_not_configured: [400, 'The chain is not configured'],
  vouchers_not_configured: [400, 'Vouchers are not configured'],
  siwe_malformed: [400, 'Not a sign-in message'],
  siwe_too_long: [400, 'The sign-in message is too long'],
  siwe_signature_form: [400, 'The signature is malformed'],
  siwe_signature_compact: [400, 'Compact signatures are not accepted'],
  unauthorized: [401, 'A valid credential is required'],
  siwe_domain: [401, 'The message is for another domain'],
  siwe_uri: [401, 'The message is for another URI'],
  siwe_not_yet_valid: [401, 'The message is not valid yet'],
  siwe_expired: [401, 'The message has expired'],
  siwe_too_old: [401, 'The message is too old'],
  siwe_nonce_unknown: [401, 'Unknown nonce'],
  nonce_used: [401, 'The nonce was used before'],
  siwe_address: [401, 'The message is for another address'],
  siwe_chain: [401, 'The message is for another chain'],
  siwe_resources: [401, 'The message lists resources'],
  siwe_changed: [401, 'The message was changed'],
  siwe_purpose: [401, 'The message is for another purpose'],
  siwe_signature: [401, 'The signature is not by the wallet'],
  siwe_signature_high_s: [401, 'The signature is malleated'],
  siwe_claim: [401, 'The wallet cannot claim this identity'],
  siwe_no_contract: [401, 'The address has no contract'],
  refresh_unknown: [401, 'Unknown refresh token'],
  refresh_reused: [401, 'The refresh token was used before'],
  refresh_revoked: [401, 'The session has ended'],
  session_revoked: [401, 'The session has ended'],
  token_malformed: [401, 'Not an access token'],
  token_type: [401, 'The token has another type'],
  token_algorithm: [401, 'The token has another algorithm'],
  token_signature: [401, 'The token has an invalid signature'],
  token_audience: [401, 'The token is for another audience'],
  token_expired: [401, 'The access token has expired'],
  forbidden: [403, 'The credential does not allow this'],
  self_statement: [403, 'An organization cannot make statements about itself'],
  own_submission: [403, 'The reviewer submitted the record'],
  signature_required: [403, 'The wallet itself must sign for this'],
  platform_not_owned: [403, 'The platform belongs to another organization'],
  policy_name_not_owned: [403, 'The name of the policy belongs to another owner'],
  not_found: [404, 'Not found'],
  identity_not_found: [404, 'Unknown identity'],
  policy_not_found: [404, 'Unknown policy'],
  decision_not_found: [404, 'Unknown decision'],
  replay_not_found: [404, 'Unknown replay'],
  job_not_found: [404, 'Unknown job'],
  generation_not_found: [404, 'Unknown generation'],
  key_not_found: [404, 'Unknown key'],
  ingestion_not_found: [404, 'Unknown ingestion'],
  record_not_found: [404, 'Unknown record'],
  issuer_not_found: [404, 'Unknown issuer'],
  organization_not_found: [404, 'Unknown organization'],
  organization_not_vetted: [404, 'Not a vetted organization'],
  wallet_not_linked: [404, 'The wallet is not linked'],
  scheme_not_found: [404, 'Unknown verification scheme'],
  webhook_not_found: [404, 'Unknown webhook'],
  delivery_not_found: [404, 'Unknown delivery'],
  method_not_allowed: [405, 'Method not allowed'],
  request_timeout: [408, 'The request did not arrive in time'],
  job_not_completed: [409, 'The job is not completed'],
  platform_already_registered: [409, 'The platform is registered to another organization'],
  external_id_conflict: [409, 'The external id was used for another action'],
  wallet_already_linked: [409, 'The wallet is already linked'],
  policy_conflict: [409, 'The policy exists with other content'],
  ingestion_open: [409, 'Another job is reading the wallet'],
  record_conflict: [409, 'The content was submitted as another record'],
  record_decided: [409, 'The record was already decided'],
  record_counted: [409, 'The content counts already'],
  issuer_conflict: [409, 'The issuer exists with another key or platform'],
  policy_retired: [409, 'The policy is retired'],
  policy_not_active: [409, 'The policy is not active'],
  model_not_active: [409, 'The version of the model is not active'],
  promotion_conflict: [409, 'Another promotion was first'],
  replay_not_usable: [409, 'The replay cannot be used'],
  scheme_conflict: [409, 'The verification scheme exists with other content'],
  scheme_retired: [409, 'The verification scheme is retired'],
  nullifier_used: [409, 'The credential has verified another identity'],
  verification_revoked: [409, 'The verification was revoked'],
  delivery_pending: [409, 'The delivery has not ended'],
  generation_conflict: [409, 'The generations do not allow this'],
  operation_open: [409, 'An operation of this kind is under way'],
  snapshots_not_configured: [409, 'Snapshots are not configured'],
  key_conflict: [409, 'A key with this id exists'],
  key_in_use: [409, 'The key cannot be deleted'],
  keys_read_only: [409, 'The keys cannot be changed here'],
  snapshot_refused: [409, 'The snapshot cannot be made or used'],
  write_conflict: [409, 'The resource changed at the same time'],
  job_result_expired: [410, 'The result is no longer stored'],
  payload_too_large: [413, 'The body is too large'],
  uri_too_long: [414, 'The address is too long'],
  unsupported_media_type: [415, 'Unsupported media type'],
  weight_criticality_mismatch: [422, 'The weight does not match the criticality'],
  duplicate_metric: [422, 'A metric occurs twice'],
  total_weight_out_of_range: [422, 'The total weight is out of range'],
  too_many_metrics: [422, 'The identity has too many metrics'],
  too_many_webhooks: [422, 'The organization has too many webhooks'],
  idempotency_key_reused: [422, 'The Idempotency-Key was used for another request'],
  public_signal_mismatch: [422, 'A public signal has an unexpected value'],
  proof_expired: [422, 'The proven credential has expired'],
  proof_invalid: [422, 'The proof is invalid'],
  rate_limited: [429, 'Too many requests'],
  headers_too_large: [431, 'The request headers are too large'],
  internal_error: [500, 'Internal error'],
  job_failed: [500, 'The job failed'],
  history_unreadable: [500, 'An event that is needed cannot be decoded'],
  shutting_down: [503, 'The service is stopping'],
  newer_schema: [503, 'The log contains events of a newer build'],
  chain_unavailable: [503, 'The chain is unavailable'],
  store_unavailable: [503, 'A store is unavailable'],
  too_many_streams: [503, 'Too many streams are open'],
  preview_busy: [503, 'Another preview of all identities is running'],
  verifier_unavailable: [503, 'Proofs cannot be verified now'],
  store_busy: [503, 'The log is overloaded'],
  store_full: [503, 'The disk is full'],
  log_replaced: [503, 'The log was replaced'],
  read_models_foreign: [503, 'The read models belong to another log'],
  read_models_damaged: [503, 'The read models are damaged'],
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

/** A refusal with a stable code. Thrown anywhere; HTTP and the CLI render it. */
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

export function unknownIdentity(trisId: string, when = ''): Problem {
  return new Problem('identity_not_found', `Nothing is known about ${trisId}${when && ` ${when}`}.`);
}

export function idempotencyKeyReused(): Problem {
  const message = 'This Idempotency-Key was used for a request with another body; send a new key with a new request.';
  return new Problem('idempotency_key_reused', message);
}

const NEEDS_KEY = 'This needs an API key in the X-API-Key header';
/** @param session whether the session of a wallet is accepted as well */
export const unauthorized = (
  session: boolean,
  detail = session ? `${NEEDS_KEY}, or a session’s token in Authorization: Bearer.` : `${NEEDS_KEY}.`,
): Problem =>
  new Problem('unauthorized', detail, {
    headers: {
      'www-authenticate': `ApiKey realm="credence", header="X-API-Key"${session ? ', Bearer realm="credence"' : ''}`,
    },
  });

/** @param detail what is being built, and how far it is */
export function rebuilding(detail: string, members: Record<string, unknown> = {}): Problem {
  return new Problem('projection_rebuilding', `The read models are being built: ${detail}. Try again shortly.`, {
    headers: { 'retry-after': '1' },
    members,
  });
}

/**
 * A refusal of input. If all errors have the same code and that code is a problem's, it is the problem's code; otherwise
 * `validation_failed`. At most 100 errors are listed.
 */
export function refusal(errors: FieldError[]): Problem {
  const [first] = errors;
  const shared = errors.every(({ code }) => code === first?.code) && first && first.code in PROBLEMS;
  const count = errors.length === 1 ? '' : ` (and ${errors.length - 1} more)`;
  const where = first?.pointer ? `${first.pointer}: ` : '';
  return new Problem(shared ? (first.code as ProblemCode) : 'validation_failed', `${where}${first?.message}${count}`, {
    errors: errors.slice(0, 100),
  });
}

/** The members that every problem has; a batch returns them for each identity without a result. */
export function problemMembers({ code, title, status, message }: Problem) {
  return { type: `/docs/problems#${code}`, title, status, detail: message.toWellFormed(), code };
}
