import { ApiProperty } from '@nestjs/swagger';
import { ArrayMaxSize, ArrayNotEmpty, ArrayUnique, IsBoolean, IsIn, IsOptional, Matches } from 'class-validator';
import { PROJECTIONS } from '../../read-side/all-projections.js';
import type { GenerationStatus } from '../../stores/ports/read-models.js';

const VIEWS = PROJECTIONS.map(({ name }) => name);
const GENERATION_ID = /^g[1-9]\d{0,14}$/;
const NOT_AN_ID = '$property must be the id of a generation, such as g2';
const STATUSES = ['loading', 'building', 'ready', 'damaged', 'dropped'] as const satisfies GenerationStatus[];

export class RebuildDto {
  /** The views to build. Default: all. */
  @IsOptional()
  @ArrayNotEmpty()
  @ArrayMaxSize(VIEWS.length)
  @ArrayUnique()
  @IsIn(VIEWS, { each: true })
  @ApiProperty({ type: 'array', items: { type: 'string', enum: VIEWS }, required: false })
  views?: string[];

  /** Serve the generation once it is built. */
  @IsOptional()
  @IsBoolean()
  swap: boolean = false;
}

export class SwapDto {
  /** A ready generation. */
  @Matches(GENERATION_ID, { message: NOT_AN_ID })
  generation: string;
}

export class SnapshotDto {
  /** Default: those that serve. */
  @IsOptional()
  @Matches(GENERATION_ID, { message: NOT_AN_ID })
  generation?: string;
}

export class GenerationParams {
  @Matches(GENERATION_ID, { message: NOT_AN_ID })
  generation: string;
}

export class OperationStartedDto {
  job_id: string;
}

export class DroppedGenerationDto {
  generation: string;
}

class LeaseDto {
  /** Identifies the worker that applies events to it. */
  holder: string;
  expires_at: string;
}

class GenerationDto {
  /** Such as `g2`. */
  id: string;
  @ApiProperty({ enum: STATUSES })
  status: GenerationStatus;
  /** Whether it was folded from this log. */
  of_this_log: boolean;
  /** The views that requests read from it. */
  serves: string[];
  /** The versions of its views. */
  @ApiProperty({ type: 'object', additionalProperties: { type: 'integer' } })
  views: Record<string, number>;
  /** Its checkpoint: the last event that it has applied. */
  position: string;
  /** Null if it is of another log, or if counting takes too long. */
  @ApiProperty({ type: 'integer', nullable: true })
  applied_events: number | null;
  /** Events that it has not applied; null if counting takes too long. */
  @ApiProperty({ type: 'integer', nullable: true })
  lag_events: number | null;
  /** Age of the oldest event that it has not applied; 0 at the head. */
  lag_seconds: number;
  /** The worker that applies events to it now; null if none does. */
  @ApiProperty({ type: LeaseDto, nullable: true })
  lease: LeaseDto | null;
}

class OpenDeadLetterDto {
  event_id: string;
  event_type: string;
  position: string;
  @ApiProperty({ type: String, nullable: true })
  tris_id: string | null;
  reason: string;
}

class DeadLetterCountsDto {
  /** Over HTTP at most 1,000. */
  @ApiProperty({ type: 'integer' })
  open: number;
  /** Over HTTP at most 1,000. */
  @ApiProperty({ type: 'integer' })
  acknowledged: number;
  /** The oldest 20. */
  oldest_open: OpenDeadLetterDto[];
}

class FailedJobDto {
  /** What it was to do. */
  kind: string;
  /** Its `job_id`. */
  id: string;
  @ApiProperty({ type: 'integer' })
  attempts: number;
  @ApiProperty({ type: String, nullable: true })
  error: string | null;
  @ApiProperty({ type: String, nullable: true })
  finished_at: string | null;
}

class FailedJobsDto {
  /** Over HTTP among the newest 50 jobs. */
  @ApiProperty({ type: 'integer' })
  count: number;
  /** The newest 20. */
  newest: FailedJobDto[];
}

/** The log, the generations of read models with their lag, dead letters and failed jobs. */
export class StatusDto {
  /** Identifies the log. */
  log_id: string;
  /** The position of the last event. */
  head: string;
  /** Events of the log; null if counting takes too long. */
  @ApiProperty({ type: 'integer', nullable: true })
  events: number | null;
  /** Every generation that was not dropped. */
  generations: GenerationDto[];
  /** The generation of each view before the last swap, to which a rollback returns; null if there was no swap. */
  @ApiProperty({ type: 'object', additionalProperties: { type: 'string' }, nullable: true })
  previous_views: Record<string, string> | null;
  dead_letters: DeadLetterCountsDto;
  /** Jobs that failed their last attempt. */
  failed_jobs: FailedJobsDto;
}
