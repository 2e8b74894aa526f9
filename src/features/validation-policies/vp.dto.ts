import { ApiProperty } from '@nestjs/swagger';
import { ArrayMaxSize, ArrayMinSize, IsArray, IsIn, IsNumber, IsOptional, MaxLength } from 'class-validator';
import { ItemProblemDto } from '../../http/common.dto.js';
import {
  AreTrisIds,
  AtMost,
  IsCriticality,
  IsMetric,
  IsNested,
  IsUnique,
  IsUuid,
  IsWrittenTrisId,
  Matches,
} from '../../http/fields.js';
import { POLICY_REF } from '../../kernel/identifiers.js';
import { CRITICALITIES, type Category, type Criticality, MODEL, RATINGS, type Rating } from '../../scoring/model.js';
import { MODEL_IDS } from '../../scoring/models/all.js';
import { canonicalMetric, criticalityOf } from '../../scoring/names.js';
import type { ModelId } from '../../scoring/models/scoring-model.js';
import { EvidenceDto, INTERVAL, LensNameDto, ModelDto, SideDto } from '../disc/disc.dto.js';
import { JOB_STATUSES, type JobStatus } from '../../stores/ports/jobs.js';
import { LENS_SCOPES, type LensScope } from '../lenses/domain/lenses.events.js';
import { type PolicyContent, VP_ID } from '../lenses/domain/validation-policy.js';

const VP_MESSAGE = '$property must have the form VP_<NAME>_V<n>: upper-case letters, digits and underscores, n from 1';
const REPLAY_ID = /^rpl_[0-9a-f]{32}$/;
const REPLAY_MESSAGE = '$property must be the id of a replay';
const VERSION = /^v(?:0|[1-9][0-9]{0,8})\.(?:0|[1-9][0-9]{0,8})$/;
/** A hundred inputs with the lowest weight, 0.01, add up to 1.00. */
const MAX_INPUTS = 100;
const WEIGHTS = Object.values(MODEL.criticality_hundredths).map((hundredths) => hundredths / 100);

/** A metric and its weight (requirement 13). */
export class PolicyInputDto {
  @IsMetric()
  metric: string;

  @IsCriticality()
  criticality: string;

  /** The weight of the criticality: 0.01, 0.03, 0.07, 0.1 or 0.14. */
  @IsNumber({}, { message: `$property must be a number, the weight of its criticality: ${WEIGHTS.join(', ')}` })
  @ApiProperty({ type: Number, enum: WEIGHTS })
  weight: number;
}

export class PolicyMetadataDto {
  /** Declared by the owner, 0.95 to 1.05. */
  @IsNumber({}, { message: '$property must be a number from 0.95 to 1.05' })
  @ApiProperty({ minimum: 0.95, maximum: 1.05 })
  total_weight: number;

  @IsIn(['public'])
  visibility: 'public';

  /** `v<major>.<minor>`. */
  @Matches(VERSION, { message: '$property must have the form v<major>.<minor>' })
  version: string;
}

/** A validation policy (requirement 13). */
export class CreatePolicyDto {
  @Matches(VP_ID, { message: VP_MESSAGE })
  @MaxLength(128)
  policy_id: string;

  /** TRIS id of the owning organization. */
  @IsWrittenTrisId()
  tris_org: string;

  @IsArray()
  @ArrayMinSize(1)
  @AtMost(MAX_INPUTS)
  @IsNested(() => PolicyInputDto, { each: true })
  inputs: PolicyInputDto[];

  @IsNested(() => PolicyMetadataDto)
  metadata: PolicyMetadataDto;
}

/** The policy in a body, in canonical terms. */
export function toContent({ policy_id, tris_org, inputs, metadata }: CreatePolicyDto): PolicyContent {
  const { total_weight, visibility, version } = metadata;
  return {
    policy_id,
    tris_org,
    inputs: inputs.map(({ metric, criticality, weight }) => ({
      metric: canonicalMetric(metric)!,
      criticality: criticalityOf(criticality)!,
      weight,
    })),
    metadata: { total_weight, visibility, version },
    names: inputs.map(({ metric }) => metric),
  };
}

/** The path parameter `:policy_id`. */
export class PolicyParams {
  @Matches(POLICY_REF, { message: VP_MESSAGE })
  @ApiProperty({ example: 'VP_LENDING_V1' })
  policy_id: string;
}

