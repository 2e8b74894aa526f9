import { ApiProperty } from '@nestjs/swagger';
import { ArrayMinSize, IsArray, IsDefined, IsIn, IsObject, IsOptional, MaxLength } from 'class-validator';
import { ItemProblemDto, PageQuery } from '../../http/common.dto.js';
import { VoucherDto } from './eligibility.dto.js';
import {
  AreTrisIds,
  AtMost,
  IsHeldAddress,
  IsInt,
  IsTimestamp,
  IsTrisId,
  IsUnique,
  Matches,
  TOO_LARGE,
} from '../../http/fields.js';
import { POLICY_REF, TRIS_ID } from '../../kernel/identifiers.js';
import type { JsonObject } from '../../kernel/json.js';
import { VP_ID } from '../lenses/domain/validation-policy.js';
import { AP_ID, type AccessPolicyContent } from './domain/access-policy.js';
import { LensDto, ModelDto } from '../disc/disc.dto.js';
import { VISIBILITIES } from './domain/ap.events.js';
import { NOTICE_CODES, type NoticeCode } from './notice.js';
import { RULE_NAMES, refusePersons, validRules } from './rules.js';

const AP_MESSAGE = '$property must have the form AP_<NAME>_V<n>: upper-case letters, digits and underscores, n from 1';
const RULES = { allOf: [{ $ref: '#/components/schemas/AccessRule' }] };

/** An access policy (requirement 15). */
export class CreateAccessPolicyDto {
  @Matches(AP_ID, { message: AP_MESSAGE })
  @MaxLength(128)
  policy_id: string;

  /**
   * Conditions, all of which must hold: disc_min 0..100, tct_min, rating_min, reliability_min 0..1, evidence_min, metrics {category:
   * 0..1}, verification [a status, or {status, issuers?, schemes?}]. Or a combinator, alone in its object: {all: […]}, {any: […]}, {not: …},
   * {at_least: n, of: […]}. At most 8 levels deep, with at most 64 combinators and conditions.
   */
  @IsObject()
  @ApiProperty(RULES)
  rules: JsonObject;

  /** Lifetime of its tokens, s. */
  @IsOptional()
  @IsInt(1, 86_400)
  ttl_seconds: number = 600;

  /** The validation policy to use as the lens. Default: the owner's lens, or the platform's. */
  @IsOptional()
  @Matches(VP_ID, { message: '$property must have the form VP_<NAME>_V<n>' })
  @MaxLength(128)
  vp?: string;

  /** Who may read the rules: everybody, or only the owner's keys and operators. Everybody may check by the policy. */
  @IsOptional()
  @IsIn(VISIBILITIES)
  visibility: (typeof VISIBILITIES)[number] = 'private';
}

/** The policy in a body. @throws Problem validation_failed for rules that are not valid, personal_data */
export function toAccessPolicy({ policy_id, rules, ttl_seconds, vp, visibility }: CreateAccessPolicyDto) {
  refusePersons(validRules(rules));
  return { policy_id, rules, ttl_seconds, vp: vp ?? null, visibility } satisfies AccessPolicyContent;
}

/** The path parameter `:policy_id`. */
export class AccessPolicyParams {
  @Matches(POLICY_REF, { message: AP_MESSAGE })
  @ApiProperty({ example: 'AP_BORROW_V1' })
  policy_id: string;
}

/** Of a list of policies, also of validation policies. */
export class PoliciesQuery extends PageQuery {
  /** Only the policies of this organization. */
  @IsOptional()
  @IsTrisId()
  tris_org?: string;
}

export const ACCESS_POLICY_STATUSES = ['active', 'retired'] as const;
export type AccessPolicyStatus = (typeof ACCESS_POLICY_STATUSES)[number];

