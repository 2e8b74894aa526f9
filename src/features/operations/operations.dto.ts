import { ApiProperty } from '@nestjs/swagger';
import { ArrayNotEmpty, ArrayUnique, IsBoolean, IsIn, IsOptional } from 'class-validator';
import { AtMost, Matches } from '../../http/fields.js';
import { PROJECTIONS } from '../../read-side/all-projections.js';
import type { GenerationStatus } from '../../stores/ports/read-models.js';

const VIEWS = PROJECTIONS.map(({ name }) => name);
const GENERATION_ID = /^g[1-9][0-9]{0,14}$/;
const NOT_AN_ID = '$property must be the id of a generation, such as g2';
const STATUSES = ['building', 'ready', 'damaged', 'dropped'] as const satisfies GenerationStatus[];

export class RebuildDto {
  /** The views to build. Default: all. */
  @IsOptional()
  @ArrayNotEmpty()
  @AtMost(VIEWS.length)
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

export class GenerationParams {
  /** The id of a generation. */
  @Matches(GENERATION_ID, { message: NOT_AN_ID })
  generation: string;
}

/** The result of a rebuild. */
export class RebuiltDto {
  /** The id of the generation that was built. */
  generation: string;
  /** Applied by the run that completed the job. */
  events: number;
  /** Of that run. */
  seconds: number;
  /** Whether the generation serves. */
  swapped: boolean;
  /** Streams that were deleted or truncated in EventStoreDB: no score contains what is gone. Absent if there is none. */
  hidden_streams?: string[];
}

/** The result of a swap or a rollback. */
export class ServingDto {
  /** The generation that serves each view. */
  @ApiProperty({ type: 'object', additionalProperties: { type: 'string' } })
  views: Record<string, string>;
}

class VerifiedGenerationDto {
  /** Its id. */
  id: string;
  /** Its views. */
  views: string[];
  /** Events up to which it was followed. */
  position: number;
  /** Whether it has not caught up with the log, so that only a part of its final rows was compared. */
  is_building: boolean;
  /** Events that were in the log when the comparison began, and that it has not applied. */
  not_applied: number;
  /** Rows compared. */
  rows: number;
  /** The number of parts of the log that were folded one after the other. */
  passes: number;
  /** Bytes of the disk that temporary files took. */
  disk_bytes: number;
}

/** A JSON value of any kind. */
const ANY = {
  oneOf: [
    { type: 'object', additionalProperties: true },
    { type: 'array', items: {} },
    ...['string', 'number', 'boolean', 'null'].map((type) => ({ type })),
  ],
};

class DifferenceDto {
  /** The id of the generation that differs from the log. */
  generation: string;
  /** `checkpoint` if what the generation says it has applied is not in the log. */
  view: string;
  /** The key of the row. */
  key: string;
  /** Its sort key; null: it has none. */
  sort: string | null;
  /** The row according to the log; null: no such row. */
  @ApiProperty(ANY)
  expected: unknown;
  /** The row in the read model; null: no such row. */
  @ApiProperty(ANY)
  found: unknown;
  /** Applied events at which both were compared. */
  position: number;
}

class DamageDto {
  /** What is wrong with the event, as a clause. */
  reason: string;
  /** The identity that the event is about; null if that is not certain. */
  tris_id: string | null;
}

class DamagedEventDto {
  /** Its id. */
  id: string;
  /** Its type. */
  type: string;
  /** Its stream. */
  stream: string;
  position: number;
  /** Why it cannot be read. */
  damage?: DamageDto;
}

class LogChangeDto {
  /** The last position whose event is right, as far as is known. */
  after: number;
  /** The wrong event is at this position, or between both. */
  position: number;
  /** What it contradicts. */
  @IsIn(['tile', 'checkpoint', 'signed_checkpoint'])
  found_by: 'tile' | 'checkpoint' | 'signed_checkpoint';
}

class LogTreeCheckDto {
  /** Events in the tree: up to the first one that is damaged or wrong. */
  size: number;
  /** Its root, in base64. */
  root: string;
  /** The number of checkpoints that it was compared with. */
  checkpoints: number;
  /** Where an event was changed, added or removed; null: nowhere. */
  change: LogChangeDto | null;
}

/** The result of a comparison of the serving read models with the log. */
export class VerifiedDto {
  /** Whether everything was compared, and no difference was found. */
  identical: boolean;
  /** Events of the log up to the furthest position compared. */
  events: number;
  /** Rows compared. */
  rows: number;
  /** The compared generations: those that serve. */
  generations: VerifiedGenerationDto[];
  /** The first difference; null if all compared rows are correct. */
  difference: DifferenceDto | null;
  /** The first 20 events of the log that cannot be read. */
  damaged: DamagedEventDto[];
  /** Number of events that cannot be read. */
  damaged_events: number;
  /** Streams that were deleted or truncated in EventStoreDB: no score contains what is gone. Absent if there is none. */
  hidden_streams?: string[];
  /** The tree of the log, computed again; null: no view has it yet. */
  tree: LogTreeCheckDto | null;
  /** How long it took. */
  seconds: number;
}

export class DroppedGenerationDto {
  /** The id of the generation that was deleted. */
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
  /** Whether it is being built, can be read, is damaged, or was dropped. */
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
  /** Null if it is of another log. */
  applied_events: number | null;
  /** Events that it has not applied: of more than 1,000, EventStoreDB gives an estimate. */
  lag_events: number;
  /** Age of the oldest event that it has not applied; 0 at the head. */
  lag_seconds: number;
  /** The worker that applies events to it now; null if none does. */
  lease: LeaseDto | null;
}

class OpenDeadLetterDto {
  event_id: string;
  event_type: string;
  position: string;
  /** The identity that the event is about; null if it could not be determined. */
  tris_id: string | null;
  /** Why the event cannot be decoded. */
  reason: string;
}

class DeadLetterCountsDto {
  /** Over HTTP at most 1,000. */
  open: number;
  /** Over HTTP at most 1,000. */
  acknowledged: number;
  /** The oldest 20. */
  oldest_open: OpenDeadLetterDto[];
}

class FailedJobDto {
  /** What it was to do. */
  kind: string;
  /** Its `job_id`. */
  id: string;
  attempts: number;
  error: string | null;
  finished_at: string | null;
}

class FailedJobsDto {
  /** Over HTTP among the newest 50 jobs. */
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
  /** Events of the log: of those that no generation that serves has applied, EventStoreDB gives an estimate. */
  events: number;
  /** Every generation that was not dropped. */
  generations: GenerationDto[];
  /** The generation of each view before the last swap, to which a rollback returns; null if there was no swap. */
  @ApiProperty({ type: 'object', additionalProperties: { type: 'string' }, nullable: true })
  previous_views: Record<string, string> | null;
  /** How many events cannot be decoded. */
  dead_letters: DeadLetterCountsDto;
  /** Jobs that failed their last attempt. */
  failed_jobs: FailedJobsDto;
}
