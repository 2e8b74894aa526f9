import { isMisspelled, spellingOf } from './identifiers.js';

/**
 * Every refusal the service can give, by its HTTP status, with its title, and when it is given, in one place.
 * The wire form is RFC 9457 `application/problem+json`; `code` is the stable, machine-readable name.
 */
const BY_STATUS = {
  400: {
    validation_failed: [
      'The request is not valid',
      'a field, parameter, header or path is missing, unknown or malformed',
    ],
    malformed_request: ['The request is not well-formed HTTP', 'the request is not well-formed HTTP'],
    malformed_json: [
      'The body is not well-formed JSON',
      'the body is not JSON, not UTF-8, or repeats a name in an object',
    ],
    unknown_criticality: ['Unknown criticality', 'not one of the five criticalities'],
    unknown_metric: [
      'Unknown metric',
      "not a category, not a documented metric, in no policy and not in the identity's evidence; the detail lists the categories, the documented metrics and those of the identity",
    ],
    batch_too_large: [
      'Too many items in one batch',
      'more than 100 identities in a batch (25 in a batch of reports), 20 access policies, or 1,000 actions',
    ],
    position_unknown: [
      'Unknown position',
      'a position of another log, a position beyond the head, or one whose event was lost',
    ],
    personal_data: [
      'The id identifies a person',
      'an id or platform id to be recorded contains an e-mail address or a telephone number (privacy)',
    ],
    address_checksum: ['The address has a wrong checksum', 'an address in mixed case without a valid EIP-55 checksum'],
    chain_not_configured: [
      'The chain is not configured',
      'a voucher, a history, or a signature that only a contract can verify, is for a chain without `CREDENCE_RPC_<chainId>`; or no contracts are listed for a history',
    ],
    vouchers_not_configured: [
      'Vouchers are not configured',
      'the service has no keys to sign vouchers with (`CREDENCE_VOUCHER_KEYS`)',
    ],
    siwe_malformed: ['Not a sign-in message', 'the message does not follow EIP-4361'],
    siwe_too_long: ['The sign-in message is too long', 'the message has more than 4,096 characters'],
    siwe_signature_form: [
      'The signature is malformed',
      'the signature is not `0x` and up to 16,384 hexadecimal digits',
    ],
    siwe_signature_compact: [
      'Compact signatures are not accepted',
      'a signature of 64 bytes (EIP-2098) where no contract can judge it',
    ],
  },
  401: {
    unauthorized: ['A valid credential is required', 'no key where one is required, or an invalid key anywhere'],
    siwe_domain: ['The message is for another domain', 'the message is for another domain'],
    siwe_uri: ['The message is for another URI', 'the message is for another URI'],
    siwe_not_yet_valid: ['The message is not valid yet', 'the message was issued in the future, or is not valid yet'],
    siwe_expired: ['The message has expired', 'the message has expired'],
    siwe_too_old: ['The message is too old', 'the message was issued more than 10 minutes ago'],
    siwe_nonce_unknown: [
      'Unknown nonce',
      'the nonce was not issued here, or the service has lost since which nonces were used',
    ],
    nonce_used: ['The nonce was used before', 'the nonce was used, whether or not its signature was valid'],
    siwe_address: ['The message is for another address', 'the nonce was issued for another address'],
    siwe_chain: ['The message is for another chain', 'the nonce was issued for another chain'],
    siwe_resources: ['The message lists resources', 'the message lists resources; issued messages have none'],
    siwe_changed: ['The message was changed', 'another part differs from the issued message'],
    siwe_purpose: [
      'The message is for another purpose',
      'a message for linking was sent to sign-in, or the other way round',
    ],
    siwe_signature: [
      'The signature is not by the wallet',
      'the signature is not by the key of the address, and its contract does not accept it',
    ],
    siwe_signature_high_s: [
      'The signature is malleated',
      'a valid signature with s in the upper half of the group order (EIP-2)',
    ],
    siwe_claim: [
      'The wallet cannot claim this identity',
      'the message claims `tris:<address>` and a contract accepted it, or `tris:eip155:<chain>:<address>` and a key signed it',
    ],
    siwe_no_contract: [
      'The address has no contract',
      'the signature is not by the key of the address, and no contract answers there',
    ],
    refresh_unknown: ['Unknown refresh token', 'the refresh token is unknown, or its session has expired'],
    refresh_reused: [
      'The refresh token was used before',
      'the refresh token was used before; its session has been ended',
    ],
    refresh_revoked: ['The session has ended', 'the session of the refresh token has ended'],
    session_revoked: ['The session has ended', 'the session of the access token has ended'],
    token_malformed: ['Not an access token', 'not a signed JWT, or without the claims of an access token'],
    token_type: ['The token has another type', 'a JWT of another `typ`, such as an eligibility token'],
    token_algorithm: ['The token has another algorithm', 'a JWT that is not signed, or not with EdDSA'],
    token_signature: ['The token has an invalid signature', 'the signature is wrong, or not by a key of this service'],
    token_audience: ['The token is for another audience', 'the token is for another audience'],
    token_expired: ['The access token has expired', 'the access token has expired: refresh it'],
  },
  403: {
    forbidden: ['The credential does not allow this', 'the key lacks the scope, or belongs to another organization'],
    self_statement: [
      'An organization cannot make statements about itself',
      "an organization's key relays, grants, links or reviews something about its own organization, or a proof under an organization's scheme is about it",
    ],
    own_submission: [
      'The reviewer submitted the record',
      "the reviewer's organization, or among operators the same key, submitted the record",
    ],
    signature_required: [
      'The wallet itself must sign for this',
      'the link of the wallet that founded a TRIS ends only with a message (purpose `unlink`) that the wallet signed',
    ],
    platform_not_owned: [
      'The platform belongs to another organization',
      "an organization's key relays for a platform that its organization does not own",
    ],
    policy_name_not_owned: [
      'The name of the policy belongs to another owner',
      "an organization's key creates a version of a policy's name that belongs to another owner",
    ],
  },
  404: {
    not_found: ['Not found', 'nothing at this address, or nothing with this id'],
    event_id_unknown: ['Unknown event', 'no action or dead letter with this id; other events have a position only'],
    identity_not_found: ['Unknown identity', 'nothing is known about the identity, or nothing was known at that time'],
    policy_not_found: ['Unknown policy', 'no policy with this id'],
    decision_not_found: ['Unknown decision', "no decision with this id, or it is by another organization's policy"],
    replay_not_found: ['Unknown replay', 'no replay with this id, or one that the key may not read'],
    job_not_found: ['Unknown job', 'no job with this id, or one that the key may not read'],
    generation_not_found: ['Unknown generation', 'no generation of read models with this id'],
    key_not_found: ['Unknown key', 'no API key with this id'],
    ingestion_not_found: [
      'Unknown ingestion',
      'no ingestion with this id, or it belongs to another TRIS or was started by another organization',
    ],
    record_not_found: ['Unknown record', 'no trove record with this id'],
    issuer_not_found: ['Unknown issuer', 'no issuer with this id'],
    organization_not_found: ['Unknown organization', 'no organization with this id is registered'],
    organization_not_vetted: [
      'Not a vetted organization',
      'a rank was requested, and the organization is unknown or not vetted',
    ],
    wallet_not_linked: [
      'The wallet is not linked',
      'the wallet is not linked (for a voucher or a history: by its own signature), or the caller may not know about the link',
    ],
    scheme_not_found: ['Unknown verification scheme', 'no verification scheme with this id'],
    webhook_not_found: ['Unknown webhook', 'the organization of the key has no webhook with this id'],
    delivery_not_found: [
      'Unknown delivery',
      'the webhook has no delivery with this id, or it ended over seven days, 1,000 deliveries or 100 MB ago',
    ],
  },
  405: {
    method_not_allowed: [
      'Method not allowed',
      'the address does not support this method; `Allow` lists those it supports',
    ],
  },
  408: {
    request_timeout: ['The request did not arrive in time', 'the request did not arrive within 30 seconds'],
  },
  409: {
    withdrawals_changed: [
      'Actions of the set were changed',
      'an action of the dry run was withdrawn or reinstated since; `errors` names up to a hundred',
    ],
    job_not_completed: ['The job is not completed', 'the result of a job that is not completed was requested'],
    platform_already_registered: [
      'The platform is registered to another organization',
      'the platform belongs to another organization; the owner of a platform cannot change',
    ],
    external_id_conflict: [
      'The external id was used for another action',
      'the platform used this `external_id` for another action',
    ],
    action_not_withdrawn: ['The action is not withdrawn', 'an action that never was withdrawn was to be reinstated'],
    wallet_already_linked: [
      'The wallet is already linked',
      'the wallet is already linked to a TRIS, which is not disclosed',
    ],
    policy_conflict: ['The policy exists with other content', 'a policy with this id exists with other content'],
    ingestion_open: [
      'Another job is reading the wallet',
      "another job is reading the wallet's history on the chain, with other parameters",
    ],
    record_conflict: [
      'The content was submitted as another record',
      'the content was submitted as a record with other fields',
    ],
    record_decided: [
      'The record was already decided',
      'the record was already decided, by somebody else or differently; another proof after an operator rejected it',
    ],
    record_counted: [
      'The content counts already',
      'this content counts for the identity on the platform already, by another record or another approval',
    ],
    issuer_conflict: [
      'The issuer exists with another key or platform',
      'the issuer exists with another key or platform',
    ],
    policy_retired: ['The policy is retired', 'a retired policy cannot be promoted, or named by a webhook'],
    policy_not_active: [
      'The policy is not active',
      'a rollback of a policy that is not active, or a check of a retired access policy',
    ],
    model_not_active: [
      'The version of the model is not active',
      'a rollback of a version of the model that is not active, or was not promoted',
    ],
    promotion_conflict: [
      'Another promotion was first',
      'another promotion or rollback was first; check which policy is active and decide again',
    ],
    replay_not_usable: ['The replay cannot be used', 'the replay is for another policy or scope, or is not completed'],
    scheme_conflict: [
      'The verification scheme exists with other content',
      'a verification scheme with this id exists with other content',
    ],
    scheme_retired: ['The verification scheme is retired', 'a retired scheme accepts no proofs and no roots'],
    nullifier_used: [
      'The credential has verified another identity',
      "the credential has verified another identity in the scheme's scope",
    ],
    verification_revoked: [
      'The verification was revoked',
      'the verification was revoked, and the credential does not expire later than the revoked one',
    ],
    dispute_open: ['The statement is disputed already', 'the dispute of the statement is open, with another text'],
    dispute_answered: [
      'The dispute was answered',
      'the dispute was answered otherwise; or it was upheld, or rejected with the same text, and cannot be opened again; the problem says `outcome` and `answered_at`',
    ],
    statement_withdrawn: ['The statement does not hold any more', 'the disputed action is withdrawn'],
    delivery_pending: ['The delivery has not ended', 'the delivery is still being tried'],
    generation_conflict: [
      'The generations do not allow this',
      'the generation serves, is not ready, or is not of this log; or there was no swap to roll back',
    ],
    operation_open: [
      'An operation of this kind is under way',
      'an operation of this kind is queued or running, or another process builds the same views',
    ],
    key_conflict: ['A key with this id exists', 'an API key with this id exists'],
    key_in_use: [
      'The key cannot be deleted',
      'the key of the request itself, the last one with `ops`, or the development key',
    ],
    keys_read_only: [
      'The keys cannot be changed here',
      'the file of the keys is shared by a cluster, malformed, or not writable',
    ],
    write_conflict: ['The resource changed at the same time', 'other writers kept changing the same stream; try again'],
  },
  410: {
    job_result_expired: [
      'The result is no longer stored',
      'what a job found for each identity was stored for 24 hours, was removed for later jobs of the same owner, or was lost with the short-lived state',
    ],
  },
  413: {
    payload_too_large: ['The body is too large', 'the body is over 1 MiB, or over 64 KiB on a public route'],
  },
  414: {
    uri_too_long: ['The address is too long', 'a path parameter is over 512 characters'],
  },
  415: {
    unsupported_media_type: ['Unsupported media type', 'not `application/json` in UTF-8'],
  },
  422: {
    weight_criticality_mismatch: [
      'The weight does not match the criticality',
      "an input's weight does not match its criticality",
    ],
    duplicate_metric: ['A metric occurs twice', 'a policy names a metric twice'],
    total_weight_out_of_range: [
      'The total weight is out of range',
      'the declared total weight is outside 0.95 to 1.05, the inputs add up to more than 1.05, or less than 0.95 in a promotion for the platform',
    ],
    too_many_metrics: [
      'The identity has too many metrics',
      'the organization has relayed 20,000 metrics of the identity, and this would be another one; metrics that are recorded are still accepted',
    ],
    too_many_decisions: [
      'The action counted in too many decisions',
      'the action counted in more than 1,000 access decisions; a dry run of `POST /v1/actions/withdrawals` reviews them all',
    ],
    too_many_disputes: ['Too many disputes are open', 'the identity has 20 open disputes'],
    too_many_webhooks: ['The organization has too many webhooks', 'the organization has 100 webhooks'],
    idempotency_key_reused: [
      'The Idempotency-Key was used for another request',
      'the key was used for a request with another body',
    ],
    public_signal_mismatch: [
      'A public signal has an unexpected value',
      'the proof is for another root, scope, subject or constant than the scheme requires; `errors` says which',
    ],
    proof_expired: ['The proven credential has expired', 'the proven credential has expired'],
    proof_invalid: ['The proof is invalid', 'the proof does not prove its public signals'],
  },
  429: {
    rate_limited: [
      'Too many requests',
      'too many requests from one address, or too many jobs or webhook messages at the same time; see `Retry-After`',
    ],
    quota_exceeded: [
      'The quota of the day is used',
      'the organization, or the key without one, has relayed as much as it may on a day; see `Retry-After`. What is recorded already is still answered',
    ],
  },
  431: {
    headers_too_large: ['The request headers are too large', 'the request line and headers are over 16 KiB'],
  },
  500: {
    internal_error: ['Internal error', 'a fault of the service; its log contains the `request_id`'],
    job_failed: ['The job failed', 'only as the `problem` of a failed job; its `detail` says why'],
    history_unreadable: [
      'An event that is needed cannot be read',
      'an event that the decision needs cannot be decoded, or is lost: an operator must check the dead letters, or restore it',
    ],
  },
  503: {
    shutting_down: ['The service is stopping', 'the service is stopping; see `Retry-After`'],
    newer_schema: [
      'The log contains events of a newer build',
      'an event that the decision needs was written by a newer build: an instance of that build, or an update, can read it',
    ],
    chain_unavailable: [
      'The chain is unavailable',
      'the endpoint of a chain does not answer in time, or belongs to another chain; the same request may be repeated',
    ],
    store_unavailable: [
      'A store is unavailable',
      'no definite answer from the log or the read models; the same request may be repeated; see `Retry-After`',
    ],
    too_many_streams: [
      'Too many streams are open',
      'the process has 10,000 open streams of changes, or 5,000 without a key',
    ],
    preview_busy: [
      'Another preview of all identities is running',
      'another preview over all identities is running in this process; see `Retry-After`, or start a replay',
    ],
    verifier_unavailable: ['Proofs cannot be verified now', 'too many proofs are waiting; see `Retry-After`'],
    store_busy: [
      'The log is overloaded',
      'too many writes are waiting for the log; nothing was recorded; try again after `Retry-After`',
    ],
    store_full: [
      'The disk is full',
      'less than 32 MB are free on the disk of an embedded service; nothing was recorded, and reads continue; try again after `Retry-After`',
    ],
    log_replaced: [
      'The log was replaced',
      'the log was replaced by another one or by an older copy; nothing is read or recorded until the right one is back',
    ],
    read_models_foreign: [
      'The read models belong to another log',
      'the read models were folded from another log; nothing is read or recorded until the right ones are back',
    ],
    read_models_damaged: [
      'The read models are damaged',
      'the read models are damaged or have lost rows; nothing is read or recorded until that is repaired',
    ],
    projection_behind: [
      'The read models are behind the log',
      'the position was not applied within 2 seconds, or the read models have been behind the log for longer than an access check allows',
    ],
    projection_rebuilding: ['The read models are being rebuilt', 'a read model is being built'],
  },
} as const satisfies Record<number, Record<string, readonly [title: string, when: string]>>;

