import {
  type Decoded,
  defineEvent,
  flag,
  listOf,
  nullable,
  number,
  object,
  oneOf,
  text,
  time,
  wholeNumber,
} from '../../../kernel/event-definition.js';

const seconds = wholeNumber(0, Number.MAX_SAFE_INTEGER);

/** Who may read the rules of an access policy: everybody, or its owner and the operators. */
export const VISIBILITIES = ['public', 'private'] as const;

/** A complete policy, which never changes. Stream `ap-<policy_id>`, revision 0. */
export const accessPolicyCreated = defineEvent(
  'AccessPolicyCreated',
  {
    policy_id: text,
    /** TRIS of the organization that owns it; null: the platform's operators. */
    owner: nullable(text),
    rules: object,
    /** Lifetime of its tokens, s. */
    ttl_seconds: wholeNumber(1, 86_400),
    /** The validation policy to use as the lens; null: the owner's lens, or the platform's. */
    vp: nullable(text),
    visibility: oneOf(VISIBILITIES),
    /** SHA-256 of the RFC 8785 JSON of policy_id, rules, ttl_seconds, vp, and visibility unless it is private. */
    content_hash: text,
  },
  // Older policies were never meant to be published.
  { schema: 2, upcasters: { 1: (data) => ({ ...data, visibility: 'private' }) } },
);

/** The policy can no longer be checked. Same stream. */
export const accessPolicyRetired = defineEvent('AccessPolicyRetired', { policy_id: text });

/**
 * A subject was checked. Stream `access-<jti>`, revision 0. The decision can be derived again from the four coordinates
 * (as_of, position, lens, model), the identical token from iss, kid, iat and exp, and the identical voucher from the
 * voucher's fields.
 */
export const accessChecked = defineEvent(
  'AccessChecked',
  {
    policy_id: text,
    policy_hash: text,
    subject_tris: text,
    granted: flag,
    audience: nullable(text),
    /** Wallet of the requested voucher, address in lower case; null, like the next two: none was requested. */
    wallet: nullable(text),
    chain_id: nullable(wholeNumber(1, Number.MAX_SAFE_INTEGER)),
    /** Address in lower case. */
    verifying_contract: nullable(text),
    /** Id of the decision, of its stream, and of its token if it granted. */
    jti: text,
    /** null, like the next three: not granted, so there is no token. Times in seconds since the epoch. */
    iss: nullable(text),
    kid: nullable(text),
    iat: nullable(seconds),
    exp: nullable(seconds),
    /** Address of the key that signs the voucher, EIP-55; null: no voucher. */
    voucher_issuer: nullable(text),
    as_of: time,
    /** Id of the log that `position` belongs to; an imported record keeps that of its first log. null: not recorded. */
    log: nullable(text),
    position: wholeNumber(0, Number.MAX_SAFE_INTEGER),
    lens_policy_id: nullable(text),
    /** null: the subject was unknown, so that no lens was used. */
    lens_hash: nullable(text),
    model_id: text,
    model_hash: text,
    score: nullable(number),
    reasons: listOf(object),
    how_to_pass: listOf(object),
    /** Version of the algorithm of `how_to_pass` (`Advice`), which an audit uses again. */
    advice: oneOf([1, 2, 3, 4]),
    /** Version of the rules of trust (`TRUST`), which an audit uses again. */
    trust: oneOf([1, 2]),
  },
  {
    schema: 7,
    upcasters: {
      1: (data) => ({ ...data, advice: 1 }),
      // A wallet in this schema asked for no voucher.
      2: (data) => ({ ...data, chain_id: null, verifying_contract: null, voucher_issuer: null }),
      3: (data) => ({ ...data, log: null }),
      // By the rules of trust of that schema, every grant counts.
      4: (data) => ({ ...data, trust: 1 }),
      // The same data, but `advice` can be 3.
      5: (data) => data,
      // The same, but it can be 4.
      6: (data) => data,
    },
  },
);
/** The token of a decision was revoked. Stream `access-<jti>`, after the AccessChecked that issued it. */
export const eligibilityRevoked = defineEvent('EligibilityRevoked', { jti: text });

export type AccessDecision = Decoded<typeof accessChecked>['data'];