export const POLICY_STATUSES = ['available', 'retired'] as const;
export type PolicyStatus = (typeof POLICY_STATUSES)[number];

export class WarningDto {
  /** RFC 6901 JSON pointer into the policy. */
  pointer: string;
  /** The stable, machine-readable name of the warning. */
  code: string;
  /** What may be a mistake, in words. */
  message: string;
}

export class CreatedPolicyDto {
  policy_id: string;
  tris_org: string;
  /** Whether the policy can be promoted. */
  @ApiProperty({ enum: POLICY_STATUSES })
  status: PolicyStatus;
  /** SHA-256 of the RFC 8785 JSON of policy_id, tris_org, inputs and metadata with canonical names. */
  content_hash: string;
  /** Sum of the inputs' weights. */
  computed_weight: number;
  /** Sum of the inputs' weights by category. */
  @ApiProperty({ type: 'object', additionalProperties: { type: 'number' } })
  category_weights: Partial<Record<string, number>>;
  /** Things that are accepted but possibly not intended. */
  warnings: WarningDto[];
}

class ShownInputDto {
  /** The name that the policy was created with. */
  metric: string;
  /** The criticality of the metric. */
  @ApiProperty({ enum: CRITICALITIES })
  criticality: Criticality;
  /** The weight of the metric. */
  weight: number;
}

class PolicyStateDto {
  /** What happened to the policy. */
  @ApiProperty({ enum: ['created', 'promoted', 'rolled_back', 'retired'] })
  status: 'created' | 'promoted' | 'rolled_back' | 'retired';
  /** Only for promotions and rollbacks. */
  @ApiProperty({ enum: LENS_SCOPES, required: false })
  scope?: LensScope;
  /** The replay that a promotion was based on. */
  replay_id?: string | null;
  at: string;
  position: string;
}

/** A policy and its history. */
export class PolicyDto extends CreatedPolicyDto {
  inputs: ShownInputDto[];
  metadata: PolicyMetadataDto;
  /** Where it is the active lens now. */
  @ApiProperty({ enum: LENS_SCOPES, isArray: true })
  active_for: LensScope[];
  /** What happened to the policy, in order. */
  history: PolicyStateDto[];
}

export class ListedPolicyDto {
  policy_id: string;
  tris_org: string;
  /** Whether the policy can be promoted. */
  @ApiProperty({ enum: POLICY_STATUSES })
  status: PolicyStatus;
  content_hash: string;
  /** The version, `v<major>.<minor>`. */
  version: string;
  /** Where it is the active lens now: for the platform, for its owner. */
  @ApiProperty({ enum: LENS_SCOPES, isArray: true })
  active_for: LensScope[];
  created_at: string;
}

export class PoliciesDto {
  policies: ListedPolicyDto[];
  next_cursor: string | null;
}

export class RetiredPolicyDto {
  policy_id: string;
  /** Whether the policy can be promoted. */
  @ApiProperty({ enum: POLICY_STATUSES })
  status: PolicyStatus;
}

/** A scope that may be left out. Default: the organization for a key bound to one, otherwise the platform. */
class ScopedDto {
  @IsOptional()
  @IsIn(LENS_SCOPES)
  scope?: LensScope;
}

const AP_MESSAGE = '$property must contain ids of access policies, such as AP_LOAN_V1';

class PreviewedDto extends ScopedDto {
  /** Access policies whose decisions to compare. Default: none in a preview, all that are not retired in a replay. */
  @IsOptional()
  @IsArray()
  @ArrayMaxSize(20)
  @Matches(POLICY_REF, { each: true, message: AP_MESSAGE })
  @IsUnique()
  access_policies?: string[];

  /** Version of the scoring model, for both sides. Default: the one that serves the platform. */
  @IsOptional()
  @IsIn(MODEL_IDS)
  model?: ModelId;
}

export class EvaluatePolicyDto extends PreviewedDto {
  /** A policy that need not be stored. Send either this or policy_id. */
  @IsOptional()
  @IsNested(() => CreatePolicyDto)
  policy?: CreatePolicyDto;

  /** A stored policy. Send either this or policy. */
  @IsOptional()
  @Matches(POLICY_REF, { message: VP_MESSAGE })
  policy_id?: string;

