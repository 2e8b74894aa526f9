import type { RecordedEvent } from '../../kernel/event.js';
import { type Fact, fact } from '../../commands/writer.js';
import { decodeStream, type EventOf } from '../../../projections/events.js';
import { canonicalJson, sha256Hex } from '../../kernel/hash.js';
import type { JsonObject } from '../../kernel/json.js';
import { Problem } from '../../kernel/problems.js';
import { type Lens } from '../../scoring/lens.js';
import { MODEL, MODEL_HASH } from '../../scoring/model.js';
import { TRUE, type Evaluator, type DenialReason, reasonsFor } from './evaluate.js';
import { type Facts, NOTHING, factsFrom } from './facts.js';
import { ADVICE, type Advice, type Change, howToPass } from './how-to-pass.js';
import { accessChecked, accessPolicyCreated, accessPolicyRetired } from './ap.events.js';
import type { Rule } from './rules.js';

/** `AP_<NAME>_V<n>`, n from 1 (spec 2.2). */
export const AP_ID = /^(?=.{1,128}$)AP_[A-Z0-9_]+_V[1-9]\d{0,8}$/;

/** An access policy as its owner states it. Never changes. */
export interface AccessPolicyContent {
  policy_id: string;
  rules: JsonObject;
  /** Lifetime of the tokens it grants, 1..86400. */
  ttl_seconds: number;
  vp: string | null;
}

export interface AccessPolicy extends AccessPolicyContent {
  /** TRIS of the organization that owns it; null: the platform's operators. */
  owner: string | null;
  content_hash: string;
  /** ms since the epoch. */
  created_at: number;
  retired: boolean;
}

export function accessPolicyStream(policyId: string): string {
  return `ap-${policyId}`;
}

/** The policy its stream tells of; undefined if there is none. @throws Problem history_unreadable */
export function accessPolicyOf(history: readonly RecordedEvent[]): AccessPolicy | undefined {
  let policy: AccessPolicy | undefined;
  for (const event of decodeStream(history)) {
    if (event.type === 'AccessPolicyCreated') policy = { ...event.data, created_at: event.recorded_at, retired: false };
    if (event.type === 'AccessPolicyRetired' && policy) policy.retired = true;
  }
  return policy;
}

/** SHA-256 of the RFC 8785 JSON of a policy's content, hex. */
function contentHash({ policy_id, rules, ttl_seconds, vp }: AccessPolicyContent): string {
  return sha256Hex(canonicalJson({ policy_id, rules, ttl_seconds, vp }));
}

/**
 * A policy never changes: creating it again as it is changes nothing.
 * @param organization of the key that asks, which is to own it; null: an operator's
 * @throws Problem policy_conflict
 */
export function decideCreate(
  policy: AccessPolicy | undefined,
  content: AccessPolicyContent,
  organization: string | null,
): Fact[] {
  const { policy_id, rules, ttl_seconds, vp } = content;
  const content_hash = contentHash(content);
  if (!policy) {
    return [fact(accessPolicyCreated, { policy_id, owner: organization, rules, ttl_seconds, vp, content_hash })];
  }
  if (policy.content_hash !== content_hash) {
    throw conflict(policy_id, 'exists with other content; a policy never changes: count its version up');
  }
  if (organization !== null && organization !== policy.owner) throw conflict(policy_id, 'belongs to another owner');
  return [];
}

function conflict(policyId: string, why: string): Problem {
  const message = `${policyId} ${why}`;
  return new Problem('policy_conflict', `${message}.`, {
    errors: [{ pointer: '/policy_id', code: 'policy_conflict', message }],
  });
}

/**
 * Retiring what is retired changes nothing. Tokens it has granted live on to their end.
 * @param organization of the key that asks; null: an operator's
 * @throws Problem forbidden
 */