export class ListedAccessPolicyDto {
  policy_id: string;
  /** Whether the policy can be checked. */
  @ApiProperty({ enum: ACCESS_POLICY_STATUSES })
  status: AccessPolicyStatus;
  /**
   * SHA-256 of the RFC 8785 JSON of policy_id, rules, ttl_seconds, vp, and visibility unless it is private. null for
   * callers who may not read the rules: the hash would confirm a guess of them.
   */
  content_hash: string | null;
  ttl_seconds: number;
  /** The validation policy that is used as the lens; null: the default lens. */
  vp: string | null;
  /** The owner; null: the platform's operators. */
  tris_org: string | null;
  @ApiProperty({ enum: VISIBILITIES })
  visibility: (typeof VISIBILITIES)[number];
  created_at: string;
}

export class AccessPolicyDto extends ListedAccessPolicyDto {
  declare content_hash: string;
  /** The conditions for access. */
  @ApiProperty(RULES)
  rules: JsonObject;
}

export class AccessPoliciesDto {
  policies: ListedAccessPolicyDto[];
  next_cursor: string | null;
}

export class RetiredAccessPolicyDto {
  policy_id: string;
  /** Whether the policy can be checked. */
  @ApiProperty({ enum: ACCESS_POLICY_STATUSES })
  status: AccessPolicyStatus;
}

const AUDIENCE = /^[!-~]{1,255}$/;
const AUDIENCE_MESSAGE = '$property must be 1 to 255 printable ASCII characters without spaces';
const TRIS = { type: 'string', pattern: TRIS_ID.source, maxLength: 128 };

/** How many identities pass a policy, and the state from which that was computed. */
export class PopulationResultDto {
  policy_id: string;
  policy_hash: string;
  /** Identities. */
  count: number;
  /** Identities that pass. */
  granted: number;
  /** Identities that do not pass. */
  denied: number;
  /** Identities of which the policy is neither met nor not met, so that access is denied. */
  unknown: number;
  lens: LensDto;
  model: ModelDto;
  /** All events up to this position are included. */
  position: string;
  as_of: string;
  /** Until when the outcome of each identity can be downloaded. */
  lines_until: string;
}

/** Recorded decisions to decide again by a candidate: a stored policy, or rules that need not be stored. */
export class ReplayDecisionsDto {
  /** The candidate, if it is stored. Send either this or rules. */
  @IsOptional()
  @Matches(POLICY_REF, { message: AP_MESSAGE })
  policy_id?: string;

  /** The rules of the candidate, as in `POST /v1/policies/ap`. Send either this or policy_id. */
  @IsOptional()
  @IsObject()
  @ApiProperty(RULES)
  rules?: JsonObject;

  /** Only decisions of checks at this time or later. */
  @IsTimestamp()
  from: string;

  /** Only decisions of checks at this time or earlier. */
  @IsTimestamp()
  to: string;
}

/** The decisions by one policy, and what they would be under the candidate. */
export class ReplayedPolicyDto {
  /** The policy that decided. */
  policy_id: string;
  /** Its decisions in this time. */
  @ApiProperty({ type: 'integer', minimum: 0 })
  decisions: number;
  /** Those of them that granted access. */
  granted: number;
  /** Those that would be granted instead of denied. */
  gained: number;
  /** Those that would be denied instead of granted. */
  lost: number;
}

/** What recorded decisions would be under a candidate. */
export class DecisionsReplayDto {
  /** The candidate; null: rules that are not stored. */
  policy_id: string | null;
  /** Decisions that were decided again. */
  @ApiProperty({ type: 'integer', minimum: 0 })
  decisions: number;
  /** By the policies that decided. */
  policies: ReplayedPolicyDto[];
  /** Until when the decisions that would differ can be downloaded. */
  lines_until: string;
}

export class CheckAccessDto {
  @Matches(POLICY_REF, { message: AP_MESSAGE })
  policy_id: string;

  @IsTrisId()
  subject_tris: string;