  /** Identities to compare. Default: all, and only the summary is returned. */
  @IsOptional()
  @AreTrisIds(100)
  subjects?: string[];
}

export class StartReplayDto extends PreviewedDto {}

export class PromotePolicyDto {
  @IsIn(LENS_SCOPES)
  scope: LensScope;

  /** A completed replay of this policy for the same scope, on which the decision is based. Recorded with it. */
  @IsOptional()
  @Matches(REPLAY_ID, { message: REPLAY_MESSAGE })
  replay_id?: string;
}

export class RollBackPolicyDto extends ScopedDto {}

export class ReplayParams {
  @Matches(REPLAY_ID, { message: REPLAY_MESSAGE })
  replay_id: string;
}

export class PromotionParams {
  /** The `job_id` of a promotion that returned 202. */
  @IsUuid({ message: '$property must be a job_id that a promotion returned' })
  job_id: string;
}

export class PreviewDto {
  score: number;
  @ApiProperty({ enum: RATINGS })
  score_rating: Rating;
  total_tct: number;
  /** This and the next two: from disc-2 on. */
  reliability?: number;
  evidence?: EvidenceDto;
  @ApiProperty(INTERVAL)
  reliability_interval?: [number, number];
  /** Health by category, 0..1. */
  @ApiProperty({ type: 'object', additionalProperties: { type: 'number' } })
  disc_metrics: Record<Category, number>;
}

class DeltaDto {
  /** Change of the score. */
  @ApiProperty({ minimum: -100, maximum: 100 })
  score: number;
  /** Change of the net TCT. */
  total_tct: number;
  /** Change of the health of each category. */
  @ApiProperty({ type: 'object', additionalProperties: { type: 'number' } })
  metrics: Record<string, number>;
}

class RatingChangeDto {
  /** The rating now. */
  @ApiProperty({ enum: RATINGS })
  from: Rating;
  /** The rating with the policy. */
  @ApiProperty({ enum: RATINGS })
  to: Rating;
}

class AccessFlipDto {
  policy_id: string;
  /** Whether the check grants now. */
  before: boolean;
  /** Whether the check would grant. */
  after: boolean;
}

export class ReasonDto {
  metric: string;
  /** Its share of the net TCT under each lens. */
  before_tct: number;
  /** The same with the policy. */
  after_tct: number;
}

export class EvaluatedSubjectDto {
  tris_id: string;
  /** This and the next three are null for an unknown identity. */
  current: PreviewDto | null;
  /** The answer with the policy. */
  projected: PreviewDto | null;
  delta: DeltaDto | null;
  /** null if the rating does not change. */
  rating_change: RatingChangeDto | null;
  /** The metrics whose shares of the net TCT change most, up to five. Empty for an unknown identity. */
  reasons: ReasonDto[];
  access: AccessFlipDto[];
  problem?: ItemProblemDto;
}

/** A lens, and the version of the model that computed. */
export class ScoringNameDto extends LensNameDto {
  model: ModelDto;
}

const BY_RATING = { type: 'object', additionalProperties: { type: 'integer' } } as const;

class HistogramDto {
  /** Number of identities by rating. */
  @ApiProperty(BY_RATING)
  by_rating: Record<Rating, number>;
  /** Identities with a score in [0, 10), [10, 20), … [90, 100]. */
  @ApiProperty({ type: 'array', items: { type: 'integer' } })
  by_score: number[];
}

class HistogramsDto {
  before: HistogramDto;
  after: HistogramDto;
}

export class MoverDto {
  tris_id: string;
  before: SideDto;
  after: SideDto;
  delta: number;
  /** The metrics with the largest changes. */
  reasons: ReasonDto[];
}

class TopMoversDto {
  /** The largest increases. */
  up: MoverDto[];
  /** The largest decreases. */
  down: MoverDto[];
}

export class AccessChangeDto {
  policy_id: string;
  /** Identities that it grants access, before and after. */
  granted_before: number;
  granted_after: number;
  gained: number;
  lost: number;
  /** Up to twenty in each direction. */
  gained_by: string[];
  /** Up to twenty identities that lose access. */
  lost_by: string[];
}

