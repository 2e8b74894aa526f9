import type { IdentityState } from '../../../projections/identities.js';
import { type Fact, fact } from '../../kernel/event-definition.js';
import type { Scoring } from '../../scoring/models/all.js';
import type { ScoringModel } from '../../scoring/models/scoring-model.js';
import type { AccessPolicy } from './domain/access-policy.js';
import type { AccessDto, AccessReasonDto, FactChangeDto } from './ap.dto.js';
import { accessChecked } from './domain/ap.events.js';
import { TRUE, evaluate, reasonsFor } from './evaluate.js';
import { type Facts, factsWithoutEvidence } from './facts.js';
import { ADVICE, howToPass } from './how-to-pass.js';
import type { Rule } from './rules.js';

/** What was known of a subject when it was checked. */
export interface Observation {
  /** ms: the time of the check, from which a token is valid. */
  now: number;
  /** ms: the time that the facts are of; after `now` if the clock that recorded one of them is ahead. */
  as_of: number;
  position: number;
  /** The version of the model that the decision uses. */
  model: ScoringModel;
  /** null: the subject is unknown. */
  seen: { facts: Facts; lens: Scoring; state: IdentityState } | null;
}

/** The result of the rules for a subject: the part of a decision that an audit derives again. */
export type Judgement = Pick<AccessDto, 'granted' | 'score' | 'reasons' | 'how_to_pass'>;

/**
 * Version of the rule for which verifications count in a policy that names no issuer. Recorded with each decision, so
 * that an audit applies the same rule. 1: all. 2: proofs, and grants by operators and accredited issuers.
 */
export const TRUST = 2;

const UNKNOWN_IDENTITY: AccessReasonDto = {
  pointer: '',
  rule: 'identity',
  required: 'known',
  actual: null,
  outcome: 'unknown',
};
const BECOME_KNOWN: FactChangeDto = { fact: 'actions', required: 1, actual: 0, pointers: [''] };

/**
 * Evaluates rules for a subject.
 * @param facts null: the subject is unknown
 * @param model the version of the model that measures the facts
 */
export function judge(rule: Rule, facts: Facts | null, model: ScoringModel, advice = ADVICE): Judgement {
  const known = facts ?? factsWithoutEvidence(model);
  const passes = evaluate(rule, known) === TRUE;
  if (facts && passes) return { granted: true, score: facts.score, reasons: [], how_to_pass: [] };
  // Any change makes the subject known. If a known subject without evidence would pass, one action is enough.
  const how_to_pass = passes ? [BECOME_KNOWN] : howToPass(rule, known, advice);
  const reasons = facts ? reasonsFor(rule, facts) : [UNKNOWN_IDENTITY];
  return { granted: false, score: facts?.score ?? null, reasons, how_to_pass };
}

export interface CheckRequest {
  policy_id: string;
  subject_tris: string;
  audience: string | null;
  /** The wallet and contract that a voucher is for; null: no voucher. */
  target: VoucherTarget | null;
}

/** Addresses in lower case. */
export interface VoucherTarget {
  wallet: string;
  chain_id: number;
  verifying_contract: string;
}

/** What is recorded of a check in a log, by its id; who signs the token and the voucher, only if access is granted. */
export function decideCheck(
  { subject_tris, audience, target }: CheckRequest,
  policy: AccessPolicy,
  { now, as_of, log, position, model, seen }: Observation & { log: string },
  { granted, score, reasons, how_to_pass }: Judgement,
  { jti, iss, kid, voucher_issuer }: { jti: string; iss: string; kid: string; voucher_issuer: string | null },
): Fact {
  const iat = Math.floor(now / 1000);
  const token = granted
    ? { iss, kid, iat, exp: iat + policy.ttl_seconds, voucher_issuer }
    : { iss: null, kid: null, iat: null, exp: null, voucher_issuer: null };
  return fact(
    accessChecked,
    {
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
      model_id: model.id,
      model_hash: model.hash,
      score,
      reasons: reasons.map((reason) => ({ ...reason })),
      how_to_pass: how_to_pass.map((change) => ({ ...change })),
      advice: ADVICE,
      trust: TRUST,
    },
    now,
  );
}