  /** The audience of the token, such as the URL of an application. The token is then valid for that audience only. */
  @IsOptional()
  @Matches(AUDIENCE, { message: AUDIENCE_MESSAGE })
  audience?: string;

  /**
   * Requests a voucher that only this wallet of the subject can redeem. Requires `chain_id` and `verifying_contract`.
   */
  @IsOptional()
  @IsHeldAddress()
  wallet?: string;

  /** EIP-155: the chain of the contract that verifies the voucher. */
  @IsOptional()
  @IsInt(1, Number.MAX_SAFE_INTEGER)
  chain_id?: number;

  /** The contract that verifies the voucher, an `EligibilityVerifier`. */
  @IsOptional()
  @IsHeldAddress()
  verifying_contract?: string;
}

const MAX_SUBJECTS = 100;
const MAX_POLICIES = 20;

/** Several checks: of one policy with several subjects, or of several policies with one subject. */
export class CheckManyDto {
  /** The policy to check all subjects by. */
  @IsOptional()
  @Matches(POLICY_REF, { message: AP_MESSAGE })
  policy_id?: string;

  /** The policies to check one subject by. */
  @IsOptional()
  @IsArray()
  @ArrayMinSize(1)
  @AtMost(MAX_POLICIES, TOO_LARGE)
  @Matches(POLICY_REF, { each: true, message: AP_MESSAGE })
  @IsUnique()
  policy_ids?: string[];

  /** With `policy_id` a list of subjects, with `policy_ids` one subject. */
  @IsDefined({ message: '$property must be a list of subjects or, with policy_ids, one subject' })
  @ApiProperty({
    oneOf: [{ type: 'array', minItems: 1, maxItems: MAX_SUBJECTS, uniqueItems: true, items: TRIS }, TRIS],
  })
  subject_tris: unknown;

  /** The audience of the tokens. */
  @IsOptional()
  @Matches(AUDIENCE, { message: AUDIENCE_MESSAGE })
  audience?: string;
}

/** `subject_tris` of a batch with one policy. */
export class SubjectsDto {
  @AreTrisIds(MAX_SUBJECTS)
  subject_tris: string[];
}

/** `subject_tris` of a batch with one subject. */
export class SubjectDto {
  @IsTrisId()
  subject_tris: string;
}

export const ANY_VALUE = { oneOf: [{ type: 'number' }, { type: 'string' }, { type: 'boolean' }], nullable: true };

export const CODES = { enum: Object.keys(NOTICE_CODES), isArray: true };

export class AccessReasonDto {
  /** RFC 6901 JSON pointer into the policy's rules. */
  pointer: string;
  /** The rule that prevents access. */
  @ApiProperty({ enum: ['identity', ...RULE_NAMES] })
  rule: string;
  /** What the rule requires. */
  @ApiProperty(ANY_VALUE)
  required: number | string | boolean | null;
  /** null: unknown, which is different from a low value. */
  @ApiProperty(ANY_VALUE)
  actual: number | string | boolean | null;
  /** `failed`: the value is known and not sufficient. `unknown`: there is no value. */
  @ApiProperty({ enum: ['failed', 'unknown'] })
  outcome: 'failed' | 'unknown';
}

export class FactChangeDto {
  /** `net_tct`, `health.<category>`, `reliability`, `evidence`, `verification.<status>`, `bad_status` or `actions`. */
  fact: string;
  /** The lowest sufficient value; true for a verification; null: the BAD status must be cleared. */
  @ApiProperty(ANY_VALUE)
  required: number | true | null;
  /** null: no evidence yet. */
  @ApiProperty(ANY_VALUE)
  actual: number | false | null;
  /** The value must stay below this, since a rule sets an upper limit. */
  below?: number;
  /** JSON pointers to the conditions that the change fulfils, alone or with the others. */
  pointers: string[];
  /** For a verification: one of these issuers must grant it. */
  issuers?: string[];
  /** For a verification: it must be by one of these schemes. */
  schemes?: string[];
}