type ByStatus = typeof BY_STATUS;
export type ProblemCode = { [S in keyof ByStatus]: keyof ByStatus[S] }[keyof ByStatus];

/** The same by code. */
export const PROBLEMS = Object.fromEntries(
  Object.entries(BY_STATUS).flatMap(([status, problems]) =>
    Object.entries(problems).map(([code, [title, when]]) => [code, [Number(status), title, when]]),
  ),
) as Record<ProblemCode, [status: number, title: string, when: string]>;

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
  return new Problem('identity_not_found', `Nothing is known about ${trisId}${when && ` ${when}`}.${hintOf(trisId)}`);
}

/** Names the right spelling of an id; empty if it is spelled right. */
export function hintOf(trisId: string): string {
  return isMisspelled(trisId) ? ` Its id is ${spellingOf(trisId)}: an id that is an address has one spelling.` : '';
}

/** Call it when nothing was found under a TRIS id. @throws Problem identity_not_found, if it is misspelled */
export function refuseMisspelled(trisId: string | null | undefined): void {
  if (trisId && isMisspelled(trisId)) throw unknownIdentity(trisId);
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

/** A problem lists at most so many errors, and counts the others. */
export const MAX_ERRORS = 100;

/**
 * A refusal of input. If all errors have the same code and that code is a problem's, it is the problem's code; otherwise
 * `validation_failed`.
 */
export function refusal(errors: FieldError[]): Problem {
  const [first] = errors;
  const shared = errors.every(({ code }) => code === first?.code) && first && first.code in PROBLEMS;
  const count = errors.length === 1 ? '' : ` (and ${errors.length - 1} more)`;
  const where = first?.pointer ? `${first.pointer}: ` : '';
  return new Problem(shared ? (first.code as ProblemCode) : 'validation_failed', `${where}${first?.message}${count}`, {
    errors: errors.slice(0, MAX_ERRORS),
  });
}

/** The refusal of one field, which the detail names. */
export const refusalOf = (pointer: string, code: string, message: string): Problem =>
  refusal([{ pointer, code, message }]);

/** A problem with one field; its code as that of a refusal. @param detail default: the message */
export const fieldProblem = (pointer: string, code: string, message: string, detail = message): Problem =>
  new Problem(code in PROBLEMS ? (code as ProblemCode) : 'validation_failed', detail, {
    errors: [{ pointer, code, message }],
  });

/** The members that every problem has; a batch returns them for each identity without a result. */
export function problemMembers({ code, title, status, message }: Problem) {
  return { type: `/docs/problems#${code}`, title, status, detail: message.toWellFormed(), code };
}
