import { ApiProperty } from '@nestjs/swagger';
import { ArrayMaxSize, IsArray, IsIn, IsOptional, IsString, Length } from 'class-validator';
import { ItemProblemDto } from '../../http/common.dto.js';
import {
  AreTrisIds,
  CommaSeparated,
  IsInt,
  IsOneOf,
  IsTimestamp,
  IsTrisId,
  IsUnique,
  Matches,
} from '../../http/fields.js';
import { POLICY_REF } from '../../kernel/identifiers.js';
import { type Category, MODEL, RATINGS, type Rank, type Rating } from '../../scoring/model.js';
import { MODEL_IDS } from '../../scoring/models/all.js';
import { EVIDENCE_WORDS, type Certainty, type ModelId } from '../../scoring/models/scoring-model.js';
import { DEPTH_NAMES, type Depth, WINDOWS, type Window } from './report.js';

const number = { type: 'number' };
/** Lower and upper end; the client makes a tuple of it. */
export const INTERVAL = {
  type: 'array',
  prefixItems: [number, number],
  items: number,
  minItems: 2,
  maxItems: 2,
  required: false,
} as const;

const RANKS = MODEL.ranks.map(([name]) => name);
const METRIC_NAME = /^[a-z][a-z0-9_]{0,127}$/;
const METRIC_MESSAGE = '$property must contain metric names: lower-case letters, digits and underscores';

/** Selects the state of the identities. Default: all events that have been applied. */
class SharedCoordinates {
  /** Count only events that occurred by then. Default: the end of the current UTC hour. */
  @IsOptional()
  @IsTimestamp()
  as_of?: string;

  /** Count only events that were recorded by then. */
  @IsOptional()
  @IsTimestamp()
  known_at?: string;

  /** Id of the validation policy to use as the lens, or `model`. */
  @IsOptional()
  @Matches(POLICY_REF, { message: 'vp must be the id of a validation policy, such as VP_LEND_V1' })
  vp?: string;

  /** Version of the scoring model. Default: the one that serves the platform. */
  @IsOptional()
  @IsIn(MODEL_IDS)
  model?: ModelId;
}

export class CoordinatesQuery extends SharedCoordinates {
  /** Count only events up to and including this position. */
  @IsOptional()
  @IsString()
  @Length(1, 128)
  as_of_position?: string;
}

export class HistoryQuery extends CoordinatesQuery {
  /** Entries on a page. */
  @IsOptional()
  @IsInt(1, 1000)
  limit: number = 100;

  /** `next_cursor` of the previous page. */
  @IsOptional()
  @IsString()
  @Length(1, 1024)
  cursor?: string;

  /** RFC 3339: only events recorded at this time or later. */
  @IsOptional()
  @IsTimestamp()
  from?: string;

  /** RFC 3339: only events recorded at this time or earlier. */
  @IsOptional()
  @IsTimestamp()
  to?: string;
}

export class MetricsQuery extends CoordinatesQuery {
  /** Categories, aliases or full metrics; default: the seven categories. */
  @IsOptional()
  @CommaSeparated()
  @ArrayMaxSize(50)
  @Matches(METRIC_NAME, { each: true, message: METRIC_MESSAGE })
  metrics?: string[];
}

export class ReportQuery extends CoordinatesQuery {
  /** Months that the report covers. */
  @IsOptional()
  @IsOneOf(WINDOWS)
  window: Window = 3;

  @IsOptional()
  @IsIn(DEPTH_NAMES)
  depth: Depth = 'insight';
}

export class ScoreBatchDto extends SharedCoordinates {
  @AreTrisIds(100)
  tris_ids: string[];
}

export class MetricsBatchDto extends ScoreBatchDto {
  /** Categories, aliases or full metrics; default: the seven categories. */
  @IsOptional()
  @IsArray()
  @ArrayMaxSize(50)
  @Matches(METRIC_NAME, { each: true, message: METRIC_MESSAGE })
  metrics?: string[];
}

export class ReportBatchDto extends SharedCoordinates {
  @AreTrisIds(25)
  tris_ids: string[];

  /** Months that the report covers. */
  @IsOptional()
  @IsOneOf(WINDOWS)
  window: Window = 3;

  @IsOptional()
  @IsIn(DEPTH_NAMES)
  depth: Depth = 'insight';
}