/** The answer to a check (requirement 21). */
export class AccessDto {
  granted: boolean;
  /** JWT of the type eligibility+jwt; null: not granted. */
  eligibility_token: string | null;
  /** When the token expires; null: not granted. */
  expires_at: string | null;
  /** The same decision for a contract to verify; null: not granted, or not requested. */
  voucher: VoucherDto | null;
  policy_id: string;
  subject_tris: string;
  /** null: the subject is unknown. */
  score: number | null;
  /** All parts of the rules that prevent access, in the order of the rules; empty if granted. */
  reasons: AccessReasonDto[];
  /** A smallest set of changes after which the check grants; empty if granted, or if no increase is sufficient. */
  how_to_pass: FactChangeDto[];
  /** Why access is denied, as in the notice of the decision: the most expensive to change first. Empty if granted. */
  @ApiProperty(CODES)
  codes: NoticeCode[];
  checked_at: string;
}

/** One check of a batch. */
export class CheckManyItemDto {
  policy_id: string;
  subject_tris: string;
  /** The HTTP status that this check alone would have returned: 200, whether access is granted or denied. */
  status: number;
  data?: AccessDto;
  problem?: ItemProblemDto;
}

export class CheckManyResultDto {
  /** One for each subject or policy, in order. */
  results: CheckManyItemDto[];
}

/** One node of the rules: a condition, or a combinator of others. */
export class RuleOutcomeDto {
  /** RFC 6901 JSON pointer into the rules. */
  pointer: string;
  /** The name of the rule. */
  @ApiProperty({ enum: RULE_NAMES })
  rule: string;
  /** null for nodes that only combine others, except `at_least`. */
  @ApiProperty(ANY_VALUE)
  required: number | string | boolean | null;
  /** null: unknown. Of `at_least`, how many of its rules are met. */
  @ApiProperty(ANY_VALUE)
  actual: number | string | boolean | null;
  /** `failed`: the value is known and not sufficient. `unknown`: there is no value. */
  @ApiProperty({ enum: ['met', 'failed', 'unknown'] })
  outcome: 'met' | 'failed' | 'unknown';
}

export class EvaluateRulesDto {
  /** Rules as in `POST /v1/policies/ap`. */
  @IsObject()
  @ApiProperty(RULES)
  rules: JsonObject;

  /** The validation policy to use as the lens. Default: the lens of the key's organization, or the platform's. */
  @IsOptional()
  @Matches(VP_ID, { message: '$property must have the form VP_<NAME>_V<n>' })
  @MaxLength(128)
  vp?: string;

  /** The subjects to decide about. */
  @AreTrisIds(MAX_SUBJECTS)
  subjects: string[];
}

export class DryRunResultDto {
  subject_tris: string;
  granted: boolean;
  /** null: the subject is unknown. */
  score: number | null;
  /** All parts of the rules that prevent access, in the order of the rules; empty if granted. */
  @ApiProperty({ type: [AccessReasonDto] })
  reasons: AccessReasonDto[];
  /** A smallest set of changes after which the rules grant; empty if they do, or if no increase is sufficient. */
  @ApiProperty({ type: [FactChangeDto] })
  how_to_pass: FactChangeDto[];
  /** As of a check. */
  @ApiProperty(CODES)
  codes: NoticeCode[];
  /** Every node of the rules, in their order, from the root down. */
  @ApiProperty({ type: [RuleOutcomeDto] })
  nodes: RuleOutcomeDto[];
  /** The facts are of this time: that of the request or, if it is later, the latest that a server gave to one of them. */
  as_of: string;
}

/** What the rules would decide for each subject. */
export class DryRunDto {
  /** One for each subject, in order. */
  results: DryRunResultDto[];
  /** null: no subject is known, so none was used. */
  lens: LensDto | null;
  model: ModelDto;
  position: string;
}
