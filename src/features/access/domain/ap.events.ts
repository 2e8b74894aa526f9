import {
  type Check,
  type Decoded,
  defineEvent,
  nullable,
  oneOf,
  text,
  time,
  wholeNumber,
} from '../../../kernel/event-definition.js';
import type { JsonObject } from '../../../kernel/json.js';

const object: Check<JsonObject> = (value): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
const objects: Check<JsonObject[]> = (value): value is JsonObject[] => Array.isArray(value) && value.every(object);
const flag: Check<boolean> = (value): value is boolean => typeof value === 'boolean';
const number: Check<number> = (value): value is number => typeof value === 'number';
const seconds = wholeNumber(0, Number.MAX_SAFE_INTEGER);

/** A policy in full, for good. Stream `ap-<policy_id>`, revision 0. */
export const accessPolicyCreated = defineEvent('AccessPolicyCreated', {
  policy_id: text,
  /** TRIS of the organization that owns it; null: the platform's operators. */
  owner: nullable(text),
  rules: object,
  ttl_seconds: wholeNumber(1, 86_400),
  /** The VP to see subjects through; null: the owner's lens, else the platform's. */
  vp: nullable(text),
  /** SHA-256 of the RFC 8785 JSON of policy_id, rules, ttl_seconds and vp. */
  content_hash: text,
});

/** It grants nothing any more. Same stream. */
export const accessPolicyRetired = defineEvent('AccessPolicyRetired', { policy_id: text });

/**
 * A subject was checked. Stream `access-<jti>`, revision 0. With the four coordinates (as_of, position, lens, model) the
 * decision can be derived again; with iss, kid, iat and exp the identical token can be signed again, and with the voucher's
 * fields the identical voucher.
 */
export const accessChecked = defineEvent(
  'AccessChecked',
  {
    policy_id: text,
    policy_hash: text,
    subject_tris: text,
    granted: flag,
    audience: nullable(text),
    /** For whom a voucher was asked, address in small letters; null, as the next two: for nobody. */
    wallet: nullable(text),
    chain_id: nullable(wholeNumber(1, Number.MAX_SAFE_INTEGER)),
    /** Address in small letters. */
    verifying_contract: nullable(text),
    /** Id of the decision, of its stream, and of its token where it granted. */
    jti: text,
    /** null, as the next three: not granted, so there is no token. Times in seconds since the epoch. */
    iss: nullable(text),
    kid: nullable(text),
    iat: nullable(seconds),
    exp: nullable(seconds),
    /** Address of the key that signs the voucher, EIP-55; null: there is none. */
    voucher_issuer: nullable(text),
    as_of: time,
    /** Id of the log that `position` is of, which another log may have taken the record from; null: not recorded. */
    log: nullable(text),
    position: wholeNumber(0, Number.MAX_SAFE_INTEGER),
    lens_policy_id: nullable(text),
    /** null: the subject was unknown, so it was seen through no lens. */
    lens_hash: nullable(text),
    model_id: text,
    model_hash: text,
    score: nullable(number),
    reasons: objects,
    how_to_pass: objects,
    /** How `how_to_pass` was found (`Advice`): an audit finds it again in the same way. */
    advice: oneOf([1, 2]),
  },
  {
    schema: 4,
    upcasters: {
      1: (data) => ({ ...data, advice: 1 }),
      // A wallet was noted, and no voucher given.
      2: (data) => ({ ...data, chain_id: null, verifying_contract: null, voucher_issuer: null }),
      3: (data) => ({ ...data, log: null }),
    },
  },
);
export type AccessDecision = Decoded<typeof accessChecked>['data'];