export class SummaryDto {
  /** Identities compared. */
  count: number;
  /** Identities whose score rises, falls, or does not change. */
  @ApiProperty({ type: 'integer', minimum: 0 })
  up: number;
  /** Number of identities whose score falls. */
  @ApiProperty({ type: 'integer', minimum: 0 })
  down: number;
  /** Number of identities whose score does not change. */
  @ApiProperty({ type: 'integer', minimum: 0 })
  unchanged: number;
  /** The mean change of the score. */
  mean_delta: number;
  /** How many identities have which score and rating. */
  histogram: HistogramsDto;
  /** Number of identities by old and new rating. */
  @ApiProperty({ type: 'object', additionalProperties: BY_RATING })
  rating_moves: Record<Rating, Record<Rating, number>>;
  /** The identities whose scores change most. */
  top_movers: TopMoversDto;
  access: AccessChangeDto[];
}

export class EvaluationDto {
  policy_id: string;
  content_hash: string;
  evaluated_at: string;
  /** The lens of `current`. */
  lens: LensNameDto;
  /** The version of the model of both sides. */
  model: ModelDto;
  as_of: string;
  position: string;
  /** The generation of the read models that the answer comes from. */
  generation: string;
  /** One per subject, in order. */
  results: EvaluatedSubjectDto[];
  /** The changes of all compared identities. */
  summary: SummaryDto;
}

class ProgressDto {
  /** Identities compared so far. */
  done: number;
  total: number;
}

export class ReplayResultDto extends SummaryDto {
  /** The lens and the version of the model that were active during the replay. */
  before: ScoringNameDto;
  /** Those that they were compared with. */
  after: ScoringNameDto;
  /** The generation of the read models that the answer comes from. */
  generation: string;
  /** All events up to this position are included. */
  position: string;
  as_of: string;
}

export class ReplayDto {
  replay_id: string;
  /** null, as the next two, in a replay of a version of the model. */
  policy_id: string | null;
  tris_org: string | null;
  content_hash: string | null;
  /** The version of the model that is compared with the platform's; null in a replay of a policy. */
  promotes: ModelDto | null;
  /** Whether the policy is compared with the lens of the platform or with that of the organization. */
  @ApiProperty({ enum: LENS_SCOPES })
  scope: LensScope;
  /** The state of the replay. */
  @ApiProperty({ enum: JOB_STATUSES })
  status: JobStatus;
  progress: ProgressDto;
  result: ReplayResultDto | null;
  error: string | null;
  started_at: string;
  finished_at: string | null;
}

export class SwitchDto {
  policy_id: string;
  @ApiProperty({ enum: LENS_SCOPES })
  scope: LensScope;
  /** The lens that is active from `position` on. */
  active: LensNameDto;
  previous: LensNameDto;
  /** Generation of the read models; null while the switch is not applied yet. */
  generation: string | null;
  replay_id: string | null;
  /** Reads at or after this position use the active lens. */
  position: string;
  /** Only with status 202: id for querying the status. */
  job_id?: string;
}

export class PromotionDto extends SwitchDto {
  /** Whether the read models have switched. */
  @ApiProperty({ enum: ['switching', 'applied'] })
  status: 'switching' | 'applied';
}

export class ModelParams {
  /** The version of the scoring model. */
  @IsIn(MODEL_IDS)
  model_id: ModelId;
}

export class StartModelReplayDto {
  /** Access policies whose decisions to compare. Default: all that are not retired. */
  @IsOptional()
  @IsArray()
  @ArrayMaxSize(20)
  @Matches(POLICY_REF, { each: true, message: AP_MESSAGE })
  @IsUnique()
  access_policies?: string[];
}

export class PromoteModelDto {
  /** A completed replay of this version, on which the decision is based. Recorded with it. */
  @IsOptional()
  @Matches(REPLAY_ID, { message: REPLAY_MESSAGE })
  replay_id?: string;
}

export class KnownModelDto extends ModelDto {
  /** Whether it serves the platform. */
  active: boolean;
}

export class ModelsDto {
  /** The versions. */
  models: KnownModelDto[];
}

export class ModelSwitchDto {
  /** The version that is active from `position` on. */
  active: ModelDto;
  previous: ModelDto;
  replay_id: string | null;
  /** Generation of the read models; null while the switch is not applied yet. */
  generation: string | null;
  /** Reads at or after this position are computed by the active version. */
  position: string;
  /** Only with status 202. Reads that wait for `position` see the switch. */
  job_id?: string;
}