/** Health per category, 0..1, four decimals. */
export class DiscMetricsDto implements Record<Category, number> {
  financial: number;
  creative: number;
  educational: number;
  behavioral: number;
  social: number;
  security: number;
  compliance: number;
}

/** The public score (requirement 17). */
export class DiscScoreDto {
  tris_id: string;
  total_tct: number;
  @ApiProperty({ enum: RATINGS })
  score_rating: Rating;
  disc_metrics: DiscMetricsDto;
}

/** The rank (requirement 18). */
export class DiscRankDto {
  tris_id: string;
  tct_total: number;
  /** The rank by accumulated TCT. */
  @ApiProperty({ enum: RANKS })
  disc_rank: Rank;
}

export class LensDto {
  /** null: the model's own lens, which weighs an action by its criticality. */
  policy_id: string | null;
  content_hash: string;
}

export class LensNameDto {
  /** null: the model's own lens, or the platform's lens if content_hash is null too. */
  policy_id: string | null;
  content_hash: string | null;
}

export class ModelDto {
  /** The version of the model. */
  @ApiProperty({ enum: MODEL_IDS })
  id: ModelId;
  /** Identifies the version: equal hashes mean the same constants and formulas. */
  hash: string;
}

export class SideDto {
  score: number;
  @ApiProperty({ enum: RATINGS })
  score_rating: Rating;
  total_tct: number;
}

export class EvidenceDto {
  /** Good days and flags that still count, four decimals. */
  amount: number;
  /** The amount of evidence in a word. */
  @ApiProperty({ enum: EVIDENCE_WORDS })
  word: Certainty['evidence']['word'];
}

export class VerificationDto {
  /** The verification status. */
  status: string;
  issuer: string;
  /** How it was established: `operator`, or the id of a verification scheme. */
  scheme: string;
  expires_at: string | null;
  /** Whether it counts in policies that name no issuer: a proof, an operator's grant, or an accredited issuer's. */
  accredited: boolean;
}

export class BadStatusSinceDto {
  level: number;
  reason_code: string;
  since: string;
}

/** What an answer depends on: equal coordinates always give equal numbers. */
export class CoordinatesDto {
  lens: LensDto;
  model: ModelDto;
  as_of: string;
  /** The last position that counts, `<log id>.<decimal>`. */
  position: string;
}

export class ScoreDto extends CoordinatesDto {
  tris_id: string;
  /** 1.0..100.0, one decimal. */
  score: number;
  @ApiProperty({ enum: RATINGS })
  score_rating: Rating;
  /** max(0, earned − forfeited). */
  total_tct: number;
  earned_tct: number;
  /** Ten times the flagged TCT. */
  forfeited_tct: number;
  /** 0..1, four decimals: the probability that the next action is a good one. */
  reliability: number;
  /** The amount of evidence for the reliability. From disc-2 on. */
  evidence?: EvidenceDto;
  /** The range that contains the reliability with a probability of 90 %. From disc-2 on. */
  @ApiProperty(INTERVAL)
  reliability_interval?: [number, number];
  disc_metrics: DiscMetricsDto;
  verification: VerificationDto[];
  bad_status: BadStatusSinceDto | null;
  /** Generation of the read models that the answer comes from. */
  generation: string;
  /** Present if an event about the identity could not be decoded and has not been acknowledged. */
  incomplete?: boolean;
  /** How many statements about the identity are disputed now, whatever the viewpoint. Absent if none is. */
  disputed?: number;
}

export class HistoryEntryDto {
  position: string;
  occurred_at: string;
  recorded_at: string;
  event_id: string;
  event_type: string;
  metric: string | null;
  platform_id: string | null;
  /** TRIS of the other side of an action. Absent if it is not recorded. */
  counterparty?: string;
  /** Present if the operators do not stand behind the action: its organization was not vetted. */
  @ApiProperty({ enum: ['unvouched'] })
  source?: 'unvouched';
  /** The action that is withdrawn or reinstated: the id of its event. Absent in other entries. */
  action_id?: string;
  /** Why, such as `mistake` or `duplicate`. Absent in other entries. */
  reason?: string;
  /** Change of net TCT: the TCT of the action, or minus ten times its TCT for a flag. */
  tct_delta: number;
  /** The standing after this event: this field and the next three. */
  total_tct: number;
  score: number;
  @ApiProperty({ enum: RATINGS })
  score_rating: Rating;
  /** The BAD status that determines the score. Absent if none is set. */
  bad_status?: BadStatusSinceDto;
}

