import { ApiProperty } from '@nestjs/swagger';
import { IsOptional } from 'class-validator';
import { IsInt, IsWalletAddress, Matches } from '../../http/fields.js';
import { JOB_STATUSES, type JobStatus } from '../../stores/ports/jobs.js';

/** A linked wallet's history on a chain (requirement 33). */
export class IngestWalletDto {
  @IsWalletAddress()
  wallet: string;

  @IsInt(1, Number.MAX_SAFE_INTEGER)
  chain_id: number;

  /** First block to read. Default: the block after the last one read, or the chain's first. */
  @IsOptional()
  @IsInt(0, Number.MAX_SAFE_INTEGER)
  from_block?: number;
}

export class IngestionParams {
  @Matches(/^ing_[0-9a-f]{32}$/, { message: '$property must be the id of an ingestion' })
  job_id: string;
}

/** In blocks. */
export class IngestionProgressDto {
  done: number;
  total: number;
}

export class IngestionResultDto {
  from_block: number;
  /** null if there were no new blocks. */
  to_block: number | null;
  /** Logs that concern the wallet. */
  logs: number;
  /** Actions recorded by this job. */
  recorded: number;
  already_present: number;
  /** Recorded earlier for another identity that the wallet was linked to. */
  counted_elsewhere: number;
  /** Actions withdrawn by this job, since their attestations were revoked. */
  @ApiProperty({ type: 'integer' })
  withdrawn: number;
}

export class IngestionDto {
  job_id: string;
  /** The TRIS that the history counts for; null for an organization's key. */
  tris_id: string | null;
  wallet: string;
  chain_id: number;
  /** The state of the job. */
  @ApiProperty({ enum: JOB_STATUSES })
  status: JobStatus;
  progress: IngestionProgressDto;
  result: IngestionResultDto | null;
  error: string | null;
  started_at: string;
  finished_at: string | null;
}
