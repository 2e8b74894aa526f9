import { ApiProperty } from '@nestjs/swagger';
import { IsOptional } from 'class-validator';
import { IsInt, Matches } from '../../http/fields.js';
import { ItemProblemDto } from '../../http/common.dto.js';
import { JOB_STATUSES, type JobStatus } from '../../stores/ports/jobs.js';

export class JobParams {
  @Matches(/^[a-z]{2,8}_[A-Za-z0-9_-]{1,128}$/, { message: '$property must be the id of a job' })
  job_id: string;
}

export class JobsQuery {
  /** Number of jobs. */
  @IsOptional()
  @IsInt(1, 100)
  limit: number = 20;
}

/** In units of its kind, such as identities, events or blocks; both 0 before the job is run. */
export class JobProgressDto {
  done: number;
  total: number;
}

export class JobSummaryDto {
  job_id: string;
  /** What it does, such as `vp_replay`. */
  kind: string;
  /** The state of the job. */
  @ApiProperty({ enum: JOB_STATUSES })
  status: JobStatus;
  progress: JobProgressDto;
  /** Why it failed; null unless it did. */
  problem: ItemProblemDto | null;
  started_at: string;
  finished_at: string | null;
}

/** The OpenAPI document has a schema for each kind of job, with its result (`JobKind.result`). */
export class JobDto extends JobSummaryDto {
  /** Null before the job is completed. */
  @ApiProperty({ oneOf: [{ type: 'object', additionalProperties: true }, { type: 'string' }, { type: 'null' }] })
  result: object | string | null;
}

export class JobsDto {
  /** The newest first. */
  jobs: JobSummaryDto[];
}