export class HistoryDto {
  tris_id: string;
  lens: LensDto;
  /** The events, in log order. */
  entries: HistoryEntryDto[];
  next_cursor: string | null;
}

export class ContributionDto {
  metric: string;
  /** The category of the metric. */
  @ApiProperty({ enum: MODEL.categories })
  category: string;
  actions: number;
  /** Its contribution to the earned TCT. If a day's TCT is limited, its share of the limit. */
  tct: number;
  /** Share of the earned TCT, 0..1. */
  share: number;
  last_at: string;
}

export class ForfeitDto {
  metric: string;
  /** The category of the metric. */
  @ApiProperty({ enum: MODEL.categories })
  category: string;
  actions: number;
  flagged_tct: number;
  /** Ten times the flagged TCT. */
  forfeited_tct: number;
  last_at: string;
}

export class ShareDto {
  actions: number;
  /** Earned TCT. */
  tct: number;
  flagged_tct: number;
}

export class PlatformShareDto extends ShareDto {
  platform_id: string;
}

export class CounterpartyShareDto extends ShareDto {
  tris_id: string;
}

export class NextRatingDto {
  /** The next rating. */
  @ApiProperty({ enum: RATINGS })
  rating: Rating;
  /** Net TCT that is still missing. */
  tct_needed: number;
  /** The minimum number of UTC days it takes, since the TCT of a day is limited; null: never. From disc-2 on. */
  @ApiProperty({ type: 'integer', nullable: true, required: false })
  days_needed?: number | null;
}

export class ExplanationDto extends CoordinatesDto {
  tris_id: string;
  score: number;
  /** The BAD status that determines the score. Absent if none is set. */
  bad_status?: BadStatusSinceDto;
  /** Explains the reliability. This field and the next three are present from disc-2 on. */
  summary?: string;
  reliability?: number;
  evidence?: EvidenceDto;
  @ApiProperty(INTERVAL)
  reliability_interval?: [number, number];
  /** The 1,000 metrics with the most TCT. */
  contributions: ContributionDto[];
  /** The hundred with the largest effect on the score. */
  platforms: PlatformShareDto[];
  /** The hundred with the largest effect on the score. Absent if no action has a counterparty. */
  counterparties?: CounterpartyShareDto[];
  /** The 1,000 metrics with the most flagged TCT. */
  forfeits: ForfeitDto[];
  /** How many actions are withdrawn and count nowhere. Absent if none is. */
  withdrawn?: number;
  /** null at the highest rating, and under an explicit BAD status. */
  next_rating: NextRatingDto | null;
}

/** Metrics with their proof (requirement 20). */
export class MetricsDto {
  /** Always `success`. */
  @ApiProperty({ enum: ['success'] })
  status: 'success';
  /** Compact Ed25519 JWS over subject, payload, timestamp and coordinates. */
  proof: string;
  /** Health 0..1 by requested name. */
  @ApiProperty({ type: 'object', additionalProperties: { type: 'number' } })
  payload: Record<string, number>;
  timestamp: string;
}

export class PeriodDto {
  /** The start of the period. */
  @ApiProperty({ format: 'date-time' })
  from: string;
  /** The end of the period. */
  @ApiProperty({ format: 'date-time' })
  to: string;
}

export class TrajectoryPointDto {
  at: string;
  score: number;
  @ApiProperty({ enum: RATINGS })
  score_rating: Rating;
  total_tct: number;
}

export class CredonatorDto {
  /** The TRIS id of the sender. */
  from: string;
  /** The TCT of all endorsed actions. */
  amount: number;
  count: number;
}