export function decideRetire({ policy_id, owner, retired }: AccessPolicy, organization: string | null): Fact[] {
  if (organization !== null && organization !== owner) {
    throw new Problem('forbidden', `${policy_id} belongs to ${owner ?? 'the operators'}, not to ${organization}.`);
  }
  return retired ? [] : [fact(accessPolicyRetired, { policy_id })];
}

/** Stream of a decision; its id is also that of the token it may carry. */
export function accessStream(jti: string): string {
  return `access-${jti}`;
}

export type AccessDecision = EventOf<'AccessChecked'>['data'];

/** A subject as it was seen when it was checked. */
export interface Observation {
  /** ms: the moment of the check. */
  as_of: number;
  /** Id of the log that `position` is of. */
  log: string;
  position: number;
  /** null: nothing is known of the subject. */
  seen: { facts: Facts; lens: Lens } | null;
}

/** What rules say of a subject: the part of a decision that an audit derives again. */
export interface Judgement {
  granted: boolean;
  score: number | null;
  reasons: DenialReason[];
  how_to_pass: Change[];
  advice: Advice;
}

/** Judges a subject by rules; `evaluate` is the compiled form of `rule`. */
export function judge(rule: Rule, evaluate: Evaluator, facts: Facts | null, advice: Advice = ADVICE): Judgement {
  if (!facts) {
    const reason: DenialReason = { pointer: '', rule: 'identity', required: 'known', actual: null, outcome: 'unknown' };
    return { granted: false, score: null, reasons: [reason], how_to_pass: becomeKnown(rule, evaluate, advice), advice };
  }
  const granted = evaluate(facts) === TRUE;
  if (granted) return { granted, score: facts.score, reasons: [], how_to_pass: [], advice };
  return {
    granted,
    score: facts.score,
    reasons: reasonsFor(rule, facts),
    how_to_pass: howToPass(rule, facts, advice),
    advice,
  };
}

/** Any change makes the subject known; where a known one would pass with nothing, one action is enough. */
function becomeKnown(rule: Rule, evaluate: Evaluator, advice: Advice): Change[] {
  const facts = factsFrom(NOTHING);
  if (evaluate(facts) !== TRUE) return howToPass(rule, facts, advice);
  return [{ fact: 'actions', required: 1, actual: 0, pointers: [''] }];
}

export interface CheckRequest {
  policy_id: string;
  subject_tris: string;
  audience: string | null;
  /** For whom a contract is to verify the decision; null: for nobody. */
  target: VoucherTarget | null;
}

/** Addresses in small letters. */
export interface VoucherTarget {
  wallet: string;
  chain_id: number;
  verifying_contract: string;
}

/** @param issued who signs the token, and the voucher for a target, if there is going to be one */
export function decideCheck(
  { subject_tris, audience, target }: CheckRequest,
  policy: AccessPolicy,
  { as_of, log, position, seen }: Observation,
  { granted, score, reasons, how_to_pass, advice }: Judgement,
  issued: { jti: string; iss: string; kid: string; voucher_issuer: string | null },
): Fact {
  const { jti, iss, kid, voucher_issuer } = issued;
  const iat = Math.floor(as_of / 1000);
  const token = granted
    ? { iss, kid, iat, exp: iat + policy.ttl_seconds, voucher_issuer }
    : { iss: null, kid: null, iat: null, exp: null, voucher_issuer: null };
  return fact(accessChecked, {
    policy_id: policy.policy_id,
    policy_hash: policy.content_hash,
    subject_tris,
    granted,
    audience,
    ...(target ?? { wallet: null, chain_id: null, verifying_contract: null }),
    jti,
    ...token,
    as_of: new Date(as_of).toISOString(),
    log,
    position,
    lens_policy_id: seen?.lens.policy_id ?? null,
    lens_hash: seen?.lens.content_hash ?? null,
    model_id: MODEL.id,
    model_hash: MODEL_HASH,
    score,
    reasons: reasons.map((reason) => ({ ...reason })),
    how_to_pass: how_to_pass.map((change) => ({ ...change })),
    advice,
  });
}