export class ReportDto extends CoordinatesDto {
  /** The id of the report. It follows from its content hash. */
  report_id: string;
  /**
   * SHA-256 of the RFC 8785 JSON of this report without report_id, report_hash, portable_hash, proof, generated_at and
   * disputed, and by disc-1 without bad_status.
   */
  report_hash: string;
  /**
   * SHA-256 of the RFC 8785 JSON of this report without report_id, report_hash, portable_hash, proof, generated_at,
   * disputed and position: the same after a migration of the log.
   */
  portable_hash: string;
  tris_id: string;
  /** The time that the report covers. */
  period: PeriodDto;
  /** In months. */
  @ApiProperty({ type: 'integer', enum: WINDOWS })
  window: Window;
  @ApiProperty({ enum: DEPTH_NAMES })
  depth: Depth;
  score: number;
  /** Change since the start of the period. */
  score_delta: number;
  @ApiProperty({ enum: RATINGS })
  score_rating: Rating;
  total_tct: number;
  /** The BAD status that determines the score. Absent if none is set. */
  bad_status?: BadStatusSinceDto;
  /** This and the next two: from disc-2 on. */
  reliability?: number;
  evidence?: EvidenceDto;
  @ApiProperty(INTERVAL)
  reliability_interval?: [number, number];
  /** The score over the period. */
  trajectory: TrajectoryPointDto[];
  /** Health by category. */
  metrics: DiscMetricsDto;
  /** Who endorsed the identity most in the period. */
  top_credonators: CredonatorDto[];
  /** The platforms with the largest effect in the period. */
  top_platforms: PlatformShareDto[];
  /** The 1,000 metrics with the most actions. */
  @ApiProperty({ type: 'object', additionalProperties: { type: 'integer' } })
  actions_by_metric: Record<string, number>;
  /** How many actions of the period are withdrawn and count nowhere. Absent if none is. */
  withdrawn?: number;
  verification: VerificationDto[];
  wallets_count: number;
  /** How many statements about the identity are disputed now, whatever the viewpoint. Absent if none is. */
  disputed?: number;
  /** Compact Ed25519 JWS over the report's id, hash and coordinates. */
  proof: string;
  generated_at: string;
}

export class ChangeDto {
  tris_id: string;
  score: number;
  total_tct: number;
  /** Position of the last event about the identity. */
  position: string;
}

export class ChangesDto {
  /** The identities that changed, in the order of their last change. */
  changes: ChangeDto[];
  /** Cursor for later changes. Never null: poll with it. */
  next_cursor: string;
  /** Present if the cursor was for another log, lens or model: the feed starts again from the beginning. */
  reset?: boolean;
}

export class LiveChangesQuery {
  /** Only changes of these identities, at most 100. */
  @IsOptional()
  @CommaSeparated()
  @ArrayMaxSize(100)
  @IsTrisId({ each: true })
  @IsUnique()
  tris_ids?: string[];

  /** A `next_cursor` of the change feed, to continue from there. Default: from now on. `Last-Event-ID` overrides it. */
  @IsOptional()
  @IsString()
  @Length(1, 1024)
  cursor?: string;
}

/** The data of an event `change`. */
export class LiveChangeDto extends ChangeDto {
  @ApiProperty({ enum: RATINGS })
  score_rating: Rating;
}

export class MinuteDto {
  at: string;
  /** Accepted relays. */
  relayed: number;
  /** Access checks that granted access. */
  granted: number;
  /** Access checks that denied it. */
  denied: number;
}

export class LatestRatingChangeDto {
  tris_id: string;
  recorded_at: string;
  /** The rating before. */
  @ApiProperty({ enum: RATINGS })
  from: Rating;
  /** The rating after. */
  @ApiProperty({ enum: RATINGS })
  to: Rating;
  /** After the change. */
  score: number;
}

export class OverviewDto {
  /** Number of identities. */
  identities: number;
  /** Number of actions, with those that are withdrawn; null: no module that is enabled keeps them. */
  actions: number | null;
  /** Number of registered organizations. */
  organizations: number;
  /** The last 60: what this process has recorded. */
  minutes: MinuteDto[];
  /** The latest change of rating of those of the 50 identities that changed last, within their last 64 events. */
  rating_changes: LatestRatingChangeDto[];
}

class BatchResultDto {
  tris_id: string;
  /** The HTTP status that a request for this identity alone would have returned. */
  status: number;
  problem?: ItemProblemDto;
}

export class ScoreResultDto extends BatchResultDto {
  data?: ScoreDto;
}
export class MetricsResultDto extends BatchResultDto {
  data?: MetricsDto;
}
export class ReportResultDto extends BatchResultDto {
  data?: ReportDto;
}
export class ScoreBatchResultDto {
  results: ScoreResultDto[];
}
export class MetricsBatchResultDto {
  results: MetricsResultDto[];
}
export class ReportBatchResultDto {
  results: ReportResultDto[];
}
